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
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.worker import EXACT_DTYPES, GramWorker, Source, Task, tasks_of

SPAN_ROWS = 1 << 19
"""Rows are ordered by class in spans of this many."""

MAX_TILE_WIDTH = 1024
"""Products of mapped rows are formed in tiles of at most this width."""

JIT_DTYPES = (*EXACT_DTYPES, *(np.dtype(name) for name in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
"""Dtypes of rows that the compiled functions accept: native byte order only."""

MAX_RARE_FRACTION = 1 / 12
"""Columns that are nonzero in at most this fraction of the rows are multiplied value by value. BLAS is several times
faster per product, but forms the zero products, too (measured)."""

MIN_RUN_LENGTH = 3
"""If rare and other columns alternate in runs that are shorter on average, copying the runs would cost more."""


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
        return rows, _weighted(source, members, rows)


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
        cut, rest = n_rare * width, width - n_rare
        above = self._product[:cut].reshape(n_rare, width)
        below = self._product[cut : cut + rest * rest].reshape(rest, rest)
        jit.multiply_rare(rows, self._nonzero, above)
        np.matmul(frequent.T, frequent, out=below)
        with lock:
            for index, begin, end in task.runs:
                jit.add_totals(rows[begin:end], roots[begin:end], runs, sums.totals[index])
            jit.add_products(above, below, runs, n_rare_runs, sums.grams[task.gram])


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
        return rows, _weighted(source, members, rows)


def _weighted(source: Source, members: NDArray[np.intp], rows: NDArray[Any]) -> NDArray[Any]:
    """Multiply rows by the roots of their weights, in place, and return the roots."""
    if source.root_weights is None:
        return np.ones(len(members), dtype=source.dtype)
    root = source.root_weights[members].astype(source.dtype)
    rows *= root[:, None]
    return root
