"""ColumnCache: columns of the kernel matrix, cached within a memory budget."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.row_store import LiftedStore
from mergesvm.models.kernel_function import Kernel, Lifted

MIN_COLUMNS, MAX_COLUMNS = 64, 1 << 20
"""The number of cached columns is at least and at most this, whatever the budget."""


class ColumnCache:
    """Kernel values between the rows of one class and shared rows, as columns by the ids of the shared rows.

    It holds ``capacity`` columns; the oldest are replaced first. Columns have values of the ``n_active`` rows that are
    not shrunk, which come first.

    >>> kernel, dtype, shared = Kernel("linear"), np.dtype(np.float64), LiftedStore()
    >>> cache = ColumnCache(kernel, kernel.lift(np.array([[1.0], [2.0]]), dtype), dtype, 100)
    >>> shared.append(kernel.lift(np.array([[3.0], [5.0]]), dtype))
    >>> [(cache.columns[slots], part) for part, slots in cache.fetch(np.array([1]), shared)]
    [(array([[ 5., 10.]]), slice(0, 1, None))]
    """

    def __init__(self, kernel: Kernel, rows: Lifted, dtype: np.dtype[Any], capacity: int) -> None:
        self.kernel, self.rows = kernel, rows
        self.n_active = len(rows)
        self.capacity = min(max(capacity, MIN_COLUMNS), MAX_COLUMNS)
        self.n_computed = 0  # kernel values
        self._dtype = dtype
        self._slots = np.full(0, -1, dtype=np.int64)  # by id
        self._next = 0

    # Small problems need no cache: its arrays are allocated when the first column is computed.
    @cached_property
    def columns(self) -> NDArray[Any]:
        """The cached columns, (capacity, rows); unused pages take no memory."""
        return np.empty((self.capacity, len(self.rows)), dtype=self._dtype)

    @cached_property
    def _ids(self) -> NDArray[np.int64]:
        return np.full(self.capacity, -1, dtype=np.int64)

    @cached_property
    def _complete(self) -> NDArray[np.bool_]:
        return np.zeros(self.capacity, dtype=bool)

    def fetch(self, ids: NDArray[np.int64], shared: LiftedStore) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Yield parts of ``ids`` with the slots of their columns, valid until the next part; ``shared`` are turned."""
        if len(shared) > len(self._slots):
            self._slots = np.append(self._slots, np.full(2 * len(shared) - len(self._slots), -1, dtype=np.int64))
        step = self.capacity // 2
        for start in range(0, len(ids), step):
            part = slice(start, min(start + step, len(ids)))
            yield part, self._fetch(ids[part], shared)

    def _fetch(self, ids: NDArray[np.int64], shared: LiftedStore) -> NDArray[np.int64]:
        while True:
            missing = ids[self._slots[ids] < 0]
            if not len(missing):
                return self._slots[ids]
            self._cache(missing[: self.capacity - self._next], shared)

    def _cache(self, ids: NDArray[np.int64], shared: LiftedStore) -> None:
        slots = slice(self._next, self._next + len(ids))
        replaced = self._ids[slots]
        self._slots[replaced[replaced >= 0]] = -1
        self.compute(ids, shared, slice(0, self.n_active), self.columns[slots, : self.n_active])
        self._ids[slots], self._slots[ids] = ids, np.arange(slots.start, slots.stop)
        self._complete[slots] = self.n_active == len(self.rows)
        self._next = slots.stop % self.capacity

    def compute(self, ids: NDArray[np.int64], shared: LiftedStore, rows: slice, out: NDArray[Any]) -> None:
        """Compute kernel values between shared rows and some rows of the class, (ids, rows), without caching them."""
        self.kernel.fill(shared.take(ids), self.rows.take(rows), out)
        self.n_computed += out.size

    @property
    def n_cached(self) -> int:
        """Number of cached columns."""
        return int((self._slots >= 0).sum())

    def shrink(self, order: NDArray[np.int64], n_active: int) -> None:
        """Permute the active rows, and keep only the first of them active."""
        from mergesvm.methods.kernel.jit.scores import permute_columns

        self.rows.reorder(order)
        if self.n_computed:
            permute_columns(self.columns, np.flatnonzero(self._ids >= 0), order)
        self.n_active = n_active

    def unshrink(self) -> None:
        """Make all rows active again, and drop the columns that lack some of them."""
        self.n_active = len(self.rows)
        if not self.n_computed:
            return
        dropped = np.flatnonzero(~self._complete & (self._ids >= 0))
        self._slots[self._ids[dropped]] = -1
        self._ids[dropped] = -1
