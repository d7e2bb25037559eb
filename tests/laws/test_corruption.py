"""Damaged files end in an error of ours, or are other valid data: no crash, no hang, no error of others.

Every kind of file is cut short and mutated, in processes of their own: one that dies names the case that killed it. A
case is made again with ``python tests/laws/test_corruption.py FOLDER KIND FIRST STOP``.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import gzip
import io
import json
import os
import resource
import struct
import subprocess
import sys
import textwrap
import threading
import time
import unicodedata
import warnings
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from safetensors.numpy import save_file
from scipy import sparse

import mergesvm as ms
from hunting import examples, seed
from mergesvm.cli.main import main
from mergesvm.data.paths import find_files
from mergesvm.data.readers.registry import reader_classes, reader_for
from mergesvm.errors import FileError, MergeSVMError
from mergesvm.features import Chain, FeatureMap, Fourier, Nystroem, Patches
from mergesvm.files import container
from mergesvm.files.container import read_container, read_kind
from mergesvm.knowledge.provenance import Origin

pytestmark = pytest.mark.xdist_group("corruption")  # what all of them need takes half a minute: once, not twice

MUTATIONS = int(os.environ.get("MERGESVM_MUTATIONS", examples(80)))
CUTS = 50 if MUTATIONS < 10_000 else 1 << 20
WORKERS = 2
HELPERS = os.environ | {
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
}
HANG_SECONDS, SLOW_SECONDS = 20.0, 1.0
MOST_GROWTH, MOST_ADDRESSES = 300 * 2**20, 3 * 2**30

rng = np.random.default_rng(7)
X = np.round(rng.normal(size=(24, 3)), 2)
COLOURS = ["red", "green", "blue", "red"] * 6
ANSWERS = ["no", "yes", "no", "maybe", "yes", "no"] * 4
PIXELS = rng.integers(0, 256, size=(24, 2, 2), dtype=np.uint8)
DIGITS = np.array([0, 1, 2, 1] * 6, dtype=np.uint8)
IMAGES = rng.integers(0, 256, size=(24, 16), dtype=np.uint8)


def table() -> pa.Table:
    return pa.table(
        {
            "a": X[:, 0],
            "b": X[:, 1].astype(np.float32),
            "c": pa.array(COLOURS).dictionary_encode(),
            "n": pa.array([None, *range(1, 24)], pa.int16()),
            "y": pa.array(ANSWERS).dictionary_encode(),
        }
    )


def write_parquet(path: Path, **options: Any) -> None:
    pq.write_table(table(), path, row_group_size=12, write_page_checksum="checked" in path.name, **options)


def write_ipc(path: Path, open_it: Callable[..., Any], compression: str | None = None) -> None:
    with open_it(path, table().schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table(), max_chunksize=12)


def write_csv(path: Path) -> None:
    packing = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with pa.output_stream(path, compression=packing) as stream:
        csv.write_csv(table().cast(_plain_schema()), stream)


def _plain_schema() -> pa.Schema:
    texts = {"c": pa.string(), "y": pa.string()}
    return pa.schema([(one.name, texts.get(one.name, one.type)) for one in table().schema])


def write_libsvm(path: Path) -> None:
    lines = [
        f"{label} qid:1 " + " ".join(f"{i}:{v!r}" for i, v in enumerate(row.tolist(), 1) if v > -0.5) + " # why\n"
        for label, row in zip(DIGITS, X, strict=True)
    ]
    text = "".join(lines).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def write_npy(path: Path) -> None:
    np.save(path, np.column_stack([X, DIGITS]))


def write_npz(path: Path, write: Callable[..., None] = np.savez_compressed) -> None:
    write(path, X=X.astype(np.float32), y=np.array(ANSWERS))


def write_idx(path: Path) -> None:
    labels = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    for file, array in ((path, PIXELS), (labels, DIGITS)):
        data = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
        file.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def knowledge(per_class: bool = True) -> ms.Knowledge:
    weights = None if per_class else {"no": 1.0, "yes": 2.5, "maybe": 0.5}
    names = ["size", "côté", "[/]"]
    whole = ms.learn(X + 1e4, ANSWERS, feature_names=names, per_class=per_class, class_weight=weights)
    part = ms.learn(X[:6] + 1e4, ANSWERS[:6], feature_names=names, per_class=per_class, class_weight=weights)
    return whole - part


def write_knowledge(path: Path) -> None:
    knowledge("pooled" not in path.name).save(path)


def write_folds(path: Path) -> None:
    """Folds by rows, or as given, with rows that are never held out and pieces about anchors of their own."""
    rows, names = X + 1e4, ["size", "côté", "[/]"]
    whole = ms.learn(rows, ANSWERS, feature_names=names, folds=3)
    if "given" in path.name:
        numbers = np.arange(24) // 3 % 4 - 1
        whole = ms.learn(rows, ANSWERS, feature_names=names, folds=numbers)
        whole = whole + ms.learn(rows[:9] + 1e3, ANSWERS[:9], feature_names=names, folds=numbers[:9] * 0 + 2)
    else:
        whole = whole - ms.learn(rows[:6], ANSWERS[:6], feature_names=names, folds=3)
    whole.save(path)


def write_model(path: Path) -> None:
    ms.solve(knowledge(), multiclass="ovo" if "pairs" in path.name else "ovr", class_weight="balanced").save(path)


def write_pegasos(path: Path) -> None:
    weights = {"no": 1.0, "yes": 2.5, "maybe": 0.5}
    ms.PegasosSVC(1e-2, 50, class_weight=weights, n_jobs=1).fit(X, ANSWERS).model_.save(path)


def write_calibrated(path: Path) -> None:
    """A model of planes or of support vectors, calibrated by the method in its name."""
    method = "platt" if "platt" in path.name else "isotonic"
    model: Any = ms.solve(knowledge(), multiclass="ovo" if "pairs" in path.name else "ovr")
    if "kernel" in path.name:
        model = ms.ParallelKernelSVC(gamma=0.1, n_jobs=1).fit(X, ANSWERS).model_
    model.calibrated(X if "kernel" in path.name else X + 1e4, ANSWERS, method=method).save(path)


def write_kernel(path: Path) -> None:
    """A kernel model, with support vectors that are sparse, bytes or of float64, as the name says."""
    rows: Any = IMAGES if "bytes" in path.name else X
    terms: dict[str, Any] = {"kernel": "poly", "degree": 2} if "bytes" in path.name else {"beta": 1.0, "units": 2}
    if "sparse" in path.name:
        rows = sparse.random_array((24, 30), density=0.1, rng=np.random.default_rng(7), format="csr")
        terms = {"precision": "float32", "class_weight": {"no": 1.0, "yes": 2.5, "maybe": 0.5}}
    ms.ParallelKernelSVC(gamma=0.1, n_jobs=1, **terms).fit(rows, ANSWERS).model_.save(path)
    # What float32 needs is compiled before any clock runs.
    ms.ParallelKernelSVC(precision="float32", n_jobs=1).fit(X, ANSWERS).predict(X)


def plan(name: str) -> FeatureMap:
    """A map of tiny images: of their patches, or of landmarks among them."""
    wanted = Chain([Patches(3, size=2, padding=1, pooling=2), Fourier(6)]) if "chain" in name else Nystroem(5)
    return wanted.freeze(IMAGES)


def write_features(path: Path) -> None:
    plan(path.name).save(path)


def write_mapped(path: Path) -> None:
    learned = ms.learn(IMAGES, ANSWERS, features=plan(path.name))
    if path.suffix == ".knowledge":
        (learned - ms.learn(IMAGES[:6], ANSWERS[:6], features=learned.features)).save(path)
    else:
        ms.solve(learned, multiclass="ovo" if "chain" in path.name else "ovr").save(path)


# What is done with a file; every way to fail but an error of ours is a finding.


def use_data(path: Path, terms: dict[str, Any]) -> None:
    scan = ms.scan(path, **terms)
    learned = ms.learn(scan)
    assert all(np.isfinite(array).all() for array in learned.arrays()), "knowledge that is not finite"
    assert learned.width == scan.width == len(learned.anchor), "knowledge of a wrong width"
    assert learned.labels == tuple(sorted(set(learned.labels))), f"classes {learned.labels}"
    assert learned.rows.sum() == scan.rows or "weight" in terms, "rows that are not counted"
    like = terms.get("like")
    assert like is None or learned.signature.names == like.signature.names, "knowledge of other features"


def use_sealed(path: Path, _: dict[str, Any]) -> None:
    """A file of ours whose digest is as it was made: it fails, or its content is the same to the last bit."""
    kind = read_kind(path.with_name("pristine"))
    original = read_container(path.with_name("pristine"), kind)
    loaders = {"model": ms.load_model, "features": ms.features.load, "folds": ms.Folds.load}
    loaders.get(kind, ms.Knowledge.load)(path)
    header, arrays = read_container(path, read_kind(path))
    assert header.fields == original[0].fields, "another header"
    assert {k: v.tobytes() for k, v in arrays.items()} == {k: v.tobytes() for k, v in original[1].items()}, "arrays"


def use_forged_knowledge(path: Path, _: dict[str, Any]) -> None:
    """A file whose digest was made to match: it fails when it is read, or can be used as any other."""
    loaded = ms.Knowledge.load(path)
    assert all(np.isfinite(array).all() for array in loaded.arrays()), "knowledge that is not finite"
    repr(loaded), repr(loaded.signature), (loaded + loaded) - loaded
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.errors.SolverWarning)
        use_model(ms.solve(loaded))


def use_forged_folds(path: Path, _: dict[str, Any]) -> None:
    """Folds whose digest was made to match: they fail when they are read, or can be used as any other."""
    loaded = ms.Folds.load(path)
    repr(loaded), (loaded + loaded) - loaded
    left = [loaded.train(fold) for fold in range(len(loaded))]
    for piece in (loaded.total, *loaded, *left):
        assert all(np.isfinite(array).all() for array in piece.arrays()), "knowledge that is not finite"
    assert all((piece.rows > 0).all() for piece in left), "classes without rows"
    loaded.save(path.with_name("again"))
    assert ms.Folds.load(path.with_name("again")).rows.tolist() == loaded.rows.tolist(), "other folds"
    path.with_name("again").unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.errors.SolverWarning)
        use_model(ms.solve(left[0]))


def use_forged_features(path: Path, _: dict[str, Any]) -> None:
    """A map whose digest was made to match: it fails when it is read, or maps rows as any other."""
    loaded = ms.features.load(path)
    repr(loaded), str(loaded), hash(loaded)
    for rows in (np.zeros((2, loaded.layout.width)), np.full((3, loaded.layout.width), 1e3)):
        mapped = loaded.transform(rows)
        assert mapped.shape == (len(rows), loaded.width), "features of a wrong width"
        assert np.isfinite(mapped).all(), "features that are not finite"
    learned = ms.learn(rows, ANSWERS[:3], features=loaded)
    assert all(np.isfinite(array).all() for array in learned.arrays()), "knowledge that is not finite"


def use_forged_model(path: Path, _: dict[str, Any]) -> None:
    use_model(ms.load_model(path))


def use_forged_calibrated(path: Path, _: dict[str, Any]) -> None:
    """A calibrated model whose digest was made to match: whatever the scores, shares are finite and add to 1."""
    model = ms.load_model(path)
    use_model(model)
    for scores in (np.zeros((2, len(model.coef_))), np.linspace(-1e300, 1e300, len(model.coef_))[None]):
        shares = model.probabilities(scores)
        assert np.isfinite(shares).all(), "probabilities that are not finite"
        assert np.allclose(shares.sum(axis=1), 1), "probabilities that do not add to 1"


def use_model(model: Any) -> None:
    repr(model)
    assert np.isfinite(model.coef_).all(), "coefficients that are not finite"
    assert np.isfinite(model.intercept_).all(), "intercepts that are not finite"
    rows = np.zeros((2, model.signature.inputs)) + (0.0 if model.signature.mapped else model.anchor_)
    assert set(model.predict(rows).tolist()) <= set(model.labels), "classes that are not known"
    assert np.isfinite(model.predict_proba(rows)).all(), "probabilities that are not finite"


def use_forged_kernel(path: Path, _: dict[str, Any]) -> None:
    """A kernel model whose digest was made to match: it fails when it is read, or scores rows as any other."""
    model = ms.load_model(path)
    repr(model)
    vectors = model.support_vectors_
    assert vectors.shape == (model.n_support_.sum(), model.signature.inputs), "vectors of a wrong shape"
    assert np.isfinite(model.dual_coef_).all(), "coefficients that are not finite"
    assert np.isfinite(model.intercept_).all(), "intercepts that are not finite"
    for rows in (np.zeros((2, model.signature.inputs)), vectors[:3], sparse.csr_array(vectors[:3])):
        if rows.shape[0]:
            assert set(model.predict(rows).tolist()) <= set(model.classes_.tolist()), "classes that are not known"
            assert np.isfinite(model.predict_proba(rows)).all(), "probabilities that are not finite"
            assert np.isfinite(model.decision_function(rows)).all(), "decisions that are not finite"


# How files are damaged.

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
    if random.random() < 0.6:
        for _ in range(int(random.choice([1, 1, 2]))):
            _spoil(fields, random)
    text = json.dumps(fields)
    if random.random() < 0.15:
        text = mutate(text.encode(), random).decode("utf-8", "replace")
    if random.random() < 0.6:
        name = str(random.choice(sorted(arrays)))
        array, how = arrays[name], random.integers(8)
        if how < 5 and array.size:
            places = random.integers(array.size, size=int(random.choice([1, 2, array.size])))
            values = random.choice(NUMBERS, size=places.shape)
            if array.dtype.kind == "i":
                values = random.choice(np.array(HUGE, dtype=np.uint64), size=places.shape).view(np.int64)
            with np.errstate(all="ignore"):
                array.reshape(-1)[places] = values
        elif how == 5:
            arrays[name] = array[..., None] if random.random() < 0.5 else array[:0]
        elif how == 6:
            arrays[name] = array.astype(random.choice(["<f4", "<i8", "<f8", "u1", "<i4"]))
        else:
            arrays[str(random.choice(["extra", "grams", "a" * 300]))] = arrays.pop(name)
    labels = {"format": str(container.FORMAT), "kind": f"mergesvm {kind}", "header": text}
    labels["sha256"] = container._digest(kind, text, arrays)
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, target, labels)


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


@dataclass(frozen=True)
class Kind:
    """One kind of files: how they are written, read, and what is asked of them."""

    file: str
    write: Callable[[Path], None]
    use: Callable[[Path, dict[str, Any]], None]
    terms: tuple[dict[str, Any], ...] = ({},)
    forged: bool = False
    within: bool = False
    """Whether what lies in an archive is damaged, and not the archive."""

    def pristine(self, folder: Path) -> list[tuple[Path, bytes]]:
        """The files as they should be, the main one first."""
        for old in folder.iterdir():
            old.unlink()
        self.write(folder / self.file)
        first = folder / self.file
        found = sorted(folder.iterdir(), key=lambda path: path != first)
        return [(path, path.read_bytes()) for path in found]


TABLES: tuple[dict[str, Any], ...] = (
    {"label": "y", "features": ["a", "b", "c"], "categories": {"c": ["red", "green", "blue"]}},
    {"label": "y", "missing": "drop", "categories": "auto"},
    {"label": "y", "features": ["a", "b", "c"], "categories": {"c": ["red", "green"]}, "unknown": "zero"},
    {"label": "y", "features": ["a", "b"], "missing": "drop", "weight": "n", "keep": ["c"]},
)
SPARSE = ({"width": 3}, {"width": 3})
COLUMN = ({"label": 3}, {"label": -1})
ARRAYS = ({"label": "y"},)

KINDS: dict[str, Kind] = {
    "parquet": Kind(
        "t.parquet", lambda p: write_parquet(p, compression="none", use_dictionary=False), use_data, TABLES
    ),
    "parquet checked": Kind("checked.parquet", lambda p: write_parquet(p, compression="none"), use_data, TABLES),
    "parquet snappy": Kind("t.parquet", lambda p: write_parquet(p, compression="snappy"), use_data, TABLES),
    "parquet zstd pages 2": Kind(
        "t.pq", lambda p: write_parquet(p, compression="zstd", data_page_version="2.0"), use_data, TABLES
    ),
    "parquet gzip checked": Kind("checked.parquet", lambda p: write_parquet(p, compression="gzip"), use_data, TABLES),
    "feather": Kind("t.feather", lambda p: write_ipc(p, pa.ipc.new_file), use_data, TABLES),
    "feather lz4": Kind("t.feather", lambda p: write_ipc(p, pa.ipc.new_file, "lz4"), use_data, TABLES),
    "stream": Kind("t.arrows", lambda p: write_ipc(p, pa.ipc.new_stream), use_data, TABLES),
    "stream zstd": Kind("t.arrow", lambda p: write_ipc(p, pa.ipc.new_stream, "zstd"), use_data, TABLES),
    "csv": Kind("t.csv", write_csv, use_data, TABLES),
    "csv gzip": Kind("t.csv.gz", write_csv, use_data, TABLES),
    "csv zstd": Kind("t.csv.zst", write_csv, use_data, TABLES),
    "libsvm": Kind("t.libsvm", write_libsvm, use_data, SPARSE),
    "libsvm gzip": Kind("t.svm.gz", write_libsvm, use_data, SPARSE),
    "npy": Kind("t.npy", write_npy, use_data, COLUMN),
    "npz": Kind("t.npz", write_npz, use_data, ARRAYS),
    "npz stored": Kind("t.npz", lambda p: write_npz(p, np.savez), use_data, ARRAYS),
    "npz within": Kind("t.npz", write_npz, use_data, ARRAYS, within=True),
    "idx": Kind("t-images-idx3-ubyte", write_idx, use_data),
    "idx gzip": Kind("t-images-idx3-ubyte.gz", write_idx, use_data),
    "knowledge": Kind("k.knowledge", write_knowledge, use_sealed),
    "knowledge pooled": Kind("pooled.knowledge", write_knowledge, use_sealed),
    "folds": Kind("f.knowledge", write_folds, use_sealed),
    "folds as given": Kind("given.knowledge", write_folds, use_sealed),
    "forged folds": Kind("f.knowledge", write_folds, use_forged_folds, forged=True),
    "forged folds as given": Kind("given.knowledge", write_folds, use_forged_folds, forged=True),
    "model": Kind("m.msvm", write_model, use_sealed),
    "model of pairs": Kind("pairs.msvm", write_model, use_sealed),
    "forged knowledge": Kind("k.knowledge", write_knowledge, use_forged_knowledge, forged=True),
    "forged pooled knowledge": Kind("pooled.knowledge", write_knowledge, use_forged_knowledge, forged=True),
    "forged model": Kind("m.msvm", write_model, use_forged_model, forged=True),
    "forged model of pairs": Kind("pairs.msvm", write_model, use_forged_model, forged=True),
    "model by Pegasos": Kind("pegasos.msvm", write_pegasos, use_sealed),
    "forged model by Pegasos": Kind("pegasos.msvm", write_pegasos, use_forged_model, forged=True),
    "calibrated model": Kind("isotonic.msvm", write_calibrated, use_sealed),
    "forged calibrated model": Kind("isotonic.msvm", write_calibrated, use_forged_calibrated, forged=True),
    "forged calibrated model of pairs": Kind("platt-pairs.msvm", write_calibrated, use_forged_calibrated, forged=True),
    "forged calibrated kernel model": Kind("kernel.msvm", write_calibrated, use_forged_kernel, forged=True),
    "kernel model": Kind("kernel.msvm", write_kernel, use_sealed),
    "sparse kernel model": Kind("sparse.msvm", write_kernel, use_sealed),
    "forged kernel model": Kind("kernel.msvm", write_kernel, use_forged_kernel, forged=True),
    "forged kernel model of bytes": Kind("bytes.msvm", write_kernel, use_forged_kernel, forged=True),
    "forged sparse kernel model": Kind("sparse.msvm", write_kernel, use_forged_kernel, forged=True),
    "features": Kind("f.features", write_features, use_sealed),
    "features in a chain": Kind("chain.features", write_features, use_sealed),
    "mapped knowledge": Kind("f.knowledge", write_mapped, use_sealed),
    "mapped model": Kind("chain.msvm", write_mapped, use_sealed),
    "forged features": Kind("f.features", write_features, use_forged_features, forged=True),
    "forged features in a chain": Kind("chain.features", write_features, use_forged_features, forged=True),
    "forged mapped knowledge": Kind("f.knowledge", write_mapped, use_forged_knowledge, forged=True),
    "forged knowledge of a chain": Kind("chain.knowledge", write_mapped, use_forged_knowledge, forged=True),
    "forged mapped model": Kind("f.msvm", write_mapped, use_forged_model, forged=True),
    "forged model of a chain": Kind("chain.msvm", write_mapped, use_forged_model, forged=True),
}


def cuts(kind: Kind, length: int) -> list[int]:
    """The lengths to which a file is cut: all of them, or some with all at the beginning and at the end."""
    if kind.forged or kind.within:
        return []
    if length <= CUTS:
        return list(range(length))
    edge = CUTS // 4
    middle = np.linspace(edge, length - edge, CUTS - 2 * edge).astype(int).tolist()
    return sorted({*range(edge), *middle, *range(length - edge, length)})


def damage(kind: Kind, files: list[tuple[Path, bytes]], case: int) -> None:
    """Write the files of one case."""
    path, data = files[0]
    for other, content in files[1:]:
        other.write_bytes(content)
    lengths, random = cuts(kind, len(data)), np.random.default_rng(seed(case, len(data)))
    if kind.forged:
        forge(path.with_name("pristine"), path, random)
        return
    if case < len(lengths):
        path.write_bytes(data[: lengths[case]])
        return
    if kind.within:
        packed = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
            victim = str(random.choice(old.namelist()))
            for name in old.namelist():
                new.writestr(name, mutate(old.read(name), random) if name == victim else old.read(name))
        path.write_bytes(packed.getvalue())
        return
    victims = [(p, d) for p, d in files if p.name != "pristine"]
    path.write_bytes(data)
    victim, content = victims[int(random.integers(len(victims)))]
    victim.write_bytes(mutate(content, random))


# The process in which it happens.


def attempt(kind: Kind, path: Path, terms: dict[str, Any]) -> tuple[str, str]:
    """What became of one file: "fine", "refused", or what is wrong."""
    try:
        kind.use(path, terms)
    except MergeSVMError as error:
        if kind.use is use_sealed and not isinstance(error, FileError):
            return "wrong", f"{type(error).__name__}: {error}"
        if not str(error).strip() or len(str(error)) > 5000:
            return "wrong", f"an error of {len(str(error))} characters: {str(error)[:200]!r}"
        return "refused", type(error).__name__
    except BaseException as error:  # noqa: BLE001 - that is what is looked for
        import traceback

        frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
        return "wrong", f"{type(error).__name__}: {str(error)[:300]} ({' '.join(frames)})"
    return "fine", ""


def handles() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208


def work(folder: Path, name: str, first: int, stop: int) -> None:
    """Go through cases; say on the standard output, in JSON, what became of them."""
    kind, stray = KINDS[name], []
    warnings.simplefilter("error")
    sys.unraisablehook = lambda found: stray.append(f"unraisable {found.exc_value!r}")
    threading.excepthook = lambda found: stray.append(f"in a thread {found.exc_value!r}")
    # What is whole is read without the limit that the kind before was given.
    resource.setrlimit(resource.RLIMIT_AS, (resource.getrlimit(resource.RLIMIT_AS)[1],) * 2)
    folder.mkdir(exist_ok=True)
    files = kind.pristine(folder)
    path = files[0][0]
    if kind.use is not use_data:
        path.with_name("pristine").write_bytes(files[0][1])
    likes: list[Any] = [None] * len(kind.terms)
    for index, terms in enumerate(kind.terms):
        outcome = attempt(kind, path, terms)
        assert outcome[0] == "fine", f"{name}, undamaged: {outcome}"
        likes[index] = ms.learn(ms.scan(path, **terms)) if kind.use is use_data else None
    high, threads, open_files = peak(), threading.active_count(), handles()
    addresses = MOST_ADDRESSES + 1024 * next(
        int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize")
    )
    resource.setrlimit(resource.RLIMIT_AS, (addresses, resource.getrlimit(resource.RLIMIT_AS)[1]))
    tally: dict[str, int] = {}
    total = len(cuts(kind, len(files[0][1]))) + MUTATIONS
    for case in range(first, min(stop, total)):
        say(kind=name, case=case)
        damage(kind, files, case)
        terms = kind.terms[case % len(kind.terms)]
        like = likes[case % len(kind.terms)]
        if like is not None and case % 3 == 0:
            terms = {key: value for key, value in terms.items() if key not in ("features", "categories")}
            terms = {**terms, "like": like}
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        began = time.process_time()
        outcome, what = attempt(kind, path, terms)
        took = time.process_time() - began
        faulthandler.cancel_dump_traceback_later()
        found = [what] if outcome == "wrong" else []
        if took > SLOW_SECONDS:
            found.append(f"it took {took:.1f} s")
        if peak() > high + MOST_GROWTH:
            found.append(f"it took {(peak() - high) / 2**20:,.0f} MB")
            high = peak()
        if threading.active_count() != threads or handles() != open_files:
            gc.collect()
        if threading.active_count() != threads:
            found.append(f"threads left: {threading.enumerate()}")
            threads = threading.active_count()
        if handles() != open_files:
            found.append(f"{handles()} open files instead of {open_files}")
            open_files = handles()
        found += stray
        stray.clear()
        for failure in found:
            say(kind=name, case=case, failure=failure)
        key = what if outcome == "refused" else outcome
        tally[key] = tally.get(key, 0) + 1
    say(kind=name, tally=tally)


def peak() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


# The tests.


@dataclass
class Outcome:
    failures: list[str] = field(default_factory=list)
    tally: dict[str, int] = field(default_factory=dict)


def campaign(folder: Path, names: list[str]) -> dict[str, Outcome]:
    """What became of all cases of some kinds of files; a process that dies is followed by another."""
    outcomes = {name: Outcome() for name in names}
    left = [(name, 0) for name in names]
    while left:
        arguments = [part for name, first in left for part in (name, str(first), str(1 << 40))]
        command = [sys.executable, str(Path(__file__)), str(folder), *arguments]
        done = subprocess.run(
            command, env=HELPERS, capture_output=True, text=True, timeout=60 + MUTATIONS * len(left), check=False
        )
        at = (left[0][0], left[0][1])
        for line in done.stdout.splitlines():
            what = json.loads(line)
            outcome = outcomes[what["kind"]]
            if "tally" in what:
                for key, count in what["tally"].items():
                    outcome.tally[key] = outcome.tally.get(key, 0) + count
                left = [item for item in left if item[0] != what["kind"]]
            elif "failure" in what:
                outcome.failures.append(f"case {what['case']}: {what['failure']}")
            else:
                at = (what["kind"], what["case"])
        if done.returncode == 0:
            break
        name, case = at
        outcomes[name].failures.append(f"case {case}: the process ended with {done.returncode}: {done.stderr[-1500:]}")
        others = [item for item in left if item[0] != name]
        given_up = len(others) == len(left) or "undamaged" in done.stderr or len(outcomes[name].failures) > 20
        left = others if given_up else [(name, case + 1), *others]
    return outcomes


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What became of the kinds that are asked for: at length, that takes hours for all of them."""
    calls = [getattr(item, "callspec", None) for item in request.session.items]
    asked = {call.params.get("name") for call in calls if call is not None}
    kinds = [name for name in KINDS if name in asked]
    parts = [kinds[start::WORKERS] for start in range(WORKERS)]
    folders = [tmp_path_factory.mktemp("corruption") for _ in parts]
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(campaign, folders, parts))
    return {name: outcome for part in found for name, outcome in part.items()}


@pytest.mark.parametrize("name", list(KINDS))
def test_a_damaged_file_ends_in_an_error_of_ours_or_is_other_valid_data(name, outcomes):
    outcome = outcomes[name]
    assert not outcome.failures, "\n".join(outcome.failures[:10])
    assert sum(outcome.tally.values()) >= MUTATIONS
    assert sum(outcome.tally.values()) > outcome.tally.get("fine", 0), "no damage was noticed at all"


def test_every_reader_has_a_file_that_is_damaged_here(tmp_path):
    for kind in KINDS.values():
        if kind.use is use_data:
            kind.write(tmp_path / kind.file)
    samples = {reader_for(file, None) for file in find_files(tmp_path)}
    assert samples == set(reader_classes())


# Attacks that chance would hardly find.


def alone(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own, with little memory to spare; its last line says how it ended, and the peak."""
    frame = f"""
import os, resource, sys
from pathlib import Path
import numpy as np, pyarrow as pa
import mergesvm as ms
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
{textwrap.indent(code, "    ")}
except ms.errors.MergeSVMError as error:
    print(type(error).__name__, end=" ")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    command = [sys.executable, "-c", frame, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def megabytes(done: subprocess.CompletedProcess[str], *outcomes: str) -> int:
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-2000:]}"
    outcome, peak = done.stdout.split()[-2:]
    assert outcome in outcomes, done.stdout
    return int(peak)


def test_a_parquet_footer_with_an_unknown_codec_does_not_end_the_process(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": X[:, 0], "y": ANSWERS}), path, compression="none")
    data = path.read_bytes()
    # Thrift: a list of one text "a" is the path of the column, and the codec follows.
    damaged = data.replace(b"\x19\x18\x01a\x15\x00", b"\x19\x18\x01a\x15\x40")
    assert damaged != data
    path.write_bytes(damaged)
    megabytes(alone("ms.learn(ms.scan('t.parquet', label='y'))", tmp_path), "MalformedFileError")


@pytest.mark.parametrize("name", ["t.feather", "t.npy"])
def test_a_file_that_is_cut_short_while_it_is_read_does_not_end_the_process(name, tmp_path):
    rows = np.ones((400_000, 3))
    if name == "t.npy":
        np.save(tmp_path / name, rows)
    else:
        whole = pa.table({column: rows[:, index] for index, column in enumerate("aby")})
        with pa.ipc.new_file(tmp_path / name, whole.schema) as writer:
            writer.write_table(whole, max_chunksize=10_000)
    code = """
slices = iter(ms.scan(sys.argv[1], label=sys.argv[2] if sys.argv[2] == "y" else 0, batch_rows=10_000))
next(slices)
os.truncate(sys.argv[1], 5000)
for part in slices:
    part.rows.block(0, part.rows.n_rows).sum()
print("fine", end=" ")
"""
    megabytes(alone(code, tmp_path, name, "0" if name == "t.npy" else "y"), "MalformedFileError", "fine")


def bomb(header: bytes, megabytes_of_zeros: int) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=1) as stream:
        stream.write(header)
        for _ in range(megabytes_of_zeros):
            stream.write(bytes(2**20))
    return packed.getvalue()


def idx_header(*shape: int) -> bytes:
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)


def test_rows_too_wide_to_be_learned_are_refused_before_they_are_unpacked(tmp_path):
    (tmp_path / "t-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_header(256) + bytes(256)))
    (tmp_path / "t-images-idx3-ubyte.gz").write_bytes(bomb(idx_header(256, 2**22), 640))
    done = alone("ms.learn(ms.scan('t-images-idx3-ubyte.gz'))", tmp_path)
    assert megabytes(done, "MalformedFileError", "ParameterError", "DataError") < 400


def test_labels_are_unpacked_only_as_far_as_there_are_rows(tmp_path):
    (tmp_path / "t-labels-idx1-ubyte.gz").write_bytes(bomb(idx_header(2**30), 640))
    (tmp_path / "t-images-idx3-ubyte.gz").write_bytes(bomb(idx_header(2**30, 1), 1))
    assert megabytes(alone("ms.learn(ms.scan('t-images-idx3-ubyte.gz'))", tmp_path), "MalformedFileError") < 400


def test_long_texts_of_an_archive_are_unpacked_piece_by_piece(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("X.npy", "w") as stream:
            np.save(stream, np.zeros((16384, 2), dtype=np.uint8))
        with archive.open("y.npy", "w", force_zip64=True) as stream:
            stream.write(npy_header("'<U16384'", "(16384,)"))
            for _ in range(640):
                stream.write(bytes(2**20))
    done = alone("ms.learn(ms.scan('t.npz', label='y')); print('fine', end=' ')", tmp_path)
    assert megabytes(done, "MalformedFileError", "DataError", "fine") < 400


def test_a_line_without_an_end_is_given_up_soon(tmp_path):
    (tmp_path / "t.svm.gz").write_bytes(bomb(b"1 1:", 640))
    assert megabytes(alone("ms.learn(ms.scan('t.svm.gz', width=3))", tmp_path), "MalformedFileError") < 400


def npy_header(kind: str, shape: str) -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def write_feather(path: Path, **columns: Any) -> Path:
    whole = pa.table(columns)
    with pa.ipc.new_file(path, whole.schema) as writer:
        writer.write_table(whole)
    return path


def coded(values: Any, places: list[int], kind: Any = None) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(places, kind or pa.int8()), values)


def test_rows_whose_label_occurs_twice_in_a_dictionary_all_count(tmp_path):
    path = write_feather(tmp_path / "t.feather", a=[1.0, 2.0, 4.0], y=coded(["x", "x", "z"], [0, 1, 2]))
    learned = ms.learn(ms.scan(path, label="y"))
    assert learned.labels == ("x", "z")
    assert learned.rows.tolist() == [2, 1]
    assert (learned.sums + learned.counts[:, None] * learned.anchor).tolist() == [[3.0], [4.0]]


STRANGE_LABELS = {
    "structs": pa.array([{"a": 1}, {"a": 2}, {"a": 3}]),
    "lists": pa.array([[1], [2], [3]]),
    "bytes": pa.array([b"a", b"b", b"c"]),
    "dates": pa.array([1, 2, 3], pa.date32()),
    "fractions": pa.array([0.5, 1.5, 2.5]),
    "nothing": pa.nulls(3),
}


@pytest.mark.parametrize("kind", list(STRANGE_LABELS))
def test_labels_and_categories_of_a_strange_kind_are_refused(kind, tmp_path):
    """In a process of its own: some of them have ended it."""
    strange = coded(STRANGE_LABELS[kind], [0, 1, 2])
    write_feather(tmp_path / "y.feather", a=[1.0, 2.0, 3.0], y=strange)
    write_feather(tmp_path / "a.feather", a=strange, y=["n", "m", "n"])
    megabytes(alone("ms.learn(ms.scan('y.feather', label='y'))", tmp_path), "MalformedFileError", "DataError")
    code = """
learned = ms.learn(ms.scan("a.feather", label="y"))
learned.save("k")  # what is learned can be kept
print("fine" if ms.Knowledge.load("k").signature == learned.signature else "another", end=" ")
"""
    megabytes(alone(code, tmp_path), "MalformedFileError", "DataError", "fine")


@pytest.mark.parametrize(("count", "kind"), [(128, pa.int8()), (256, pa.uint8())])
def test_a_dictionary_as_large_as_its_places_allow_is_a_category(count, kind, tmp_path):
    column = coded([f"v{index}" for index in range(count)], list(range(count)), kind)
    path = write_feather(tmp_path / "t.feather", a=column, y=["n", "m"] * (count // 2))
    assert ms.learn(ms.scan(path, label="y")).width == count


def test_whole_decimals_are_found_in_their_own_vocabulary(tmp_path):
    path = write_feather(tmp_path / "t.feather", a=coded(pa.array([1.0, 2.0]), [0, 1, 0]), y=["n", "m", "n"])
    assert ms.learn(ms.scan(path, label="y")).width == 2


@pytest.mark.parametrize("name", ["t.npz", "t.npy"])
def test_text_that_is_no_unicode_is_refused(name, tmp_path):
    labels = np.array([0x110000, 0x61, 0xFFFFFFFF], dtype="<u4").view("<U1")
    if name == "t.npz":
        np.savez(tmp_path / name, X=X[:3], y=labels)
    else:
        np.save(tmp_path / name, X[:3])
        np.save(tmp_path / "labels.npy", labels)
    with pytest.raises(MergeSVMError):
        ms.learn(ms.scan(tmp_path / name, label="y" if name == "t.npz" else tmp_path / "labels.npy"))


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_of_any_method_with_a_flipped_byte_is_refused_or_the_same(method, tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w", method) as archive:
        for name, array in (("X", X), ("y", DIGITS)):
            with archive.open(f"{name}.npy", "w") as stream:
                np.save(stream, array)
    data = (tmp_path / "t.npz").read_bytes()
    for at in range(0, len(data), 5):
        (tmp_path / "t.npz").write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        with contextlib.suppress(MergeSVMError):
            assert ms.learn(ms.scan(tmp_path / "t.npz", label="y")).rows.tolist() == [6, 12, 6]


@pytest.mark.parametrize(
    "shape", ["(2**60, 3)", "(1152921504606846976, 3)", "(4, 3L)", "(4, 3", "(4, 1or 3)", "(-4, 3)"]
)
def test_a_header_of_numpy_that_makes_no_sense_is_refused_without_a_warning(shape, tmp_path):
    (tmp_path / "t.npy").write_bytes(npy_header("'<f8'", shape) + X[:4].tobytes())
    try:
        assert ms.learn(ms.scan(tmp_path / "t.npy", label=0)).width == 2
    except MergeSVMError as error:
        assert str(tmp_path) in str(error)  # noqa: PT017


def test_paths_that_cannot_be_are_errors_of_ours(tmp_path):
    for name in ("a\0b.csv", "x" * 300 + ".csv", "x" * 300 + "*.csv", "\udcff.csv", ""):
        with pytest.raises(FileError):
            ms.scan(str(tmp_path / name) if name else "", label="y")


def test_a_name_that_is_no_text_is_an_error_of_ours_or_is_read(tmp_path):
    (tmp_path / "data").mkdir()
    try:
        (tmp_path / "data" / os.fsdecode(b"\xff.csv")).write_text("a,y\n1,p\n2,q\n")
    except OSError:
        pytest.skip("this file system has no such names")
    for path in (tmp_path / "data", tmp_path / "data" / os.fsdecode(b"\xff.csv"), tmp_path / "data" / "*.csv"):
        with contextlib.suppress(MergeSVMError):
            assert ms.learn(ms.scan(path, label="y")).rows.sum() == 2


def test_a_folder_that_links_to_itself_is_read_once(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,p\n2,q\n")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "broken.csv").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.csv")
    try:
        assert ms.learn(ms.scan(tmp_path, label="y")).rows.sum() == 2
    except FileError as error:
        assert "again" in str(error)  # noqa: PT017


def test_labels_alone_are_no_rows(tmp_path):
    (tmp_path / "t-labels-idx1-ubyte").write_bytes(idx_header(3) + b"abc")
    with pytest.raises(MergeSVMError):
        ms.learn(ms.scan(tmp_path / "t-labels-idx1-ubyte"))


@pytest.mark.parametrize("evil", ["\x1b]0;x\x07\x1b[31m", "\x9b31m", "[/]", "[bold]x", "\ud800", "a\rb", "a\u202eb"])
def test_nothing_in_a_file_can_steer_the_terminal(evil, tmp_path, monkeypatch, capsys):
    names = [f"{evil}1", f"{evil}2"]
    learned = ms.learn([[0.0, 1.0], [1.0, 0.0]], [f"{evil}a", "b"], feature_names=names)
    learned = replace(learned, provenance=(Origin(evil, 2, evil),))
    learned.save(tmp_path / "k")
    ms.solve(learned).save(tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    for command in (["inspect", "k"], ["inspect", "m"], ["merge", "k", "k", "-o", f"{evil}/no"], ["inspect", evil]):
        monkeypatch.setattr(sys, "argv", ["mergesvm", *command])
        with pytest.raises(SystemExit):
            main()
        said = "".join(capsys.readouterr())
        said.encode()  # or it could not have been printed
        controls = {character for character in said if unicodedata.category(character) in ("Cc", "Cf")} - {"\n"}
        assert not controls, f"{command} printed {controls}"
        if command == ["inspect", "k"] and "[" in evil and evil.isprintable():
            assert evil in said, "taken for markup"


if __name__ == "__main__":
    base, arguments = Path(sys.argv[1]), sys.argv[2:]
    for chosen, begin, end in zip(arguments[::3], arguments[1::3], arguments[2::3], strict=True):
        work(base / "work", chosen, int(begin), int(end))
