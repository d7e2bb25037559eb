"""Labels as they are given: strings, integers, booleans, or bytes, which are taken as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError

Label = str | int | float | bool


@dataclass(frozen=True)
class CategoricalLabels:
    """Labels as positions in a list of values, as in a dictionary column of Arrow; all values are of one kind.

    >>> CategoricalLabels(np.array([1, 0, 1]), ("x", "b", "never")).to_array()
    array(['b', 'x', 'b'], dtype='<U5')
    """

    codes: NDArray[np.signedinteger[Any]]
    values: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def to_array(self) -> NDArray[Any]:
        """Return the label of each row."""
        array: NDArray[Any] = label_array(self.values)[self.codes]
        return array


def label_array(classes: Sequence[Label]) -> NDArray[Any]:
    """Return classes as an array that can be indexed with codes.

    >>> label_array(("a", "b"))[[1, 0, 1]]
    array(['b', 'a', 'b'], dtype='<U1')
    """
    array = np.array(list(classes))
    # numpy would round integers beyond 64 bits.
    rounded = array.dtype.kind == "f" and any(isinstance(label, int) for label in classes)
    return np.array(list(classes), dtype=object) if rounded else array


def as_labels(y: Any) -> NDArray[Any] | CategoricalLabels:
    """Return labels as a one-dimensional array of their own type."""
    if isinstance(y, CategoricalLabels):
        return y
    if y is None:
        raise DataError("Labels are missing: this requires y to be passed, but the target y is None.")
    if hasattr(y, "__array__"):
        array = np.asarray(y)
    elif isinstance(y, Iterable) and not isinstance(y, (str, bytes, Set, Mapping)):
        # As objects, because numpy would turn [1, "a"] into two strings.
        array = np.array(list(y), dtype=object)
    else:
        raise DataError(f"y should be a 1d array of one label per row, got {type(y).__name__} instead.")
    if np.ma.is_masked(y):
        raise DataError(f"Input y contains NaN: row {int(np.argmax(np.ma.getmaskarray(y)))} is masked.")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.ravel()
    if array.ndim != 1:
        raise DataError(f"y should be a 1d array of one label per row, got an array of shape {array.shape} instead.")
    if array.dtype.kind == "S" or (len(array) and isinstance(array[0], bytes)):
        return _decoded(array)
    if array.dtype.kind not in "biufOUT":
        raise DataError(
            f"Unknown label type: y is of type {array.dtype}. Labels must be strings, integers or booleans."
        )
    return array


def _decoded(array: NDArray[Any]) -> NDArray[Any]:
    """Labels given as bytes as text, which files can store."""
    text = []
    for row, label in enumerate(array.tolist()):
        if not isinstance(label, bytes):
            raise DataError(
                f"Labels are of different kinds: row 0 is the bytes {array[0]!r}, row {row} is {label!r}. "
                f"Convert y to one type."
            )
        try:
            text.append(label.decode())
        except UnicodeDecodeError:
            raise DataError(f"Unknown label type: row {row} is {label!r}, not UTF-8. Convert y to text.") from None
    return np.array(text, dtype=str)


def label_kind(value: Any, row: int | None = None) -> str:
    """Return the kind of a label: "boolean", "whole number", "decimal" or "text"; raise an error if it is none."""
    where = "a label" if row is None else f"row {row}"
    if isinstance(value, (bool, np.bool_)):
        return "boolean"
    if isinstance(value, (int, np.integer)):
        return "whole number"
    if isinstance(value, str):
        return "text"
    if not isinstance(value, (float, np.floating)):
        what = "has no label" if value is None else f"is {value!r} of type {type(value).__name__}"
        raise DataError(f"Unknown label type: {where} {what}. Labels must be strings, integers or booleans.")
    if np.isnan(value):
        raise DataError(f"Input y contains NaN: {where} has no label. Add the label or remove the row.")
    if np.isinf(value):
        raise DataError(f"Input y contains infinity or a value too large for dtype('float64'): {where}.")
    if value != int(value):
        raise DataError(
            f"Unknown label type: continuous, {where} is {value!r}. mergesvm supports classification only. "
            f"Labels must be strings, integers or booleans."
        )
    return "decimal"


def plain_label(value: Any) -> Label:
    """Return a label as a Python value."""
    plain: Label = value.item() if isinstance(value, np.generic) else value
    return plain
