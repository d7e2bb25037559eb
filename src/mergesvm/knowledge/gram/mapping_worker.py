"""The bench on which rows are mapped before they are multiplied."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.rows.base import spans
from mergesvm.knowledge.gram.tasks import Source, Task
from mergesvm.knowledge.learning.running_sums import RunningSums

TILE = 1024
"""Products are formed in tiles of at most this side."""


class MappingWorker:
    """The bench of a thread on which rows are mapped before they are multiplied.

    The product is formed in square tiles of the upper triangle: none is as large as the Gram matrix, and none is
    formed twice.
    """

    def __init__(self, source: Source, kernels: Any) -> None:
        assert source.features is not None
        self.source, self.kernels, self.features = source, kernels, source.features
        width, depth = len(source.anchor), source.depth
        self._rows = np.empty((depth, width), dtype=self.features.dtype)
        converted = self.features.dtype != source.kind
        self._factors = np.empty((depth, width), dtype=source.kind) if converted else self._rows
        self._gathered = np.empty(0)
        if not sparse.issparse(source.block):
            self._gathered = np.empty((depth, source.block.shape[1]), dtype=source.block.dtype)
        step = -(-width // -(-width // TILE))
        self._tiles = list(spans(width, step))
        self._product = np.empty(step * step, dtype=source.kind)
        self._anchor = source.anchor.astype(source.kind) if source.anchor.any() else None

    def add(self, task: Task, sums: RunningSums, lock: threading.Lock) -> None:
        """Add the sums of some rows to those of their classes: only to the upper tiles of the Gram matrix."""
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
                    if self.kernels is None:
                        gram[top:bottom, left:right] += out
                    else:
                        self.kernels.add_tile(out, gram[top:bottom, left:right])

    def _map(self, members: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Features about the anchor, times the root of the weights; and the roots."""
        source, count = self.source, len(members)
        if sparse.issparse(source.block):
            gathered = source.block[members]
        else:
            gathered = np.take(source.block, members, axis=0, out=self._gathered[:count], mode="clip")
        mapped, rows = self._rows[:count], self._factors[:count]
        self.features.map_block(gathered, mapped)
        if self._anchor is not None:
            np.subtract(mapped, self._anchor, out=rows)
        elif rows.dtype != mapped.dtype:
            np.copyto(rows, mapped)
        if source.roots is None:
            return rows, np.ones(count, dtype=source.kind)
        root = source.roots[members].astype(source.kind)
        rows *= root[:, None]
        return rows, root
