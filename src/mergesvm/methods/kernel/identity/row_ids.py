"""Ids of rows as they are given: integers or strings, one per row, or keyed hashes of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError, ParameterError

HASHED = "hash"
"""In place of ids: the id of a row is a keyed hash of its values and class."""

KINDS = {"i": "integers", "U": "strings", "S": "hashes"}


def is_hashed(given: Any) -> bool:
    """Whether rows are to be identified by a hash; any other string is an error."""
    if isinstance(given, str) and given != HASHED:
        raise ParameterError(f'row_ids must be "hash" or contain one integer or string per row, got {given!r}.')
    return isinstance(given, str)


def as_row_ids(given: Any, n_rows: int | None = None) -> NDArray[Any]:
    """Return ids as an array of 64-bit integers or of strings.

    >>> as_row_ids(["p7", "p9"], 2)
    array(['p7', 'p9'], dtype='<U2')
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise ParameterError(f"row_ids must contain one integer or string per row, got {given!r}.")
    ids = np.asarray(given) if hasattr(given, "__array__") else np.array(list(given), dtype=object)
    if ids.ndim != 1:
        raise DataError(f"row_ids must contain one id per row (1D), got an array of shape {ids.shape}.")
    if n_rows is not None and len(ids) != n_rows:
        raise DataError(f"row_ids must contain one id per row: X has {n_rows} rows, but {len(ids)} ids were given.")
    if ids.dtype.kind in "OT":
        ids = _of_objects(ids.tolist())
    if ids.dtype.kind == "u" and len(ids) and int(ids.max()) > np.iinfo(np.int64).max:
        raise DataError(f"row_ids has {ids.max()}, which is more than 64-bit integers hold. Give the ids as strings.")
    if ids.dtype.kind not in "iuU" and len(ids):
        raise DataError(f"row_ids must be integers or strings, not values of type {ids.dtype}.")
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64)


def _of_objects(values: list[Any]) -> NDArray[Any]:
    """Ids as an array of one type; they must be all integers or all strings."""
    if not values:
        return np.zeros(0, np.int64)
    kind: type = str if isinstance(values[0], str) else int
    for row, value in enumerate(values):
        if not isinstance(value, (kind, np.integer) if kind is int else kind) or isinstance(value, bool):
            raise DataError(
                f"row_ids must be all integers or all strings: row 0 has {values[0]!r}, row {row} has {value!r}."
            )
    try:
        return np.array(values, dtype=str if kind is str else np.int64)
    except OverflowError:
        raise DataError("row_ids has an integer of more than 64 bits. Give the ids as strings.") from None


def joined_ids(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The ids of several units; they must be of one kind."""
    filled = [part for part in parts if len(part)]
    kinds = sorted({KINDS[part.dtype.kind] for part in filled})
    if len(kinds) > 1:
        raise DataError(f"row_ids are {kinds[0]} in some places and {kinds[1]} in others. Give ids of one type.")
    return np.concatenate(filled) if filled else np.zeros(0, np.int64)
