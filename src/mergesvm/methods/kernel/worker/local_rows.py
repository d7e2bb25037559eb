"""LocalRows: the rows that a unit holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.rows.base import spans
from mergesvm.features.maps.identity import Identity
from mergesvm.methods.kernel.messages import EMPTY
from mergesvm.methods.kernel.row_store import stack_rows
from mergesvm.methods.kernel.stats import RowSummary
from mergesvm.methods.row_pool import RowPool

BLOCK_ROWS = 4096
"""Number of rows that are processed at a time."""


@dataclass(frozen=True, eq=False)
class LocalRows:
    """Rows in memory, immutable, with their indices among the rows of all units, ascending.

    >>> rows = LocalRows.of(Batch.of([[1.0], [2.0], [3.0]], ["b", "a", "b"]), 10)
    >>> rows.members["b"], rows.indices
    (array([0, 2]), array([10, 11, 12]))
    """

    matrix: Any
    indices: NDArray[np.int64]
    weights: NDArray[np.float64] | None  # None if all are 1
    members: dict[Label, NDArray[np.int64]]  # the rows of each class, ascending; rows of weight 0 belong to no class

    @classmethod
    def of(cls, batch: Batch, first: int) -> LocalRows:
        """Copy the rows of a batch, with indices from ``first`` on."""
        pool = RowPool.of(batch, Identity())
        members = {
            label: pool.order[pool.bounds[code] : pool.bounds[code + 1]].astype(np.int64)
            for code, label in enumerate(batch.labels.classes)
        }
        weights = None if batch.weights is None else batch.weights.copy()
        return cls(pool.matrix.copy(), first + np.arange(pool.matrix.shape[0]), weights, members)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def renumbered(self, first: int) -> LocalRows:
        """The same rows, with indices from ``first`` on."""
        return replace(self, indices=first + np.arange(len(self)))

    def joined(self, other: LocalRows) -> LocalRows:
        """These rows, followed by others."""
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([np.ones(len(h)) if h.weights is None else h.weights for h in (self, other)])
        members = dict(self.members)
        for label, rows in other.members.items():
            members[label] = np.append(members.get(label, EMPTY), len(self) + rows)
        matrix = stack_rows([self.matrix, other.matrix])
        return LocalRows(matrix, np.append(self.indices, other.indices), weights, members)

    def without(self, indices: NDArray[np.int64]) -> LocalRows:
        """All rows but those with these indices."""
        kept = ~np.isin(self.indices, indices)
        position = np.cumsum(kept) - 1
        members = {label: position[rows[kept[rows]]] for label, rows in self.members.items() if kept[rows].any()}
        weights = None if self.weights is None else self.weights[kept]
        return LocalRows(self.matrix[kept], self.indices[kept], weights, members)

    def rows_of(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The local position of the row with each index; -1 for rows that this unit does not hold."""
        if not len(self):
            return np.full(len(indices), -1, np.int64)
        at = np.minimum(np.searchsorted(self.indices, indices), len(self) - 1)
        return np.where(self.indices[at] == indices, at, -1)

    def labels_of(self, rows: NDArray[np.int64]) -> list[Label]:
        """The classes of rows; each must have one."""
        codes = np.full(len(self), -1, np.int64)
        for code, members in enumerate(self.members.values()):
            codes[members] = code
        labels = list(self.members)
        return [labels[code] for code in codes[rows].tolist()]

    @np.errstate(over="ignore", invalid="ignore")  # values that are too large are reported by their norm
    def summarize(self, with_scatter: bool = True) -> RowSummary:
        """Statistics of the rows; the scatter is 0 unless it is needed."""
        summary = RowSummary(0, 0, np.zeros(self.matrix.shape[1]), 0.0, 0.0)
        for start, stop in spans(len(self), BLOCK_ROWS):
            block = self.matrix[start:stop]
            if self.weights is not None:
                block = block[self.weights[start:stop] > 0]
            cells = block.shape[0] * block.shape[1]
            if not cells:
                continue
            sums = np.asarray(block.sum(axis=0, dtype=np.float64)).ravel()
            stored, mean, scatter = cells, float(sums.sum()) / cells, 0.0
            if sparse.issparse(block):
                stored = block.nnz
            if with_scatter and sparse.issparse(block):
                scatter = float((np.square(block.data - mean, dtype=np.float64) - mean**2).sum()) + cells * mean**2
            elif with_scatter:
                scatter = float(np.square(block - mean, dtype=np.float64).sum())
            summary += RowSummary(stored, block.shape[0], sums, mean, scatter)
        return summary

    @np.errstate(over="ignore", invalid="ignore")
    def max_squared_norm(self, origin: NDArray[np.float64] | None) -> float:
        """The largest squared distance of a row from the origin."""
        most = 0.0
        for start, stop in spans(len(self), BLOCK_ROWS):
            block = self.matrix[start:stop]
            if sparse.issparse(block):
                wide = block.astype(np.float64)
                squares = np.asarray(wide.multiply(wide).sum(axis=1))
            else:
                shifted = block.astype(np.float64) if origin is None else block - origin
                squares = np.einsum("rd,rd->r", shifted, shifted)
            most = float(np.maximum(most, squares.max(initial=0.0)))  # propagates NaN
        return most

    def find(self, other: LocalRows) -> list[list[int] | None]:
        """For each row of ``other``, the indices of equal rows (values, class and weight) here; None for weight 0."""
        found: list[list[int] | None] = [None] * len(other)
        for label, wanted in other.members.items():
            here: dict[bytes, list[int]] = {}
            for row, key in self._keys(self.members.get(label, EMPTY)):
                here.setdefault(key, []).append(int(self.indices[row]))
            for row, key in other._keys(wanted):
                found[row] = here.get(key, [])
        return found

    def _keys(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
        """The values and weight of each row as bytes."""
        for start, stop in spans(len(rows), BLOCK_ROWS):
            block = self.matrix[rows[start:stop]]
            dense = block.toarray() if sparse.issparse(block) else block
            values = dense.astype(np.float64) + 0.0  # turns -0.0 into 0.0
            weights = np.ones(len(values)) if self.weights is None else self.weights[rows[start:stop]]
            for row, line in zip(rows[start:stop], np.column_stack([values, weights]), strict=True):
                yield int(row), line.tobytes()
