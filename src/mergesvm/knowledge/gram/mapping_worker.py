"""Sums of rows that are mapped to features first."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.rows.base import spans
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.worker import GramWorker, Source, Task

MAX_TILE_WIDTH = 1024
"""Products are formed in tiles of at most this width."""


class MappingWorker(GramWorker):
    """Maps rows, and multiplies them in square tiles of the upper triangle.

    No buffer is as large as the Gram matrix, and no product is formed twice.
    """

    def __init__(self, source: Source, jit: Any) -> None:
        assert source.features is not None
        self.source, self.jit, self.features = source, jit, source.features
        width, block_rows = len(source.anchor), source.block_rows
        self._mapped = np.empty((block_rows, width), dtype=self.features.dtype)
        converted = self.features.dtype != source.dtype
        self._rows = np.empty((block_rows, width), dtype=source.dtype) if converted else self._mapped
        self._gathered = np.empty(0)
        if not sparse.issparse(source.block):
            self._gathered = np.empty((block_rows, source.block.shape[1]), dtype=source.block.dtype)
        step = -(-width // -(-width // MAX_TILE_WIDTH))
        self._tiles = list(spans(width, step))
        self._product = np.empty(step * step, dtype=source.dtype)
        self._anchor = source.anchor.astype(source.dtype) if source.anchor.any() else None

    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the totals and the upper tiles of the Gram matrix of a task."""
        rows, root = self._map(task.members)
        parts = [(index, root[begin:end] @ rows[begin:end]) for index, begin, end in task.runs]
        with lock:
            for index, part in parts:
                sums.totals[index] += part
        gram = sums.grams[task.gram]
        for tile, (top, bottom) in enumerate(self._tiles):
            for left, right in self._tiles[tile:]:
                out = self._product[: (bottom - top) * (right - left)].reshape(bottom - top, right - left)
                np.matmul(rows[:, top:bottom].T, rows[:, left:right], out=out)
                with lock:
                    if self.jit is None:
                        gram[top:bottom, left:right] += out
                    else:
                        self.jit.add_tile(out, gram[top:bottom, left:right])

    def _map(self, members: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return features minus the anchor, times the roots of the weights; and the roots."""
        source, count = self.source, len(members)
        if sparse.issparse(source.block):
            gathered = source.block[members]
        else:
            gathered = np.take(source.block, members, axis=0, out=self._gathered[:count], mode="clip")
        mapped, rows = self._mapped[:count], self._rows[:count]
        self.features.map_block(gathered, mapped)
        if self._anchor is not None:
            np.subtract(mapped, self._anchor, out=rows)
        elif rows.dtype != mapped.dtype:
            np.copyto(rows, mapped)
        if source.root_weights is None:
            return rows, np.ones(count, dtype=source.dtype)
        root = source.root_weights[members].astype(source.dtype)
        rows *= root[:, None]
        return rows, root
