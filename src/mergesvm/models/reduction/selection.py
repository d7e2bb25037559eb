"""GreedySelection: the candidates that, one after another, reduce the squared error of a least-squares fit most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.models.reduction.rows import ColumnSums

Numbers = NDArray[np.float64]

MIN_INDEPENDENT_PART = 1e-7
"""Candidates of which a smaller part, as a fraction of the squared norm, is not a combination of the selected ones are
left out: rounding would decide on their coefficients."""


class GreedySelection:
    """Orthogonal least squares (forward selection) on sums, by a Cholesky factorisation that grows by one row a step.

    Every step selects the candidate that reduces the squared error of all outputs together most, if all coefficients
    are solved for again. The constant column is selected first, and not counted.

    Examples
    --------
    >>> columns = np.array([[1.0, 1.0, 0.0], [1.0, -1.0, 2.0], [1.0, 0.0, 5.0]])
    >>> targets = np.array([[2.0], [0.0], [1.0]])
    >>> sums = ColumnSums((columns.T @ columns)[None], columns.T @ targets, np.array([3.0]))
    >>> GreedySelection(sums).extended(1)  # the targets are 1 plus the first candidate
    array([0])
    """

    def __init__(self, sums: ColumnSums) -> None:
        self._gram, self._residual = sums.grams.sum(axis=0), sums.cross.copy()
        self._norms = self._gram.diagonal().copy()  # squared, of the part that no selected column explains
        self._smallest = MIN_INDEPENDENT_PART * self._norms
        self._factor = np.zeros((0, len(self._gram)))  # rows of the transposed Cholesky factor
        self._selected: list[int] = []
        self._append(0)

    def extended(self, size: int) -> NDArray[np.intp]:
        """The candidates, in the order of selection: this number of them, or all that are independent."""
        while len(self._selected) <= size:
            usable = self._norms > self._smallest
            if not usable.any():
                break
            gains = np.where(usable, np.einsum("mp,mp->m", self._residual, self._residual), -1.0)
            gains /= np.where(usable, self._norms, 1.0)
            self._append(int(gains.argmax()))
        return np.array(self._selected[1 : size + 1], dtype=np.intp) - 1

    def _append(self, column: int) -> None:
        count = len(self._selected)
        if count == len(self._factor):
            more = np.zeros((max(64, count), len(self._gram)))
            self._factor = np.concatenate([self._factor, more])
        row = self._gram[column] - self._factor[:count, column] @ self._factor[:count]
        row /= np.sqrt(self._norms[column])
        self._factor[count] = row
        self._residual -= np.outer(row, self._residual[column] / np.sqrt(self._norms[column]))
        self._norms -= row**2
        self._norms[column] = -1.0
        self._selected.append(column)
