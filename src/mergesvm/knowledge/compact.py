"""The bench with compiled kernels, for rows as they are."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from mergesvm.knowledge.running import RunningSums
from mergesvm.knowledge.source import PIXELS, Source, Task

COMPILED = (*PIXELS, *(np.dtype(name) for name in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
"""Types of rows that the compiled kernels take: those of this machine, in its order of bytes."""


class CompactBench:
    """The bench of a thread with compiled kernels, which leave out columns that lie at the anchor throughout a block.

    Real wide rows are often zero in many columns for a whole class: the rim of an image, a category never taken. The
    Gram matrix there is zero, and is neither multiplied nor added. Columns that remain come in few and long runs.
    """

    def __init__(self, source: Source, kernels: Any) -> None:
        self.source, self.kernels, width = source, kernels, len(source.anchor)
        self._block = source.block.view(np.uint8) if source.block.dtype == np.bool_ else source.block
        with np.errstate(invalid="ignore"):
            self._rest = source.anchor.astype(self._block.dtype)
        # An anchor that the type of the rows cannot hold is one at which no value lies.
        self._moving = self._rest != source.anchor
        self._rows = np.empty(source.depth * width, dtype=source.kind)
        self._product = np.empty(width * width, dtype=source.kind)
        self._runs = np.empty((width, 3), dtype=np.intp)
        self._ones = np.ones(source.depth)
        self._as_they_are = source.roots is None and not source.anchor.any()

    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the sums of some rows to those of their classes: only to the upper triangle of the Gram matrix."""
        source, kernels, members = self.source, self.kernels, task.members
        roots = self._ones[: len(members)] if source.roots is None else source.roots[members]
        found, width = kernels.moving_runs(self._block, members, self._rest, self._moving, self._runs)
        runs = self._runs[:found]
        rows = self._rows[: len(members) * width].reshape(len(members), width)
        kernels.gather(self._block, members, roots, source.anchor, runs, rows, self._as_they_are)
        product = np.matmul(rows.T, rows, out=self._product[: width * width].reshape(width, width))
        with lock:
            for index, begin, end in task.runs:
                kernels.add_totals(rows[begin:end], roots[begin:end], runs, sums.totals[index])
            kernels.add_product(product, runs, sums.grams[task.gram])
