"""Convert arrays, sparse matrices, tables and lists to rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.dense import DenseRows
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.data.rows.tables import TableRows
from mergesvm.errors import DataError

STORED_TYPES = tuple(map(np.dtype, ("u1", "i1", "u2", "i2", "f4", "f8")))
"""Types of arrays in which methods that need rows at hand keep them; others are converted once."""


def as_rows(X: Any, *, empty: bool = False) -> Rows:
    """Return rows of a numpy array, a scipy sparse array, a pandas, polars or Arrow table, or nested sequences.

    Values are converted block by block as they are read, never as a whole. Zero rows are an error unless ``empty``.

    >>> as_rows([[1.0, 2.0], [3.0, 4.0]]).n_rows
    2
    """
    if isinstance(X, Rows):
        return X
    if hasattr(X, "map_partitions") and hasattr(X, "columns"):
        raise DataError(
            "X is a partitioned table of a cluster. Fetch it first, as with X.compute(), or process one partition at a "
            "time, as with X.map_partitions(model.predict)."
        )
    if sparse.issparse(X):
        _check_kind(X.dtype)
        if X.ndim != 2:
            raise DataError(f"Expected 2D array, got a sparse array of shape {X.shape} instead. Reshape your data.")
        rows = SparseRows.of(X)
    else:
        rows = TableRows.of(X) or DenseRows(_dense(X))
    if rows.n_rows == 0 and not empty:
        raise DataError(
            f"Found array with 0 sample(s) (shape=(0, {rows.width})) while a minimum of 1 is required: X is empty."
        )
    if rows.width == 0:
        raise DataError(
            f"Found array with 0 feature(s) (shape=({rows.n_rows}, 0)) while a minimum of 1 is required: "
            f"X has no columns."
        )
    return rows


def copy_of_rows(rows: Rows, start: int, stop: int) -> Rows:
    """Return rows ``start`` to ``stop`` without the rest, to be sent to another process."""
    block = rows.block(start, stop)
    part: Rows = DenseRows(block) if isinstance(block, np.ndarray) else SparseRows(block)
    part.names, part.categories = rows.names, rows.categories
    part.source, part.first = rows.source, rows.first + start
    return part


def _dense(X: Any) -> NDArray[Any]:
    try:
        array = np.asarray(X.astype(np.float64).filled(np.nan) if np.ma.is_masked(X) else X)
        if array.dtype.kind in "US" and not hasattr(X, "dtype"):
            # A list with text in one cell: as objects, so that an error can name the cell.
            array = np.array(X, dtype=object)
    except ValueError:
        array = _nested(X)
    if array.ndim == 0:
        hint = " Call .collect() first." if hasattr(X, "collect") else ""
        raise DataError(
            f"Expected 2D array, got {type(X).__name__} instead: X must be an array, a sparse array or a table.{hint}"
        )
    if array.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {array.ndim}D array instead: X has shape {array.shape}, but must have two "
            f"dimensions, rows and columns. Reshape your data with X.reshape(-1, 1) if it has a single feature, "
            f"X.reshape(1, -1) if it is one row, or X.reshape(len(X), -1) if each row is an image."
        )
    _check_kind(array.dtype)
    return array


def _check_kind(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise DataError("Complex data not supported: X must be real numbers.")
    if dtype.kind not in "biufO":
        raise DataError(
            f"Input X is not numeric: every column is of type {dtype}, starting with column 0, row 0. "
            f"Encode text, dates and categories as numbers."
        )


def _nested(X: Any) -> NDArray[Any]:
    """Return an array of objects if a cell holds a sequence; raise an error if rows are of unequal length."""
    lengths = [len(row) if hasattr(row, "__len__") else 1 for row in X]
    row = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if row is None:
        return np.array(X, dtype=object)
    raise DataError(
        f"Input X is ragged: row 0 has {lengths[0]} values, row {row} has {lengths[row]}. "
        f"Every row needs a value in every column, up to column {max(lengths) - 1}."
    )
