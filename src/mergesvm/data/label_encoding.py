"""Encode labels as small integer codes, without sorting them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import CategoricalLabels, Label, as_labels, label_kind, plain_label
from mergesvm.data.rows.base import spans
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError

MAX_TABLE_SIZE = 1 << 16
"""Integer labels within a smaller range are encoded with a lookup table, others with a dictionary."""

CHUNK_ROWS = 1 << 18
"""Number of labels encoded at a time, to avoid wide copies of all of them."""


@dataclass(frozen=True)
class EncodedLabels:
    """Labels as codes: row ``i`` is of class ``classes[codes[i]]``; rows of code -1 are ignored.

    >>> EncodedLabels.encode(["dog", "cat", "dog"])
    EncodedLabels(kind='text', classes=('cat', 'dog'), codes=array([1, 0, 1], dtype=int8), rows=array([1, 2]))

    Attributes
    ----------
    kind : {"text", "whole number", "decimal", "boolean"} or None
        None if all rows are ignored.
    classes : tuple
        The distinct labels, sorted.
    codes : array of int
    rows : array of int
        Number of rows of each class.
    """

    kind: str | None
    classes: tuple[Label, ...]
    codes: NDArray[np.signedinteger[Any]]
    rows: NDArray[np.int64]

    @classmethod
    def encode(cls, y: Any, counts: NDArray[np.bool_] | None = None) -> EncodedLabels:
        """Encode labels; rows where ``counts`` is false are ignored."""
        array = as_labels(y)
        if isinstance(array, CategoricalLabels):
            return cls(*_encode_coded(array, counts))
        if array.dtype.kind in "biuf":
            found = _encode_by_table(array, counts)
            if found is not None:
                return cls(_KINDS[array.dtype.kind] if found[0] else None, *found)
        return cls(*_encode_by_dictionary(array, counts))

    @classmethod
    def joined(cls, parts: Sequence[EncodedLabels]) -> EncodedLabels:
        """Return the labels of all parts, one after another.

        >>> EncodedLabels.joined([EncodedLabels.encode(["dog", "cat"]), EncodedLabels.encode(["ant"])]).codes
        array([2, 1, 0], dtype=int8)
        """
        kinds = {part.kind for part in parts} - {None}
        if len(kinds) > 1:
            one, other = (next(part for part in parts if part.kind == kind) for kind in sorted(map(str, kinds))[:2])
            raise DataError(
                f"Labels are of different kinds: some are {one.kind} such as {one.classes[0]!r}, others {other.kind} "
                f"such as {other.classes[0]!r}. Convert them to one type."
            )
        classes = tuple(sorted({label for part in parts for label in part.classes}))
        position = {label: code for code, label in enumerate(classes)}
        kind, codes = _code_type(len(classes)), []
        for part in parts:
            table = np.array([*(position[label] for label in part.classes), -1], dtype=kind)  # the last is for code -1
            codes.append(table[part.codes])
        joined = np.concatenate(codes) if codes else np.zeros(0, dtype=kind)
        rows = np.bincount(joined[joined >= 0], minlength=len(classes)).astype(np.int64)
        return cls(next(iter(kinds), None), classes, joined, rows)

    def part(self, start: int, stop: int) -> EncodedLabels:
        """Return the labels of rows ``start`` to ``stop``, with only the classes that occur there."""
        codes = self.codes[start:stop]
        rows = np.bincount(codes[codes >= 0], minlength=len(self.classes))
        present = np.flatnonzero(rows)
        table = np.full(len(self.classes) + 1, -1, dtype=self.codes.dtype)  # the last entry is for code -1
        table[present] = np.arange(len(present))
        classes = tuple(self.classes[index] for index in present)
        return EncodedLabels(self.kind if classes else None, classes, table[codes], rows[present].astype(np.int64))


_KINDS = {"b": "boolean", "i": "whole number", "u": "whole number", "f": "decimal"}


def _encode_by_table(
    array: NDArray[Any], counts: NDArray[np.bool_] | None
) -> tuple[tuple[Label, ...], NDArray[np.signedinteger[Any]], NDArray[np.int64]] | None:
    if not len(array):
        return (), np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f" and not _all_integers(array):
        return None
    low, high = int(array.min()), int(array.max())
    if high - low >= MAX_TABLE_SIZE:
        return None
    chunks = list(spans(len(array), CHUNK_ROWS))
    engine = Threads()

    def count(span: tuple[int, int]) -> NDArray[np.int64]:
        chunk = array[slice(*span)] if counts is None else array[slice(*span)][counts[slice(*span)]]
        return np.bincount(_offsets(chunk, low), minlength=high - low + 1)

    seen = np.sum(engine.map(count, chunks), axis=0)
    present = np.flatnonzero(seen)
    table = np.full(len(seen), -1, dtype=_code_type(len(present)))
    table[present] = np.arange(len(present))
    codes: NDArray[Any] = np.empty(len(array), dtype=table.dtype)

    def encode(span: tuple[int, int]) -> None:
        start, stop = span
        np.take(table, _offsets(array[start:stop], low), out=codes[start:stop], mode="clip")
        if counts is not None:
            codes[start:stop][~counts[start:stop]] = -1

    engine.map(encode, chunks)
    scalar = {"b": bool, "f": float}.get(array.dtype.kind, int)
    return tuple(scalar(low + int(value)) for value in present), codes, seen[present]


def _encode_coded(
    coded: CategoricalLabels, counts: NDArray[np.bool_] | None
) -> tuple[str | None, tuple[Label, ...], NDArray[np.signedinteger[Any]], NDArray[np.int64]]:
    used = coded.codes if counts is None else coded.codes[counts]
    present = np.flatnonzero(np.bincount(used, minlength=len(coded.values))).tolist()
    kinds = {label_kind(coded.values[index]) for index in present}
    classes = tuple(sorted({coded.values[index] for index in present}))  # the dictionary may hold a value twice
    position = {label: index for index, label in enumerate(classes)}
    table = np.full(len(coded.values), -1, dtype=_code_type(len(classes)))
    table[present] = [position[coded.values[index]] for index in present]
    codes = table[coded.codes]
    if counts is not None:
        codes[~counts] = -1
    rows = np.bincount(codes[codes >= 0], minlength=len(classes)).astype(np.int64)
    return next(iter(kinds), None), classes, codes, rows


def _all_integers(array: NDArray[Any]) -> bool:
    # The dictionary encoding names the row that is not an integer.
    for start, stop in spans(len(array), CHUNK_ROWS):
        chunk = array[start:stop].astype(np.float64, copy=False)
        if not ((np.rint(chunk) == chunk) & (np.abs(chunk) < 2**53)).all():
            return False
    return True


def _offsets(chunk: NDArray[Any], low: int) -> NDArray[np.intp]:
    if chunk.dtype.kind != "u" or chunk.dtype.itemsize < 8:
        return chunk.astype(np.intp) - low
    # Unsigned 64-bit labels may exceed the range of signed integers, but their differences do not.
    offsets: NDArray[np.intp] = (chunk - chunk.dtype.type(low)).astype(np.intp)
    return offsets


def _encode_by_dictionary(
    array: NDArray[Any], counts: NDArray[np.bool_] | None
) -> tuple[str | None, tuple[Label, ...], NDArray[np.signedinteger[Any]], NDArray[np.int64]]:
    numbers = np.full(len(array), -1, dtype=np.int32)
    seen: dict[Any, int] = {}
    kinds: dict[type, tuple[str, int, Any]] = {}  # for each type: its kind, first row and first value
    for start, stop in spans(len(array), CHUNK_ROWS):
        for row, value in enumerate(array[start:stop].tolist(), start):
            if counts is None or counts[row]:
                if type(value) not in kinds or value != value:  # a NaN may be of a type seen before
                    kinds[type(value)] = label_kind(value, row), row, value
                if value not in seen:
                    label_kind(value, row)
                    seen[value] = len(seen)
                numbers[row] = seen[value]
    if len({kind for kind, _, _ in kinds.values()}) > 1:
        (one, a, first), (other, b, second) = list(kinds.values())[:2]
        raise DataError(
            f"Labels are of different kinds: row {a} is the {one} {first!r}, row {b} is the {other} {second!r}. "
            f"Convert y to one type."
        )
    values = list(seen)
    ranking = sorted(range(len(values)), key=values.__getitem__)
    table = np.empty(len(values) + 1, dtype=_code_type(len(values)))
    table[ranking] = np.arange(len(values))
    table[-1] = -1  # for ignored rows
    kind = next((kind for kind, _, _ in kinds.values()), None)
    rows = np.bincount(numbers[numbers >= 0], minlength=len(values)).astype(np.int64)
    return kind, tuple(plain_label(values[i]) for i in ranking), table[numbers], rows[ranking]


def _code_type(n_classes: int) -> type[np.signedinteger[Any]]:
    return np.int8 if n_classes <= 127 else np.int16 if n_classes <= 32767 else np.int32
