"""Rows from which steps are drawn at random: in memory, and in the order of their classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.rows.dense import DenseRows
from mergesvm.data.rows.sparse import DensifiedRows, SparseRows
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity

KEPT = ("u1", "i1", "u2", "i2", "f4", "f8")
"""Types of arrays that are used where they lie; others are converted once."""

BLOCK_VALUES = 1 << 20
"""Values are looked through, and rows scored, so many at a time."""


SAMPLE = 4096
"""How many rows tell how long rows are."""


@dataclass(frozen=True)
class RowPool:
    """Rows that can be drawn at random, and so have to lie in memory: used in place where they do already.

    Attributes
    ----------
    matrix : array, or CSR array, of shape (rows, features)
    order : array of int, shape (rows,)
        The rows, sorted by class.
    codes : array of int, shape (rows,)
        The class of each, in that order.
    bounds : array of int, shape (classes + 1,)
        Where each class begins and ends in that order.

    Examples
    --------
    >>> from mergesvm.data.batch import Batch
    >>> from mergesvm.features.maps.identity import Identity
    >>> RowPool.of(Batch.of([[1.0], [2.0], [3.0]], ["b", "a", "b"]), Identity()).order
    array([1, 0, 2], dtype=int32)
    """

    matrix: Any
    order: NDArray[np.signedinteger[Any]]
    codes: NDArray[np.signedinteger[Any]]
    bounds: NDArray[np.intp]

    @classmethod
    def of(cls, batch: Batch, features: FeatureMap, engine: Threads | None = None) -> RowPool:
        """Put rows into memory as features, check that they are finite, and sort them by class."""
        rows, labels = batch.rows, batch.labels
        if rows.n_rows >= 2**32:
            raise DataError(f"X has {rows.n_rows:,} rows; drawn can be from fewer than 2^32. Fit it in parts.")
        mapped = not isinstance(features, Identity)
        if mapped:
            features.check_rows(rows)
        matrix = features.mapped(rows) if mapped else _matrix(rows)
        _check_finite(matrix, rows, engine or Threads())
        order = np.argsort(labels.codes, kind="stable")
        codes = labels.codes[order]
        bounds = np.searchsorted(codes, np.arange(len(labels.classes) + 1))
        return cls(matrix, order.astype(np.int32 if len(order) < 2**31 else np.int64), codes, bounds)

    @property
    def width(self) -> int:
        """How many features rows have."""
        width: int = self.matrix.shape[1]
        return width

    @property
    def sparse(self) -> bool:
        """Whether rows are kept as CSR."""
        return not isinstance(self.matrix, np.ndarray)

    @property
    def length(self) -> float:
        """How many values a row has on average."""
        return self.matrix.nnz / self.matrix.shape[0] if self.sparse else float(self.width)

    @property
    def real(self) -> np.dtype[Any]:
        """In which precision to work by default: float32 for float32, and for whole numbers that it holds."""
        return np.dtype(np.float32 if self.matrix.dtype.itemsize < 8 else np.float64)

    @cached_property
    def size(self) -> float:
        """The root mean square length of the rows, from a sample at even distances; 1 if all are zero."""
        step = -(-self.matrix.shape[0] // SAMPLE)
        sample = self.matrix[::step]
        values = np.asarray(sample.data if self.sparse else sample, dtype=np.float64).ravel()
        with np.errstate(over="ignore"):  # rows too large for steps are found later
            return float(np.sqrt(values @ values / sample.shape[0])) or 1.0

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """Rows as the kernels take them: with the places between which each is not zero, or as values of CSR."""
        if self.sparse:
            return self.matrix.data, self.matrix.indices, self.matrix.indptr
        from mergesvm.methods.row_pool_jit import find_edges

        edges = np.empty((self.matrix.shape[0], 2), dtype=np.int32)
        find_edges(self.matrix, edges)
        return self.matrix, edges

    def counts(self) -> NDArray[np.intp]:
        """How many rows each class has."""
        counts: NDArray[np.intp] = np.diff(self.bounds)
        return counts

    def blocks(self, index: int) -> list[tuple[int, int]]:
        """Spans of the rows of one class that are of like size, to be read one after another."""
        first, last = int(self.bounds[index]), int(self.bounds[index + 1])
        step = max(64, BLOCK_VALUES // self.width)
        return [(first + begin, first + end) for begin, end in spans(last - first, step)]

    def scores(self, start: int, stop: int, planes: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of some rows, in the order of the classes, on planes (problems, features + 1), intercepts last."""
        taken = self.matrix[self.order[start:stop]]
        if not self.sparse:
            taken = taken.astype(planes.dtype, copy=False)
        scores = np.asarray(taken @ planes[:, :-1].T, dtype=np.float64)
        scores += planes[:, -1]
        return scores


def _matrix(rows: Rows) -> Any:
    if isinstance(rows, (SparseRows, DensifiedRows)):
        # However much is stored, a row of CSR is as fast to reach as a dense one.
        matrix = (rows.rows if isinstance(rows, DensifiedRows) else rows).block(0, rows.n_rows)
        return matrix if matrix.dtype in map(np.dtype, KEPT) else matrix.astype(np.float64)
    if isinstance(rows, DenseRows):
        # Truths are bytes already.
        array = rows.array.view(np.uint8) if rows.array.dtype == bool else rows.array
        if array.dtype in map(np.dtype, KEPT):
            return np.ascontiguousarray(array)
    matrix = np.empty((rows.n_rows, rows.width))
    for start, stop in rows.blocks():
        matrix[start:stop] = rows.block(start, stop)
    return matrix


def _check_finite(matrix: Any, rows: Rows, engine: Threads) -> None:
    values = matrix.ravel() if isinstance(matrix, np.ndarray) else matrix.data
    if values.dtype.kind != "f":
        return

    def finite(span: tuple[int, int]) -> bool:
        return bool(np.isfinite(values[slice(*span)]).all())

    if not all(engine.map(finite, list(spans(len(values), BLOCK_VALUES)))):
        rows.check_finite()
        raise DataError("Input X has values too large to be mapped. Rescale the columns.")
