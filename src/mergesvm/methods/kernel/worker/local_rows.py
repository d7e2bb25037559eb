"""LocalRows: the rows that a unit holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.hashing import label_hash
from mergesvm.data.labels import Label
from mergesvm.data.rows.base import spans
from mergesvm.features.maps.identity import Identity
from mergesvm.methods.kernel.identity.distinct_rows import RowIdentities
from mergesvm.methods.kernel.messages import EMPTY
from mergesvm.methods.kernel.row_store import stack_rows
from mergesvm.methods.kernel.stats import RowSummary
from mergesvm.methods.row_pool import RowPool

BLOCK_ROWS = 4096
"""Number of rows that are processed at a time."""

MAX_BLOCK_VALUES = 1 << 20
"""Number of values that are hashed at a time, so that dense copies of sparse rows stay small."""

DIGEST_DIGITS = 32
"""Length of the digest of a row, in hexadecimal digits: of 128 bits, so that different rows have different digests."""


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
    ids: NDArray[Any] | None = None  # if equal rows count once

    @classmethod
    def of(cls, batch: Batch, first: int, ids: NDArray[Any] | None = None) -> LocalRows:
        """Copy the rows of a batch, with indices from ``first`` on."""
        pool = RowPool.of(batch, Identity())
        members = {
            label: pool.order[pool.bounds[code] : pool.bounds[code + 1]].astype(np.int64)
            for code, label in enumerate(batch.labels.classes)
        }
        weights = None if batch.weights is None else batch.weights.copy()
        return cls(pool.matrix.copy(), first + np.arange(pool.matrix.shape[0]), weights, members, ids)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def renumbered(self, first: int) -> LocalRows:
        """The same rows, with indices from ``first`` on."""
        return replace(self, indices=first + np.arange(len(self)))

    def joined(self, other: LocalRows) -> LocalRows:
        """These rows, followed by others; both have ids, or neither has."""
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate([np.ones(len(h)) if h.weights is None else h.weights for h in (self, other)])
        members = dict(self.members)
        for label, rows in other.members.items():
            members[label] = np.append(members.get(label, EMPTY), len(self) + rows)
        matrix, ids = stack_rows([self.matrix, other.matrix]), self.ids
        if ids is not None and other.ids is not None:
            ids = np.append(ids, other.ids)
        return LocalRows(matrix, np.append(self.indices, other.indices), weights, members, ids)

    def taken(self, rows: NDArray[np.int64], indices: NDArray[np.int64]) -> LocalRows:
        """The rows at these local positions, in this order, with these indices, which ascend."""
        position = np.full(len(self), -1, np.int64)
        position[rows] = np.arange(len(rows))
        members = {}
        for label, own in self.members.items():
            left = np.sort(position[own])
            if len(left) and left[-1] >= 0:
                members[label] = left[left >= 0]
        weights, ids = (None if each is None else each[rows] for each in (self.weights, self.ids))
        return LocalRows(self.matrix[rows], indices, weights, members, ids)

    def without(self, indices: NDArray[np.int64]) -> LocalRows:
        """All rows but those with these indices."""
        kept = np.flatnonzero(~np.isin(self.indices, indices))
        return self.taken(kept, self.indices[kept])

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

    @property
    def unweighted(self) -> NDArray[np.int64]:
        """The rows of weight 0."""
        return EMPTY if self.weights is None else np.flatnonzero(self.weights == 0)

    def identities(self, key: bytes) -> RowIdentities:
        """Ids, indices and digests of the rows of positive weight."""
        assert self.ids is not None
        digests = self.digests(key)
        learned = np.flatnonzero(digests != b"")
        return RowIdentities(self.ids[learned], self.indices[learned], digests[learned])

    def digests(self, key: bytes, *, weighted: bool = True) -> NDArray[np.bytes_]:
        """A keyed hash of the values, class and weight of each row, (rows,); empty for rows of weight 0.

        Rows are equal if their digests are, and only those who have the key can test which row has a digest.
        """
        digests = np.zeros(len(self), dtype=f"S{DIGEST_DIGITS}")
        for label, rows in self.members.items():
            hashed = partial(
                blake2b, key=key, salt=label_hash(label).to_bytes(8, "little"), digest_size=DIGEST_DIGITS // 2
            )
            for start, stop in spans(len(rows), max(1, MAX_BLOCK_VALUES // max(1, self.matrix.shape[1]))):
                lines = self._values(rows[start:stop], weighted)
                digests[rows[start:stop]] = [hashed(line.tobytes()).hexdigest() for line in lines]
        return digests

    def _values(self, rows: NDArray[np.int64], weighted: bool) -> NDArray[np.float64]:
        """The values of rows, followed by their weights."""
        block = self.matrix[rows]
        values: NDArray[np.float64] = (block.toarray() if sparse.issparse(block) else block).astype(np.float64)
        values += 0.0  # turns -0.0 into 0.0
        if not weighted:
            return values
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        return np.column_stack([values, weights])
