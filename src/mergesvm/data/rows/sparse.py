"""Rows of a scipy sparse array or matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from mergesvm.data.rows.base import Rows
from mergesvm.errors import DataError

MAX_SPARSE_DENSITY = 0.2
"""Denser matrices are multiplied faster as dense blocks; see benchmarks/crossovers.py."""


class SparseRows(Rows):
    """Rows of a scipy sparse array, kept as CSR.

    >>> from scipy import sparse
    >>> rows = SparseRows(sparse.eye_array(3, format="csr"))
    >>> rows.n_rows, rows.width, float(rows.density)
    (3, 3, 0.3333333333333333)
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix.tocsr()
        if self.matrix.dtype.char in "eg":  # half and extended precision, which compiled functions do not take
            self.matrix = self.matrix.astype(np.float64)
        self.n_rows, self.width = matrix.shape
        self._check_indices()

    def _check_indices(self) -> None:
        """Raise an error for indices outside of the matrix, because compiled functions do not check bounds."""
        starts, columns = self.matrix.indptr, self.matrix.indices
        if starts[0] != 0 or starts[-1] > min(len(columns), len(self.matrix.data)) or (np.diff(starts) < 0).any():
            raise DataError(
                "Input X is an invalid sparse array: indptr must start at 0, never decrease, and end within its values."
            )
        columns = columns[: starts[-1]]
        if len(columns) and not (columns.min() >= 0 and columns.max() < self.width):
            at = int(np.argmax((columns < 0) | (columns >= self.width)))
            row = int(np.searchsorted(starts, at, side="right")) - 1
            raise DataError(
                f"Input X is an invalid sparse array: row {row} has a value in column {columns[at]}, but there are "
                f"{self.width} columns."
            )

    @classmethod
    def of(cls, matrix: Any) -> Rows:
        """Return sparse rows, or rows read as dense blocks if the matrix is not sparse enough."""
        rows = cls(matrix)
        return DensifiedRows(rows) if rows.density > MAX_SPARSE_DENSITY else rows

    @property
    def density(self) -> float:
        """The fraction of values that are stored."""
        return float(self.matrix.nnz / max(1, self.n_rows * self.width))

    def block(self, start: int, stop: int) -> Any:
        """Return rows as CSR without duplicate entries and with sorted columns."""
        whole = start == 0 and stop == self.n_rows
        part = self.matrix if whole else self.matrix[start:stop]
        if not part.has_canonical_format:
            # On a copy, because the matrix is the caller's.
            part = part.copy() if whole else part
            part.sum_duplicates()
        return part

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Return the row, column and value of the first NaN or infinity, or None if there is none."""
        block = self.block(start, stop).tocoo()
        bad = np.flatnonzero(~np.isfinite(block.data))
        if not len(bad):
            return None
        rows, columns = block.coords if hasattr(block, "coords") else (block.row, block.col)
        first = bad[np.lexsort((columns[bad], rows[bad]))[0]]
        return start + int(rows[first]), int(columns[first]), float(block.data[first])


class DensifiedRows(Rows):
    """Sparse rows read as dense blocks.

    >>> from scipy import sparse
    >>> DensifiedRows(SparseRows(sparse.eye_array(2, format="csr"))).block(0, 1).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, rows: SparseRows) -> None:
        self.rows = rows
        self.n_rows, self.width = rows.n_rows, rows.width

    def block(self, start: int, stop: int) -> Any:
        """Return rows as a C-contiguous array."""
        return self.rows.block(start, stop).toarray()

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Return the row, column and value of the first NaN or infinity, or None if there is none."""
        return self.rows.nonfinite(start, stop)
