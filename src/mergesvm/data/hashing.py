"""Hashes of rows and groups, the same in any file, order, type or format."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import CategoricalLabels, Label, as_labels
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.rows.columns import ColumnRows
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError

BLOCK_VALUES = 1 << 16
"""Number of values hashed at a time with numpy, so that temporary arrays stay in the cache."""

JIT_BLOCK_VALUES = 1 << 20
"""The same for the compiled function, which needs no temporary arrays."""

MIN_VALUES_FOR_THREADS = 1 << 18
"""With fewer values, starting threads takes longer than it saves."""

Hashes = NDArray[np.uint64]


def row_hashes(rows: Rows, engine: Threads | None = None, compiled: bool = False) -> Hashes:
    """Return a hash of the values of each row, (rows,): equal rows have equal hashes.

    It is the sum over the columns of m_j h(x_j) modulo 2^64, mixed (splitmix64). h(x) are the bits of x as float64,
    folded so that h(0) = 0: values that a sparse matrix does not store add nothing. ``compiled`` uses the compiled
    function for dense rows.

    >>> from mergesvm.data.rows.convert import as_rows
    >>> dense, bytes = as_rows([[0.0, 3.0]]), as_rows(np.array([[0, 3]], np.uint8))
    >>> bool(row_hashes(dense) == row_hashes(bytes) == row_hashes(as_rows(sparse.csr_array([[0.0, 3.0]]))))
    True
    """
    factors = _factors(rows.width)
    hashes: Hashes = np.empty(rows.n_rows, dtype=np.uint64)

    def run(span: tuple[int, int]) -> None:
        hashes[slice(*span)] = _mixed(_sums(rows, span, factors, compiled))

    values = stored_values(rows)
    block_values = JIT_BLOCK_VALUES if compiled and not isinstance(rows, (SparseRows, ColumnRows)) else BLOCK_VALUES
    step = max(16, block_values * rows.n_rows // max(1, values))
    (engine if engine is not None and values >= MIN_VALUES_FOR_THREADS else Threads(1)).map(
        run, list(spans(rows.n_rows, step))
    )
    return hashes


def stored_values(rows: Rows) -> int:
    """Return the number of values to hash."""
    return int(rows.matrix.nnz) if isinstance(rows, SparseRows) else rows.n_rows * rows.width


def group_hashes(groups: Any) -> Hashes:
    """Return a hash of the group of each row, (rows,); groups are strings, integers or booleans.

    >>> group_hashes(["north", "south", "north"]) == group_hashes(["north", "x", "north"])
    array([ True, False,  True])
    """
    if isinstance(groups, CategoricalLabels):
        known: Hashes = np.array([label_hash(value) for value in groups.values], dtype=np.uint64)[groups.codes]
        return known
    try:
        array = as_labels(groups)
        missing = isinstance(array, np.ndarray) and _missing(array)
        if np.any(missing):
            raise DataError(f"row {np.argmax(missing)} has no group. Add its group or remove the row.")
        labels = EncodedLabels.encode(array)
    except DataError as error:
        raise DataError(
            f"groups must contain one string, integer or boolean per row: {_of_groups(str(error))}"
        ) from None
    table = np.array([label_hash(label) for label in labels.classes], dtype=np.uint64)
    found: Hashes = table[labels.codes]
    return found


def _missing(array: NDArray[Any]) -> NDArray[np.bool_]:
    if array.dtype.kind == "O":
        values = array.tolist()
        return np.array([value is None or (type(value) is float and isnan(value)) for value in values], dtype=np.bool_)
    absent: NDArray[np.bool_] = array != array  # only a NaN differs from itself
    return absent


def _of_groups(said: str) -> str:
    """Turn an error message about labels into one about groups, without the advice."""
    first = said.removeprefix("Unknown label type: ").removeprefix("Input ").split(". ")[0].rstrip(".") + "."
    return re.sub(r"\by\b", "groups", first).replace("Labels", "groups").replace("label", "group")


def label_hash(label: Label) -> int:
    """Return a hash of a label or group, of 64 bits; 1, 1.0 and True have the same."""
    text = label if isinstance(label, str) else str(int(label))
    kind = b"text" if isinstance(label, str) else b"number"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=kind).digest()
    return int.from_bytes(digest, "little")


@lru_cache(maxsize=4)
def _factors(width: int) -> Hashes:
    factors = _mixed(np.arange(1, width + 1, dtype=np.uint64)) | np.uint64(1)
    factors.flags.writeable = False
    return factors


def _sums(rows: Rows, span: tuple[int, int], factors: Hashes, compiled: bool) -> Hashes:
    """Return the sums over the columns."""
    if isinstance(rows, ColumnRows):
        total: Hashes = np.zeros(span[1] - span[0], dtype=np.uint64)
        for column, factor in zip(rows.columns, factors, strict=True):
            total += _folded(column[slice(*span)]) * factor
        return total
    block = rows.block(*span)
    if sparse.issparse(block):
        return _stored(block, factors)
    if not compiled:
        return _folded(block) @ factors
    from mergesvm.data.hashing_jit import HASHED_TYPES, hash_rows  # imports numba

    hashes: Hashes = np.empty(len(block), dtype=np.uint64)
    hash_rows(block if block.dtype in HASHED_TYPES else block.astype(np.float64), factors, hashes)
    return hashes


def _stored(block: Any, factors: Hashes) -> Hashes:
    # Differences of running sums modulo 2^64 are right even if the sums overflow.
    running = np.zeros(len(block.data) + 1, dtype=np.uint64)
    np.cumsum(_folded(block.data) * factors[block.indices], out=running[1:])
    hashes: Hashes = running[block.indptr[1:]] - running[block.indptr[:-1]]
    return hashes


def _folded(values: NDArray[Any]) -> Hashes:
    """Return the bits of values as float64, with -0 as 0; the upper half, where small integers differ, is folded in."""
    with np.errstate(all="ignore"):  # values that are not finite raise an error when they are summed
        bits = (np.asarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    bits ^= bits >> np.uint64(32)
    return bits


def _mixed(values: Hashes) -> Hashes:
    """Mix the bits of each value, so that each bit of the result depends on all of them (splitmix64)."""
    values = values * np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
