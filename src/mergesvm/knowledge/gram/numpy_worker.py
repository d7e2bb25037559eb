"""Sums of wide rows with numpy alone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.worker import GramWorker, Source, Task


class NumpyWorker(GramWorker):
    """Multiplies rows by BLAS; fills whole Gram matrices."""

    def __init__(self, source: Source) -> None:
        self.source, width = source, len(source.anchor)
        self._gathered = np.empty((source.block_rows, width), dtype=source.block.dtype)
        converted = source.block.dtype != source.dtype
        self._rows = np.empty((source.block_rows, width), dtype=source.dtype) if converted else self._gathered
        self._product = np.empty((width, width), dtype=source.dtype)
        self._ones = np.ones(source.block_rows, dtype=source.dtype)

    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the totals and the Gram matrix of a task."""
        rows, root = self._gather(task.members)
        product = np.matmul(rows.T, rows, out=self._product)
        parts = [(index, root[begin:end] @ rows[begin:end]) for index, begin, end in task.runs]
        with lock:
            for index, part in parts:
                sums.totals[index] += part
            sums.grams[task.gram] += product

    def _gather(self, members: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return rows minus the anchor, times the roots of their weights; and the roots."""
        source, rows = self.source, self._rows[: len(members)]
        gathered = np.take(source.block, members, axis=0, out=self._gathered[: len(members)], mode="clip")
        if source.anchor.any():
            # Subtract in float64 also for float32 products: rows far from zero must not be rounded before.
            np.subtract(gathered, source.anchor, out=rows, dtype=np.float64, casting="unsafe")
        elif gathered.dtype != rows.dtype:
            np.copyto(rows, gathered, casting="unsafe")
        if source.root_weights is None:
            return rows, self._ones[: len(members)]
        root = source.root_weights[members].astype(source.dtype)
        rows *= root[:, None]
        return rows, root
