"""Rows of pandas, polars and Arrow tables, converted block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import Rows
from mergesvm.errors import DataError


class TableRows(Rows):
    """Rows of a table, converted to float64 block by block; missing values become NaN.

    >>> import pandas as pd
    >>> rows = TableRows.of(pd.DataFrame({"height": [1, 2], "old": [True, False]}))
    >>> rows.names, rows.block(0, 2).tolist()
    (('height', 'old'), [[1.0, 1.0], [2.0, 0.0]])
    """

    def __init__(self, n_rows: int, names: Sequence[Any], read: Callable[[int, int], NDArray[np.float64]]) -> None:
        self.n_rows = n_rows
        self.width = len(names)
        # As in scikit-learn, names count only if all of them are strings.
        self.names = tuple(names) if all(isinstance(name, str) for name in names) else None
        self._read = read
        if self.names is not None and len(set(self.names)) < self.width:
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise DataError(f"Column name {twice!r} occurs more than once in X. Give every column a unique name.")

    @classmethod
    def of(cls, table: Any) -> TableRows | None:
        """Return the rows of a table, or None if it is not one; recognised by its attributes, without an import."""
        if hasattr(table, "iloc") and hasattr(table, "columns"):
            return _pandas(table)
        if hasattr(table, "to_arrow") and hasattr(table, "schema"):
            return _polars(table)
        if hasattr(table, "column_names") and hasattr(table, "schema"):
            return _arrow(table)
        return None

    def block(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return rows as a C-contiguous float64 array."""
        return np.ascontiguousarray(self._read(start, stop), dtype=np.float64)

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Return the row, column and value of the first NaN or infinity, or None if there is none."""
        block = self.block(start, stop)
        bad = np.argwhere(~np.isfinite(block))
        return None if not len(bad) else (start + int(bad[0][0]), int(bad[0][1]), float(block[tuple(bad[0])]))


def _pandas(frame: Any) -> TableRows:
    names = list(frame.columns)
    for position, (name, dtype) in enumerate(zip(names, frame.dtypes, strict=True)):
        if dtype.kind == "c":
            raise DataError(f"Complex data not supported: column {str(name)!r}.")
        if dtype.kind not in "biuf":
            row = _first_text(frame.iloc[:, position], dtype)
            if row is not None:
                raise _not_numeric(name, dtype, frame.iloc[row, position] if len(frame) else None, row)

    def read(start: int, stop: int) -> NDArray[np.float64]:
        block: NDArray[np.float64] = frame.iloc[start:stop].to_numpy(dtype=np.float64, na_value=np.nan)
        return block

    return TableRows(len(frame), names, read)


def _first_text(column: Any, dtype: Any) -> int | None:
    """Return the first row of a column of objects that is not a number; row 0 of any other column."""
    if dtype.kind != "O" or str(dtype) != "object":
        return 0
    missing = column.isna()
    for row, value in enumerate(column):
        if not isinstance(value, (int, float, np.integer, np.floating, np.bool_)) and not missing.iloc[row]:
            return row
    return None


def _polars(frame: Any) -> TableRows:
    for name, dtype in frame.schema.items():
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            raise _not_numeric(name, dtype, frame[name][0] if len(frame) else None)

    def read(start: int, stop: int) -> NDArray[np.float64]:
        block: NDArray[np.float64] = frame.slice(start, stop - start).cast(float).to_numpy()
        return block

    return TableRows(len(frame), frame.columns, read)


def _arrow(table: Any) -> TableRows:
    import pyarrow as pa

    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    for position, field in enumerate(table.schema):
        if not any(test(field.type) for test in numeric):
            column = table.column(position)
            raise _not_numeric(field.name, field.type, column[0].as_py() if len(column) else None)

    def read(start: int, stop: int) -> NDArray[np.float64]:
        part = table.slice(start, stop - start)
        block = np.empty((stop - start, part.num_columns))
        for index, column in enumerate(part.columns):
            integers = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
            block[:, index] = integers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return block

    return TableRows(table.num_rows, table.column_names, read)


def _not_numeric(name: Any, dtype: Any, cell: Any, row: int = 0) -> DataError:
    plain = cell.item() if isinstance(cell, np.generic) else cell
    example = "" if cell is None else f", row {row} holds {plain!r}"
    return DataError(
        f"Input X is not numeric: column {str(name)!r} is of type {dtype}{example}. "
        f"Drop the column or encode it as numbers."
    )
