"""ColumnCache of the kernel matrix, kept within a budget of memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.row_store import Known
from mergesvm.models.kernel_function import Kernel, Lifted

FEWEST, MOST = 64, 1 << 20
"""So many columns are kept at least, however small the budget is, and at most."""


class ColumnCache:
    """Kernel values of the rows of one class with rows known by their ids: computed once, and kept while they fit.

    Parameters
    ----------
    kernel : Kernel
    rows : Lifted
        The rows of the class.
    real : dtype
    capacity : int
        How many columns are kept. The oldest make room.

    Attributes
    ----------
    awake : int
        Only so many rows, the first, are looked after; see :meth:`rearrange`.
    computed : int
        Kernel values computed so far.

    Examples
    --------
    >>> kernel, real, known = Kernel("linear"), np.dtype(np.float64), Known()
    >>> columns = ColumnCache(kernel, kernel.lift(np.array([[1.0], [2.0]]), real), real, 100)
    >>> known.append(kernel.lift(np.array([[3.0], [5.0]]), real))
    >>> [(columns.slab[slots], part) for part, slots in columns.bring(np.array([1]), known)]
    [(array([[ 5., 10.]]), slice(0, 1, None))]
    """

    def __init__(self, kernel: Kernel, rows: Lifted, real: np.dtype[Any], capacity: int) -> None:
        self.kernel, self.rows = kernel, rows
        self.awake = len(rows)
        self.capacity = min(max(capacity, FEWEST), MOST)
        self.computed = 0
        self._real = real
        self._slots = np.full(0, -1, dtype=np.int64)
        self._next = 0

    # Where all problems are small, no column is ever kept: memory is taken when the first is.
    @cached_property
    def slab(self) -> NDArray[Any]:
        """The columns, (capacity, rows); pages that are never used are never there."""
        return np.empty((self.capacity, len(self.rows)), dtype=self._real)

    @cached_property
    def _holders(self) -> NDArray[np.int64]:
        return np.full(self.capacity, -1, dtype=np.int64)

    @cached_property
    def _whole(self) -> NDArray[np.bool_]:
        return np.zeros(self.capacity, dtype=bool)

    def bring(self, ids: NDArray[np.int64], known: Known) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """For parts of ``ids``, the places of their columns in the slab, valid until the next part is asked for.

        ``known`` are the turned rows of all ids.
        """
        if len(known) > len(self._slots):
            self._slots = np.append(self._slots, np.full(2 * len(known) - len(self._slots), -1, dtype=np.int64))
        step = self.capacity // 2
        for start in range(0, len(ids), step):
            part = slice(start, min(start + step, len(ids)))
            yield part, self._bring(ids[part], known)

    def _bring(self, ids: NDArray[np.int64], known: Known) -> NDArray[np.int64]:
        while True:
            missing = ids[self._slots[ids] < 0]
            if not len(missing):
                return self._slots[ids]
            self._compute(missing[: self.capacity - self._next], known)

    def _compute(self, ids: NDArray[np.int64], known: Known) -> None:
        places = slice(self._next, self._next + len(ids))
        held = self._holders[places]
        self._slots[held[held >= 0]] = -1
        self.fill(ids, known, slice(0, self.awake), self.slab[places, : self.awake])
        self._holders[places], self._slots[ids] = ids, np.arange(places.start, places.stop)
        self._whole[places] = self.awake == len(self.rows)
        self._next = places.stop % self.capacity

    def fill(self, ids: NDArray[np.int64], known: Known, rows: slice, out: NDArray[Any]) -> None:
        """Kernel values of known rows with some of the rows of the class, (ids, rows)."""
        self.kernel.fill(known.take(ids), self.rows.take(rows), out)
        self.computed += out.size

    @property
    def held(self) -> int:
        """How many columns are kept now."""
        return int((self._slots >= 0).sum())

    def rearrange(self, order: NDArray[np.int64], awake: int) -> None:
        """Put the first rows into another order, and then look after only so many of them."""
        from mergesvm.methods.kernel.jit.unit import reorder

        self.rows.reorder(order)
        if self.computed:
            reorder(self.slab, np.flatnonzero(self._holders >= 0), order)
        self.awake = awake

    def wake(self) -> None:
        """Look after all rows again; columns that lack some of them are forgotten."""
        self.awake = len(self.rows)
        if not self.computed:
            return
        torn = np.flatnonzero(~self._whole & (self._holders >= 0))
        self._slots[self._holders[torn]] = -1
        self._holders[torn] = -1
