"""The bench with compiled kernels, for rows as they are."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.gram.tasks import PIXELS, Source, Task
from mergesvm.knowledge.learning.running_sums import RunningSums

COMPILED = (*PIXELS, *(np.dtype(name) for name in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
"""Types of rows that the compiled kernels take: those of this machine, in its order of bytes."""


RARE = 1 / 12
"""Columns that move in up to this share of the rows are multiplied value by value, by measurement: BLAS is several
times as fast at a product, but forms them all."""

SHORT = 3
"""Unless rare and other columns alternate, in runs shorter than this: what these are copied by would take longer."""


class JitWorker:
    """The bench of a thread with compiled kernels, which does not multiply what lies at the anchor.

    Real wide rows are often zero in many columns for a whole class: the rim of an image, a category never taken. The
    Gram matrix there is zero, and is neither multiplied nor added. Columns in which few rows are not zero are
    multiplied value by value. Those that remain come in few and long runs, and are left to BLAS.
    """

    def __init__(self, source: Source, kernels: Any) -> None:
        self.source, self.kernels, width = source, kernels, len(source.anchor)
        self._block = source.block.view(np.uint8) if source.block.dtype == np.bool_ else source.block
        with np.errstate(invalid="ignore"):
            self._rest = source.anchor.astype(self._block.dtype)
        # An anchor that the type of the rows cannot hold is one at which no value lies.
        self._moving = self._rest != source.anchor
        self._counts = np.empty(width, dtype=np.uint32)
        self._rows = np.empty(source.depth * width, dtype=source.kind)
        self._product = np.empty(width * width, dtype=source.kind)
        self._runs = np.empty((width, 3), dtype=np.intp)
        self._places = np.empty((width, int(RARE * source.depth) + 1), dtype=np.int32)
        self._ones = np.ones(source.depth)
        self._as_they_are = source.roots is None and not source.anchor.any()

    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the sums of some rows to those of their classes: only to the upper triangle of the Gram matrix."""
        source, kernels, members, counts = self.source, self.kernels, task.members, self._counts
        roots = self._ones[: len(members)] if source.roots is None else source.roots[members]
        kernels.count_moving(self._block, members, self._rest, self._moving, counts)
        few, all_rows = int(RARE * len(members)), np.iinfo(counts.dtype).max
        n_rare, rare = kernels.runs_between(counts, 0, few, self._runs, 0, 0)
        found, width = kernels.runs_between(counts, few, all_rows, self._runs, n_rare, rare)
        if n_rare and SHORT * found > width:
            n_rare = rare = 0
            found, width = kernels.runs_between(counts, 0, all_rows, self._runs, 0, 0)
        runs = self._runs[:found]
        rows = self._rows[: len(members) * width].reshape(len(members), width)
        kernels.gather(self._block, members, roots, source.anchor, runs, rows, self._as_they_are)
        often = rows[:, rare:]
        above, below = self._split(rare, width)
        kernels.multiply_rare(rows, self._places, above)
        np.matmul(often.T, often, out=below)
        with lock:
            for index, begin, end in task.runs:
                kernels.add_totals(rows[begin:end], roots[begin:end], runs, sums.totals[index])
            kernels.add_products(above, below, runs, n_rare, sums.grams[task.gram])

    def _split(self, rare: int, width: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Room for the products of rare columns with all, and of the others with each other."""
        cut, often = rare * width, width - rare
        return (
            self._product[:cut].reshape(rare, width),
            self._product[cut : cut + often * often].reshape(often, often),
        )
