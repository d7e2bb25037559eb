"""Labels of any kind as small integer codes, without sorting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError

Label = str | int | float | bool

TABLE_SIZE = 1 << 16
"""Whole-number labels that span less than this are looked up in a table, others in a dictionary."""

CHUNK = 1 << 18
"""Labels are encoded so many at a time, so that no wide copy of them exists."""


@dataclass(frozen=True)
class Coded:
    """Labels as places in a list of values, as tables keep them; all values are of one kind.

    >>> Labels.encode(Coded(np.array([1, 0, 1]), ("x", "b", "never"))).classes
    ('b', 'x')
    """

    codes: NDArray[np.signedinteger[Any]]
    values: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def to_array(self) -> NDArray[Any]:
        """One label a row."""
        array: NDArray[Any] = label_array(self.values)[self.codes]
        return array


@dataclass(frozen=True)
class Labels:
    """Labels as codes: row ``i`` is of class ``classes[codes[i]]``; a code of -1 is a row that does not count.

    >>> Labels.encode(["dog", "cat", "dog"])
    Labels(kind='text', classes=('cat', 'dog'), codes=array([1, 0, 1], dtype=int8), rows=array([1, 2]))

    Attributes
    ----------
    kind : {"text", "whole number", "decimal", "boolean"} or None
        None where no row counts.
    classes : tuple
        The different labels, sorted.
    codes : array of int
    rows : array of int
        How many rows each class has.
    """

    kind: str | None
    classes: tuple[Label, ...]
    codes: NDArray[np.signedinteger[Any]]
    rows: NDArray[np.int64]

    @classmethod
    def encode(cls, y: Any, counts: NDArray[np.bool_] | None = None) -> Labels:
        """Encode labels; rows where ``counts`` is false belong to no class, as if they were not there."""
        array = as_labels(y)
        if isinstance(array, Coded):
            return cls(*_encode_coded(array, counts))
        if array.dtype.kind in "biuf":
            found = _encode_by_table(array, counts)
            if found is not None:
                return cls(_KINDS[array.dtype.kind] if found[0] else None, *found)
        return cls(*_encode_by_dictionary(array, counts))

    def part(self, start: int, stop: int) -> Labels:
        """The labels of some rows, with the classes that these have."""
        codes = self.codes[start:stop]
        rows = np.bincount(codes[codes >= 0], minlength=len(self.classes))
        present = np.flatnonzero(rows)
        table = np.full(len(self.classes) + 1, -1, dtype=self.codes.dtype)  # the last place is that of code -1
        table[present] = np.arange(len(present))
        classes = tuple(self.classes[place] for place in present)
        return Labels(self.kind if classes else None, classes, table[codes], rows[present].astype(np.int64))


_KINDS = {"b": "boolean", "i": "whole number", "u": "whole number", "f": "decimal"}


def label_array(classes: Sequence[Label]) -> NDArray[Any]:
    """Classes as an array that can be indexed with codes.

    >>> label_array(("a", "b"))[[1, 0, 1]]
    array(['b', 'a', 'b'], dtype='<U1')
    """
    array = np.array(list(classes))
    # Whole numbers beyond 64 bits would be rounded.
    rounded = array.dtype.kind == "f" and any(isinstance(label, int) for label in classes)
    return np.array(list(classes), dtype=object) if rounded else array


def as_labels(y: Any) -> NDArray[Any] | Coded:
    """Labels as a one-dimensional array, in the type in which they came."""
    if isinstance(y, Coded):
        return y
    if y is None:
        raise DataError("Labels are missing: this requires y to be passed, but the target y is None.")
    if hasattr(y, "__array__"):
        array = np.asarray(y)
    elif isinstance(y, Iterable) and not isinstance(y, (str, bytes, Set, Mapping)):
        # A plain list keeps the types of its items: numpy would turn [1, "a"] into two strings.
        array = np.array(list(y), dtype=object)
    else:
        raise DataError(f"y should be a 1d array of one label a row, got {type(y).__name__} instead.")
    if np.ma.is_masked(y):
        raise DataError(f"Input y contains NaN: row {int(np.argmax(np.ma.getmaskarray(y)))} is masked.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"y should be a 1d array of one label a row, got an array of shape {array.shape} instead.")
    if array.dtype.kind not in "biufOUT":
        raise DataError(
            f"Unknown label type: y is of type {array.dtype}. Labels are strings, whole numbers or booleans."
        )
    return array


def label_kind(value: Any, row: int | None = None) -> str:
    """The kind of one label, or an error that says what is wrong with it."""
    where = "a label" if row is None else f"row {row}"
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, (int, np.integer)):
        return "whole number"
    if isinstance(value, str):
        return "text"
    if not isinstance(value, (float, np.floating)):
        what = "has no label" if value is None else f"is {value!r} of type {type(value).__name__}"
        raise DataError(f"Unknown label type: {where} {what}. Labels are strings, whole numbers or booleans.")
    if np.isnan(value):
        raise DataError(f"Input y contains NaN: {where} has no label. Give it one, or leave the row out.")
    if np.isinf(value):
        raise DataError(f"Input y contains infinity or a value too large for dtype('float64'). Look at {where}.")
    if value != int(value):
        raise DataError(
            f"Unknown label type: continuous, {where} is {value!r}. mergesvm classifies, it does not regress. "
            f"Labels are strings, whole numbers or booleans."
        )
    return "decimal"


def plain_label(value: Any) -> Label:
    """A label as a Python value."""
    plain: Label = value.item() if isinstance(value, np.generic) else value
    return plain


def _encode_by_table(
    array: NDArray[Any], counts: NDArray[np.bool_] | None
) -> tuple[tuple[Label, ...], NDArray[np.signedinteger[Any]], NDArray[np.int64]] | None:
    if not len(array):
        return (), np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.int64)
    if array.dtype.kind == "f" and not _whole(array):
        return None
    low, high = int(array.min()), int(array.max())
    if high - low >= TABLE_SIZE:
        return None
    chunks = list(spans(len(array), CHUNK))
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
    coded: Coded, counts: NDArray[np.bool_] | None
) -> tuple[str | None, tuple[Label, ...], NDArray[np.signedinteger[Any]], NDArray[np.int64]]:
    used = coded.codes if counts is None else coded.codes[counts]
    present = np.flatnonzero(np.bincount(used, minlength=len(coded.values))).tolist()
    kinds = {label_kind(coded.values[place]) for place in present}
    classes = tuple(sorted({coded.values[place] for place in present}))  # a table may list a value twice
    position = {label: index for index, label in enumerate(classes)}
    table = np.full(len(coded.values), -1, dtype=_code_type(len(classes)))
    table[present] = [position[coded.values[place]] for place in present]
    codes = table[coded.codes]
    if counts is not None:
        codes[~counts] = -1
    rows = np.bincount(codes[codes >= 0], minlength=len(classes)).astype(np.int64)
    return next(iter(kinds), None), classes, codes, rows


def _whole(array: NDArray[Any]) -> bool:
    # Of what is not whole, or far too large, the slower way finds the row.
    for start, stop in spans(len(array), CHUNK):
        chunk = array[start:stop].astype(np.float64, copy=False)
        if not ((np.rint(chunk) == chunk) & (np.abs(chunk) < 2**53)).all():
            return False
    return True


def _offsets(chunk: NDArray[Any], low: int) -> NDArray[np.intp]:
    if chunk.dtype.kind != "u" or chunk.dtype.itemsize < 8:
        return chunk.astype(np.intp) - low
    # Unsigned 64-bit labels may be too large for a signed number, but what lies between them is not.
    offsets: NDArray[np.intp] = (chunk - chunk.dtype.type(low)).astype(np.intp)
    return offsets


def _encode_by_dictionary(
    array: NDArray[Any], counts: NDArray[np.bool_] | None
) -> tuple[str | None, tuple[Label, ...], NDArray[np.signedinteger[Any]], NDArray[np.int64]]:
    numbers = np.full(len(array), -1, dtype=np.int32)
    seen: dict[Any, int] = {}
    kinds: dict[type, tuple[str, int, Any]] = {}  # of each type its kind, and the first row of that type
    for start, stop in spans(len(array), CHUNK):
        for row, value in enumerate(array[start:stop].tolist(), start):
            if counts is None or counts[row]:
                if type(value) not in kinds or value != value:  # a NaN is of a type that may have passed before
                    kinds[type(value)] = label_kind(value, row), row, value
                if value not in seen:
                    label_kind(value, row)
                    seen[value] = len(seen)
                numbers[row] = seen[value]
    if len({kind for kind, _, _ in kinds.values()}) > 1:
        (one, a, first), (other, b, second) = list(kinds.values())[:2]
        raise DataError(
            f"Labels of different kinds: row {a} is the {one} {first!r}, row {b} is the {other} {second!r}. "
            f"Convert y to one kind."
        )
    values = list(seen)
    ranking = sorted(range(len(values)), key=values.__getitem__)
    table = np.empty(len(values) + 1, dtype=_code_type(len(values)))
    table[ranking] = np.arange(len(values))
    table[-1] = -1  # where the row does not count
    kind = next((kind for kind, _, _ in kinds.values()), None)
    rows = np.bincount(numbers[numbers >= 0], minlength=len(values)).astype(np.int64)
    return kind, tuple(plain_label(values[i]) for i in ranking), table[numbers], rows[ranking]


def _code_type(n_classes: int) -> type[np.signedinteger[Any]]:
    return np.int8 if n_classes <= 127 else np.int16 if n_classes <= 32767 else np.int32
