"""RowStore and LiftedStore: rows that are appended in batches and taken by position."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.models.kernel_function import Lifted


class RowStore:
    """Dense or sparse rows in a few chunks; chunks are merged so that appending takes amortised constant time per row.

    >>> store = RowStore()
    >>> store.append(np.array([[1.0], [2.0]]))
    >>> store.append(np.array([[3.0]]))
    >>> store.take(np.array([2, 0])).tolist(), len(store)
    ([[3.0], [1.0]], 3)
    """

    def __init__(self) -> None:
        self._chunks: list[Any] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Any) -> None:
        """Append rows."""
        if not rows.shape[0]:
            return
        self._chunks.append(rows)
        self._length += rows.shape[0]
        # Each chunk is at least twice as large as the next: there are few, and each row is copied rarely.
        while len(self._chunks) > 1 and self._chunks[-2].shape[0] < 2 * self._chunks[-1].shape[0]:
            last = self._chunks.pop()
            self._chunks[-1] = stack_rows([self._chunks[-1], last])

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop all rows but those in the mask; positions close up."""
        chunks = zip(self._chunks, self._starts, strict=False)
        kept = [chunk[mask[start : start + chunk.shape[0]]] for chunk, start in chunks]
        self._chunks, self._length = [chunk for chunk in kept if chunk.shape[0]], int(mask.sum())

    def all(self) -> Any:
        """All rows of a store that is not empty, without a copy."""
        self._chunks = [stack_rows(self._chunks)] if len(self._chunks) > 1 else self._chunks
        return self._chunks[0]

    def take(self, positions: NDArray[np.int64]) -> Any:
        """The rows at these positions, in this order."""
        starts = self._starts
        which = np.searchsorted(starts, positions, side="right") - 1
        if len(positions) and (which == which[0]).all():
            return self._chunks[which[0]][positions - starts[which[0]]]
        taken, order = [], []
        for index, chunk in enumerate(self._chunks):
            chosen = np.flatnonzero(which == index)
            taken.append(chunk[positions[chosen] - starts[index]])
            order.append(chosen)
        inverse = np.empty(len(positions), np.int64)
        inverse[np.concatenate(order)] = np.arange(len(positions))
        return stack_rows(taken)[inverse]

    @property
    def _starts(self) -> NDArray[np.int64]:
        return np.cumsum([0, *(chunk.shape[0] for chunk in self._chunks)])


def stack_rows(parts: list[Any]) -> Any:
    """Concatenate rows: an array if all parts are dense, else a CSR array."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")


class LiftedStore:
    """Lifted rows that are appended in batches, as in :class:`RowStore`."""

    def __init__(self) -> None:
        self._rows, self._squares = RowStore(), RowStore()

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, lifted: Lifted) -> None:
        """Append rows."""
        self._rows.append(lifted.matrix)
        if lifted.squares is not None:
            self._squares.append(lifted.squares)

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Drop all rows but those in the mask; positions close up."""
        self._rows.keep(mask)
        if len(self._squares):
            self._squares.keep(mask)

    def all(self) -> Lifted:
        """All rows of a store that is not empty, without a copy."""
        return Lifted(self._rows.all(), self._squares.all() if len(self._squares) else None)

    def take(self, positions: NDArray[np.int64]) -> Lifted:
        """The rows at these positions, in this order."""
        squares = self._squares.take(positions) if len(self._squares) else None
        return Lifted(self._rows.take(positions), squares)
