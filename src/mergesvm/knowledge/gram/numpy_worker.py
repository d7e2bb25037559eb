"""The bench on which numpy does everything."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.gram.tasks import Source, Task
from mergesvm.knowledge.learning.running_sums import RunningSums


class NumpyWorker:
    """The bench of a thread on which numpy does everything. All memory is taken once, for all blocks."""

    def __init__(self, source: Source) -> None:
        self.source, width = source, len(source.anchor)
        self._gathered = np.empty((source.depth, width), dtype=source.block.dtype)
        converted = source.block.dtype != source.kind
        self._rows = np.empty((source.depth, width), dtype=source.kind) if converted else self._gathered
        self._product = np.empty((width, width), dtype=source.kind)
        self._ones = np.ones(source.depth, dtype=source.kind)

    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the sums of some rows to those of their classes."""
        rows, root = self._gather(task.members)
        product = np.matmul(rows.T, rows, out=self._product)
        parts = [(index, root[begin:end] @ rows[begin:end]) for index, begin, end in task.runs]
        with lock:
            for index, part in parts:
                sums.totals[index] += part
            sums.grams[task.gram] += product

    def _gather(self, members: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows about the anchor, times the root of their weight; and the roots."""
        source, rows = self.source, self._rows[: len(members)]
        gathered = np.take(source.block, members, axis=0, out=self._gathered[: len(members)], mode="clip")
        if source.anchor.any():
            # In float64, also where products are float32: rows far from zero are rounded only when they are near it.
            np.subtract(gathered, source.anchor, out=rows, dtype=np.float64, casting="unsafe")
        elif gathered.dtype != rows.dtype:
            np.copyto(rows, gathered, casting="unsafe")
        if source.roots is None:
            return rows, self._ones[: len(members)]
        root = source.roots[members].astype(source.kind)
        rows *= root[:, None]
        return rows, root
