"""Sums of wide rows: blocks of rows of one class, multiplied by BLAS."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.dense import DenseRows
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.engines.threads import Threads
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.gram.jit_worker import JIT_DTYPES, JitWorker
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.worker import GramWorker, Source, Task, tasks_of

SPAN_ROWS = 1 << 19
"""Rows are ordered by class in spans of this many."""

MAX_TILE_WIDTH = 1024
"""Products of mapped rows are formed in tiles of at most this width."""


def wide_sums(
    batch: Batch,
    sums: RunningSums,
    anchor: NDArray[np.float64],
    engine: Threads,
    precision: str,
    jit: ModuleType | None,
    features: FeatureMap | None = None,
) -> None:
    """Add the totals and Gram matrices of the rows of each class about the anchor.

    The rows of a class are divided into blocks; a thread takes one block at a time, maps it if there is a map,
    multiplies it, and adds the product to that of the class. The memory is two blocks and one product per thread for
    any number of classes. At least the upper triangles of the Gram matrices are filled.
    """
    rows, codes = batch.rows, batch.labels.codes
    locks = [threading.Lock() for _ in sums.grams]
    state = threading.local()
    dense = isinstance(rows, DenseRows) and rows.array.flags.c_contiguous and rows.array.dtype != object
    in_place = dense or isinstance(rows, SparseRows)
    for start, stop in spans(rows.n_rows, SPAN_ROWS) if in_place else rows.blocks():
        block = rows.block(start, stop)
        root_weights = None if batch.weights is None else np.sqrt(batch.weights[start:stop])
        source = Source.of(block, anchor, root_weights, precision, features)

        def run(task: Task, source: Source = source) -> None:
            if getattr(state, "source", None) is not source:
                state.source, state.worker = source, _worker(source, jit)
            with np.errstate(all="ignore"):  # overflow and NaN are detected in the sums
                state.worker.add(task, sums, locks[task.gram])

        engine.map(run, tasks_of(codes[start:stop], len(sums.totals), sums.pooled, source.block_rows))


def _worker(source: Source, jit: ModuleType | None) -> GramWorker:
    if source.features is not None:
        return MappingWorker(source, jit)
    if jit is not None and source.block.dtype in JIT_DTYPES:
        return JitWorker(source, jit)
    return NumpyWorker(source)


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
