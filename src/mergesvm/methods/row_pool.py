"""Rows in memory, sorted by class, for random access."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.rows.convert import STORED_TYPES
from mergesvm.data.rows.dense import DenseRows
from mergesvm.data.rows.sparse import DensifiedRows, SparseRows
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity

BLOCK_VALUES = 1 << 20
"""Number of values that are checked or scored at a time."""

MAX_NORM_SAMPLE = 4096
"""Number of rows from which the mean norm of rows is estimated."""


@dataclass(frozen=True)
class RowPool:
    """Rows in memory, sorted by class; arrays in memory are used without a copy.

    Attributes
    ----------
    matrix : array, or CSR array, of shape (rows, features)
    order : array of int, shape (rows,)
        Row numbers sorted by class.
    codes : array of int, shape (rows,)
        The class of each row, in that order.
    bounds : array of int, shape (classes + 1,)
        Where each class begins and ends in that order. Rows of weight zero come before the first class.
    weights : array of shape (rows,) or None
        Weights of the rows, in that order.

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
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, batch: Batch, features: FeatureMap, engine: Threads | None = None) -> RowPool:
        """Load rows, apply the feature map, check that values are finite, and sort rows by class."""
        rows, labels = batch.rows, batch.labels
        if rows.n_rows >= 2**32:
            raise DataError(f"X has {rows.n_rows:,} rows, but fewer than 2^32 are supported. Fit it in parts.")
        mapped = not isinstance(features, Identity)
        if mapped:
            features.check_rows(rows)
        matrix = features.mapped(rows) if mapped else _matrix(rows)
        _check_finite(matrix, rows, engine or Threads())
        order = np.argsort(labels.codes, kind="stable")
        codes = labels.codes[order]
        bounds = np.searchsorted(codes, np.arange(len(labels.classes) + 1))
        weights = None if batch.weights is None else batch.weights[order]
        return cls(matrix, order.astype(np.int32 if len(order) < 2**31 else np.int64), codes, bounds, weights)

    @property
    def width(self) -> int:
        """Number of features."""
        width: int = self.matrix.shape[1]
        return width

    @property
    def sparse(self) -> bool:
        """Whether rows are stored as CSR."""
        return not isinstance(self.matrix, np.ndarray)

    @property
    def length(self) -> float:
        """Average number of stored values per row."""
        return self.matrix.nnz / self.matrix.shape[0] if self.sparse else float(self.width)

    @property
    def real(self) -> np.dtype[Any]:
        """Default precision: float32 for float32 and for integers that it represents exactly."""
        return np.dtype(np.float32 if self.matrix.dtype.itemsize < 8 else np.float64)

    @cached_property
    def size(self) -> float:
        """Root mean square norm of the rows, from an evenly spaced sample; 1 if all are zero."""
        # Without weights the rows are taken in the order in which they were given.
        step = -(-self.matrix.shape[0] // MAX_NORM_SAMPLE)
        some = slice(self.bounds[0], None, step)
        sample = self.matrix[::step] if self.weights is None else self.matrix[self.order[some]]
        values = np.asarray(sample.data if self.sparse else sample, dtype=np.float64).ravel()
        with np.errstate(over="ignore"):  # overflow of steps is reported later
            if self.weights is None:
                return float(np.sqrt(values @ values / sample.shape[0])) or 1.0
            lengths = np.diff(sample.indptr) if self.sparse else self.width
            weights = self.weights[some]
            return float(np.sqrt(np.repeat(weights, lengths) @ values**2 / weights.sum())) or 1.0

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """Rows as compiled functions take them: (matrix, first and last non-zero columns), or the arrays of CSR."""
        if self.sparse:
            return self.matrix.data, self.matrix.indices, self.matrix.indptr
        from mergesvm.methods.row_pool_jit import find_edges

        edges = np.empty((self.matrix.shape[0], 2), dtype=np.int32)
        find_edges(self.matrix, edges)
        return self.matrix, edges

    def counts(self) -> NDArray[np.intp]:
        """Number of rows per class."""
        counts: NDArray[np.intp] = np.diff(self.bounds)
        return counts

    def class_weights(self) -> NDArray[np.float64]:
        """Total weight of the rows of each class; their number if rows have no weights."""
        return self.counts().astype(np.float64) if self.weights is None else np.diff(self.cumulative[self.bounds])

    @cached_property
    def cumulative(self) -> NDArray[np.float64]:
        """Sums of the weights of all earlier rows, sorted by class, (rows + 1,); (0,) if rows have no weights."""
        return np.zeros(0) if self.weights is None else np.concatenate([[0.0], np.cumsum(self.weights)])

    def blocks(self, index: int) -> list[tuple[int, int]]:
        """Spans of equal size over the rows of one class."""
        first, last = int(self.bounds[index]), int(self.bounds[index + 1])
        step = max(64, BLOCK_VALUES // self.width)
        return [(first + begin, first + end) for begin, end in spans(last - first, step)]

    def scores(self, start: int, stop: int, coefs: NDArray[Any]) -> NDArray[np.float64]:
        """Scores of the rows from start to stop, sorted by class, for coefficients (problems, features + 1)."""
        taken = self.matrix[self.order[start:stop]]
        if not self.sparse:
            taken = taken.astype(coefs.dtype, copy=False)
        scores = np.asarray(taken @ coefs[:, :-1].T, dtype=np.float64)
        scores += coefs[:, -1]
        return scores


def _matrix(rows: Rows) -> Any:
    if isinstance(rows, (SparseRows, DensifiedRows)):
        # Random access to rows of CSR is as fast as to dense rows, whatever the density.
        matrix = (rows.rows if isinstance(rows, DensifiedRows) else rows).block(0, rows.n_rows)
        return matrix if matrix.dtype in STORED_TYPES else matrix.astype(np.float64)
    if isinstance(rows, DenseRows):
        # Booleans are bytes.
        array = rows.array.view(np.uint8) if rows.array.dtype == bool else rows.array
        if array.dtype in STORED_TYPES:
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
