"""From Arrow columns to features: numbers, and indicators of categories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout, category_key
from mergesvm.data.rows.columns import ColumnRows
from mergesvm.errors import DataError


def encode_features(batch: Any, layout: Layout, unknown: str, source: str, first: int) -> ColumnRows:
    """Return the features of a record batch.

    ``unknown`` says how to treat a value outside of the vocabulary: "error" or "zero". Errors name the ``source`` and
    count rows from ``first``.
    """
    assert layout.names is not None
    vocabularies = dict(layout.categories)
    codes = {
        column: _category_codes(batch.column(column), column, vocabularies[column], unknown, source, first)
        for column in layout.columns
        if column in vocabularies
    }
    columns = []
    for name in layout.names:
        if name in layout.indicators:
            column, value = layout.indicators[name]
            columns.append((codes[column] == vocabularies[column].index(value)).view(np.uint8))
        else:
            columns.append(numeric_column(batch.column(name), name, source, first))
    rows = ColumnRows(columns, layout.names)
    rows.categories = layout.categories
    rows.source, rows.first = source, first
    return rows


def numeric_column(array: Any, column: str, source: str, first: int) -> NDArray[Any]:
    """Return an Arrow column as numbers, with NaN for missing values; without a copy if none is missing."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        if not pa.types.is_null(kind):
            example = _example_of_text(array.to_pylist(), first)
            raise DataError(f"{source}: column {column!r} is not numeric but of type {kind}{example}.")
        array = array.cast(pa.float64())
    if array.null_count or pa.types.is_decimal(kind):
        array = array.cast(pa.float64(), safe=False)
    elif isinstance(array, pa.Array) and len(array):
        # Arrow's own conversion releases the GIL for each column, and waits for it while other threads work.
        dtype = np.dtype(array.type.to_pandas_dtype())
        view = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
        view.flags.writeable = False
        return view
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def _category_codes(
    array: Any, column: str, vocabulary: tuple[Label, ...], unknown: str, source: str, first: int
) -> NDArray[np.int64]:
    """Return the position of each value in the vocabulary, -1 if it is not in it."""
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    positions = {category_key(value): position for position, value in enumerate(vocabulary)}
    for position, value in enumerate(vocabulary):
        if isinstance(value, bool):  # written in any of three ways
            positions = {str(value).lower(): position, str(value).upper(): position} | positions
    values = encoded.dictionary.to_pylist()
    known = [-1 if value is None else positions.get(category_key(value), -1) for value in values]
    table = np.array([*known, -1], dtype=np.int64)
    indices = encoded.indices.cast(pa.int64()).fill_null(len(values)).to_numpy(zero_copy_only=False)
    codes: NDArray[np.int64] = table[indices]
    missing = np.array([*(value is None for value in values), True])[indices]
    if missing.any():
        raise DataError(
            f"{source}: row {first + int(np.argmax(missing))}, category {column!r} is missing. Add the value, or set "
            f"missing='drop' to drop such rows."
        )
    if unknown == "error" and (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise DataError(
            f"{source}: row {first + row}, category {column!r} is {array[row].as_py()!r}, which is not in its "
            f"vocabulary. Add the value to categories, or choose unknown='zero' to encode it as zeros."
        )
    return codes


def _example_of_text(values: list[Any], first: int) -> str:
    """Return, for an error message, the first value that is not a number.

    >>> _example_of_text([None, "6", "oops", "7"], 100)
    ", row 102 holds 'oops'"
    """
    held = [(row, value) for row, value in enumerate(values, first) if value is not None]
    row, value = next(((row, value) for row, value in held if not _is_number(value)), (held or [(0, None)])[0])
    return f", row {row} holds {value!r}" if held else ""


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
