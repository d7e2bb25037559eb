"""How files are damaged: bytes at random places, or header and arrays under the digest that belongs to them."""

from __future__ import annotations

import json
import struct
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from mergesvm.files import container
from mergesvm.files.container import read_container, read_kind

HUGE: tuple[int, ...] = (2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**63 - 1, 2**63, 2**64 - 1, 0, 255, 65536)


def mutate(data: bytes, random: np.random.Generator) -> bytes:
    """A few damages at random places."""
    for _ in range(int(random.choice([1, 1, 1, 2, 4]))):
        if not data:
            return data
        at, n = int(random.integers(len(data))), int(random.choice([1, 2, 4, 8, 16, 64]))
        how = int(random.integers(8))
        if how == 0:
            data = data[:at] + bytes([data[at] ^ (1 << int(random.integers(8)))]) + data[at + 1 :]
        elif how == 1:
            data = data[:at] + bytes([int(random.choice([0, 255]))]) * len(data[at : at + n]) + data[at + n :]
        elif how == 2:
            data = data[:at] + random.bytes(len(data[at : at + n])) + data[at + n :]
        elif how == 3:
            data = data[:at] + random.bytes(n) + data[at:]
        elif how == 4:
            data = data[:at] + data[at + n :]
        elif how == 5:
            other = int(random.integers(len(data)))
            low, high = sorted((at, other))
            data = data[:low] + data[high : high + n] + data[low + n : high] + data[low : low + n] + data[high + n :]
        else:
            form = str(random.choice(["<I", ">I", "<Q", ">Q"]))
            value = struct.pack(form, HUGE[int(random.integers(len(HUGE)))] % 2 ** (8 * struct.calcsize(form)))
            data = data[:at] + value + data[at + len(value) :]
    return data


HOSTILE: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 2**31, 2**63, 10**30, 10**400, 0.5, -2.0, 1e300, 5e-324),
    *("", "x", "no", "yes", "text", "whole number", "float32", "\ud800", "[/]", "\x1b[2J", "\0", "9" * 5000),
    *([], {}, [[]], [None], ["no", "no"], {"class": "no"}, [{"class": "no", "weight": 1}]),
)
NUMBERS = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, -1e300, 1.7e308, 1e-300, 5e-324, 1e18, 0.5)


def forge(pristine: Path, target: Path, random: np.random.Generator) -> None:
    """A file with a hostile header or hostile arrays, under the digest that belongs to them."""
    kind = read_kind(pristine)
    header, arrays = read_container(pristine, kind)
    fields, arrays = json.loads(json.dumps(header.fields)), {name: array.copy() for name, array in arrays.items()}
    if random.random() < 0.5:
        for _ in range(int(random.choice([1, 1, 2]))):
            _spoil(fields, random)
    if random.random() < 0.1:
        _relabel(fields, random)
    text = json.dumps(fields)
    if random.random() < 0.1:
        text = mutate(text.encode(), random).decode("utf-8", "replace")
    with np.errstate(all="ignore"):
        for _ in range(int(random.choice([0, 1, 1, 2]))):
            _change_array(arrays, str(random.choice(sorted(arrays))), random)
    labels = {"format": str(container.FORMAT), "kind": f"mergesvm {kind}", "header": text}
    labels["sha256"] = container._digest(kind, text, arrays)
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, target, labels)


def _change_array(arrays: dict[str, Any], name: str, random: np.random.Generator) -> None:
    """Change an array beyond what is valid, or by just so much that it may still be."""
    array, how = arrays[name], random.integers(12)
    if how < 4 and array.size:
        places = random.integers(array.size, size=int(random.choice([1, 2, array.size])))
        values = random.choice(NUMBERS, size=places.shape)
        if array.dtype.kind == "i":
            values = random.choice(np.array(HUGE, dtype=np.uint64), size=places.shape).view(np.int64)
        array.reshape(-1)[places] = values
    elif how < 9 and array.size:
        _change_a_little(array, random)
    elif how == 9:
        arrays[name] = array[..., None] if random.random() < 0.5 else array[:0]
    elif how == 10:
        arrays[name] = array.astype(random.choice(["<f4", "<i8", "<f8", "u1", "<i4"]))
    else:
        arrays[str(random.choice(["extra", "grams", "a" * 300]))] = arrays.pop(name)


def _change_a_little(array: Any, random: np.random.Generator) -> None:
    """Scale, negate, exchange or shift numbers, which may leave an array that nothing refuses."""
    flat, at, other = array.reshape(-1), *random.integers(array.size, size=2).tolist()
    factor = float(random.choice([-1.0, 0.0, 0.5, 1 + 1e-6, 1.5, 1e-12, 1e12, 1e-90, 1e90]))
    match int(random.integers(5)):
        case 0:
            flat[at : at + 1] = (flat[at : at + 1] * factor).astype(flat.dtype)
        case 1:
            flat[:] = (flat * factor).astype(flat.dtype)
        case 2:
            flat[[at, other]] = flat[[other, at]]
        case 3:
            flat[at] = flat[other]
        case _:
            flat[:] = flat[random.permutation(flat.size)]


LABELS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("text", ("", " ", "\ud800", "\u202e", "é" * 1000, "<script>", "a\0b", "\U0001f600")),
    ("whole number", (-(10**400), -(2**63), -1, 0, 1, 2**53 + 1, 2**63, 2**64, 10**300)),
    ("decimal", (-1e300, -0.0, 1.0, 2.0**53, 1e22, 1.7e308)),
    ("boolean", (False, True)),
)


def _relabel(fields: dict[str, Any], random: np.random.Generator) -> None:
    """Give the classes other labels, of a kind that suits them."""
    if "classes" in fields and isinstance(fields["classes"], list):
        kind, values = LABELS[int(random.integers(len(LABELS)))]
        count = min(len(fields["classes"]), len(values))
        fields["labels"] = kind
        fields["classes"] = sorted(values[int(at)] for at in random.permutation(len(values))[:count])


def _spoil(node: Any, random: np.random.Generator) -> None:
    """Replace, remove or double something in a tree of plain values."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[int(random.integers(len(keys)))]
        if isinstance(node[key], (dict, list)) and node[key] and random.random() < 0.6:
            node = node[key]
            continue
        how = random.integers(6)
        if how == 0:
            del node[key]
        elif how == 1 and isinstance(node, list):
            node.append(deepcopy(node[key]))
        elif how == 2 and isinstance(node, list):
            node.reverse()
        else:
            node[key] = deepcopy(HOSTILE[int(random.integers(len(HOSTILE)))])
        return
