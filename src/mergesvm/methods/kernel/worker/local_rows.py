"""The rows that a unit holds: more come, and some go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.rows.base import spans
from mergesvm.features.maps.identity import Identity
from mergesvm.methods.row_pool import RowPool

BLOCK_ROWS = 4096
"""Rows are looked through so many at a time."""


@dataclass(frozen=True)
class RowInfo:
    """What a unit tells of its rows: no row is in it.

    Attributes
    ----------
    cells, stored : int
        How many values there are, and how many of them are stored.
    weight : float
        The weight of all values.
    sums : array of shape (features,)
        Weighted.
    mean, scatter : float
        Of all values, weighted.
    """

    cells: int
    stored: int
    weight: float
    sums: NDArray[np.float64]
    mean: float
    scatter: float


class LocalRows:
    """Rows in memory, with their labels, weights and numbers; never changed, but replaced.

    Attributes
    ----------
    matrix : array or CSR array of shape (rows, features)
    numbers : array of int, shape (rows,)
        By which others speak of them, ascending.
    weights : array of shape (rows,), or None where all weigh 1
    members : dict of class to array of int
        The rows of each class, ascending.

    Examples
    --------
    >>> held = LocalRows.of(Batch.of([[1.0], [2.0], [3.0]], ["b", "a", "b"]), 10)
    >>> held.members["b"], held.numbers
    (array([0, 2]), array([10, 11, 12]))
    """

    def __init__(
        self,
        matrix: Any,
        numbers: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        members: dict[Label, NDArray[np.int64]],
    ) -> None:
        self.matrix, self.numbers, self.weights, self.members = matrix, numbers, weights, members

    @classmethod
    def of(cls, batch: Batch, first: int) -> LocalRows:
        """A copy of the rows of a batch, numbered from ``first`` on: they are needed again when others come or go."""
        pool = RowPool.of(batch, Identity())
        members = {
            label: pool.order[pool.bounds[code] : pool.bounds[code + 1]].astype(np.int64)
            for code, label in enumerate(batch.labels.classes)
        }
        weights = None if batch.weights is None else batch.weights.copy()
        return cls(pool.matrix.copy(), first + np.arange(pool.matrix.shape[0]), weights, members)

    def __len__(self) -> int:
        length: int = self.matrix.shape[0]
        return length

    def numbered(self, first: int) -> LocalRows:
        """The same rows, with numbers from ``first`` on."""
        return LocalRows(self.matrix, first + np.arange(len(self)), self.weights, self.members)

    def joined(self, other: LocalRows) -> LocalRows:
        """These rows, and others behind them."""
        matrices = [self.matrix, other.matrix]
        if all(isinstance(matrix, np.ndarray) for matrix in matrices):
            matrix: Any = np.concatenate(matrices)
        else:
            matrix = sparse.vstack([sparse.csr_array(matrix) for matrix in matrices], format="csr")
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([np.ones(len(h)) if h.weights is None else h.weights for h in (self, other)])
        members = dict(self.members)
        for label, rows in other.members.items():
            members[label] = np.append(members.get(label, np.zeros(0, np.int64)), len(self) + rows)
        return LocalRows(matrix, np.append(self.numbers, other.numbers), weights, members)

    def without(self, numbers: NDArray[np.int64]) -> LocalRows:
        """The rows but for some."""
        stay = ~np.isin(self.numbers, numbers)
        place = np.cumsum(stay) - 1
        members = {label: place[rows[stay[rows]]] for label, rows in self.members.items() if stay[rows].any()}
        weights = None if self.weights is None else self.weights[stay]
        return LocalRows(self.matrix[stay], self.numbers[stay], weights, members)

    def rows_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these numbers; -1 for those that are not here."""
        if not len(self):
            return np.full(len(numbers), -1, np.int64)
        at = np.minimum(np.searchsorted(self.numbers, numbers), len(self) - 1)
        return np.where(self.numbers[at] == numbers, at, -1)

    def labels_of(self, rows: NDArray[np.int64]) -> list[Label]:
        """The classes of rows that have one."""
        codes = np.full(len(self), -1, np.int64)
        for code, members in enumerate(self.members.values()):
            codes[members] = code
        labels = list(self.members)
        return [labels[code] for code in codes[rows].tolist()]

    def counts(self) -> dict[Label, int]:
        """How many rows each class has."""
        return {label: len(rows) for label, rows in self.members.items()}

    @np.errstate(over="ignore", invalid="ignore")  # what is too large is said once the reach is known
    def about(self, spread: bool = True) -> RowInfo:
        """What can be told of the rows without showing any; rows count by their weights.

        How far all values spread is looked at only if it is wanted.
        """
        count, width = self.matrix.shape
        sums, mean, scatter, seen = np.zeros(width), 0.0, 0.0, 0.0
        for start, stop in spans(count, BLOCK_ROWS):
            weights = np.ones(stop - start) if self.weights is None else self.weights[start:stop]
            cells = float(weights.sum()) * width
            if not cells:
                continue
            block = self.matrix[start:stop]
            total = block.T @ weights
            centre = float(total.sum()) / cells
            if not spread:
                square = 0.0
            elif isinstance(block, np.ndarray):
                square = float(weights @ np.square(block - centre, dtype=np.float64).sum(axis=1))
            else:
                each = np.repeat(weights, np.diff(block.indptr))
                squares = float(each @ (np.square(block.data - centre, dtype=np.float64) - centre**2))
                square = squares + cells * centre**2
            apart, share = centre - mean, cells / (seen + cells)
            mean, scatter = mean + apart * share, scatter + square + apart * apart * seen * share
            seen, sums = seen + cells, sums + total
        stored = self.matrix.nnz if sparse.issparse(self.matrix) else count * width
        return RowInfo(count * width, stored, seen, sums, mean, scatter)

    @np.errstate(over="ignore", invalid="ignore")
    def reach(self, origin: NDArray[np.float64] | None) -> float:
        """The square of the largest distance of a row from the origin."""
        most = 0.0
        for start, stop in spans(len(self), BLOCK_ROWS):
            block = self.matrix[start:stop]
            if sparse.issparse(block):
                wide = block.astype(np.float64)
                squares = np.asarray(wide.multiply(wide).sum(axis=1))
            else:
                near = block.astype(np.float64) if origin is None else block - origin
                squares = np.einsum("rd,rd->r", near, near)
            most = float(np.maximum(most, squares.max(initial=0.0)))  # which lets NaN pass
        return most

    def find(self, other: LocalRows) -> list[list[int] | None]:
        """For each row of another set, the numbers of the rows here that are the same, of the same class and weight.

        None for rows that weigh nothing, and so are of no class.
        """
        found: list[list[int] | None] = [None] * len(other)
        for label, wanted in other.members.items():
            here = self.members.get(label, np.zeros(0, np.int64))
            places: dict[bytes, list[int]] = {}
            for row, key in self._keys(here):
                places.setdefault(key, []).append(int(self.numbers[row]))
            for row, key in other._keys(wanted):
                found[row] = places.get(key, [])
        return found

    def _keys(self, rows: NDArray[np.int64]) -> Any:
        for start, stop in spans(len(rows), BLOCK_ROWS):
            block = self.matrix[rows[start:stop]]
            dense = block.toarray() if sparse.issparse(block) else block
            values = dense.astype(np.float64) + 0.0  # which makes one zero of both
            if self.weights is not None:
                values = np.column_stack([values, self.weights[rows[start:stop]]])
            else:
                values = np.column_stack([values, np.ones(len(values))])
            for row, line in zip(rows[start:stop], values, strict=True):
                yield int(row), line.tobytes()
