"""Sums of wide rows with compiled functions that skip values equal to the anchor."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.worker import EXACT_DTYPES, GramWorker, Source, Task

JIT_DTYPES = (*EXACT_DTYPES, *(np.dtype(name) for name in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
"""Dtypes of rows that the compiled functions accept: native byte order only."""

MAX_RARE_FRACTION = 1 / 12
"""Columns that are nonzero in at most this fraction of the rows are multiplied value by value. BLAS is several times
faster per product, but forms the zero products, too (measured)."""

MIN_RUN_LENGTH = 3
"""If rare and other columns alternate in runs that are shorter on average, copying the runs would cost more."""


class JitWorker(GramWorker):
    """Multiplies only columns that differ from the anchor; fills upper triangles only.

    Real wide rows are often zero in many columns for a whole class: the border of an image, an unused category. The
    Gram matrix is zero there, and is neither multiplied nor added. Columns that are zero in most rows are multiplied
    value by value. The remaining ones form few and long runs, and are multiplied by BLAS. "Zero" means equal to the
    anchor throughout.
    """

    def __init__(self, source: Source, jit: Any) -> None:
        self.source, self.jit, width = source, jit, len(source.anchor)
        self._block = source.block.view(np.uint8) if source.block.dtype == np.bool_ else source.block
        with np.errstate(invalid="ignore"):
            self._anchor = source.anchor.astype(self._block.dtype)
        # If the dtype of the rows cannot represent the anchor, no value equals it.
        self._never_zero = self._anchor != source.anchor
        self._counts = np.empty(width, dtype=np.uint32)
        self._rows = np.empty(source.block_rows * width, dtype=source.dtype)
        self._product = np.empty(width * width, dtype=source.dtype)
        self._runs = np.empty((width, 3), dtype=np.intp)
        self._nonzero = np.empty((width, int(MAX_RARE_FRACTION * source.block_rows) + 1), dtype=np.int32)
        self._ones = np.ones(source.block_rows)
        self._copy_only = source.root_weights is None and not source.anchor.any()

    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the totals and the upper triangle of the Gram matrix of a task."""
        source, jit, members, counts = self.source, self.jit, task.members, self._counts
        roots = self._ones[: len(members)] if source.root_weights is None else source.root_weights[members]
        jit.count_nonzero(self._block, members, self._anchor, self._never_zero, counts)
        max_rare, max_count = int(MAX_RARE_FRACTION * len(members)), np.iinfo(counts.dtype).max
        n_rare_runs, n_rare = jit.find_runs(counts, 0, max_rare, self._runs, 0, 0)
        n_runs, width = jit.find_runs(counts, max_rare, max_count, self._runs, n_rare_runs, n_rare)
        if n_rare_runs and MIN_RUN_LENGTH * n_runs > width:
            n_rare_runs = n_rare = 0
            n_runs, width = jit.find_runs(counts, 0, max_count, self._runs, 0, 0)
        runs = self._runs[:n_runs]
        rows = self._rows[: len(members) * width].reshape(len(members), width)
        jit.gather(self._block, members, roots, source.anchor, runs, rows, self._copy_only)
        frequent = rows[:, n_rare:]
        above, below = self._product_buffers(n_rare, width)
        jit.multiply_rare(rows, self._nonzero, above)
        np.matmul(frequent.T, frequent, out=below)
        with lock:
            for index, begin, end in task.runs:
                jit.add_totals(rows[begin:end], roots[begin:end], runs, sums.totals[index])
            jit.add_products(above, below, runs, n_rare_runs, sums.grams[task.gram])

    def _product_buffers(self, n_rare: int, width: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return buffers for products of rare columns with all, and of the others with each other."""
        cut, frequent = n_rare * width, width - n_rare
        return (
            self._product[:cut].reshape(n_rare, width),
            self._product[cut : cut + frequent * frequent].reshape(frequent, frequent),
        )
