"""Sums of wide rows: blocks gathered by class and multiplied by BLAS."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data import Batch, DenseRows, SparseRows, spans
from mergesvm.engines import Threads
from mergesvm.features import FeatureMap
from mergesvm.knowledge.running import RunningSums

BLOCK_ROWS = 1024
"""Rows a product, by measurement: enough to hide the addition of the product, few enough for the cache."""

HOLLOW_ROWS = 512
"""The same where most values lie at the anchor: the fewer the rows, the more columns do so throughout."""

EXACT_ROWS = 256
"""Rows a product of pixels: 256 x 255^2 is below 2^24, so that float32 sums of whole numbers stay exact."""

TILE = 1024
"""Products of mapped rows are formed in tiles of at most this side."""

DEEP = 4
"""Mapped rows are multiplied at least one for so many features at a time, so that adding the product is little work."""

SPAN_ROWS = 1 << 19
"""Rows whose order by class is held at one time."""

PIXELS = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.bool_))

COMPILED = (*PIXELS, *(np.dtype(name) for name in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
"""Types of rows that the compiled kernels take: those of this machine, in its order of bytes."""


def wide_sums(
    batch: Batch,
    sums: RunningSums,
    anchor: NDArray[np.float64],
    engine: Threads,
    precision: str,
    kernels: ModuleType | None,
    features: FeatureMap | None = None,
) -> None:
    """Add the sums and the Gram matrices of the rows of each class about the anchor.

    The rows of a class are cut into blocks; a thread takes one block at a time, maps it if there is a map, multiplies
    it, and adds the product to the class's: memory is two blocks and a product a thread, however many classes there
    are. Gram matrices are filled in their upper triangles at least.
    """
    rows, codes = batch.rows, batch.labels.codes
    locks = [threading.Lock() for _ in sums.grams]
    own = threading.local()
    dense = isinstance(rows, DenseRows) and rows.array.flags.c_contiguous and rows.array.dtype != object
    in_place = dense or isinstance(rows, SparseRows)
    for start, stop in spans(rows.n_rows, SPAN_ROWS) if in_place else rows.blocks():
        source = _Source(rows.block(start, stop), anchor, batch.weights, start, precision, features)

        def run(task: _Task, source: _Source = source) -> None:
            if getattr(own, "source", None) is not source:
                own.source, own.bench = source, _bench(source, kernels)
            with np.errstate(all="ignore"):  # what overflows or is not finite is found, and named, in the sums
                own.bench.add(task, sums, locks[task.gram])

        engine.map(run, _tasks(codes[start:stop], len(sums.totals), sums.pooled, source.depth))


@dataclass(frozen=True)
class _Task:
    """Rows to be multiplied at one time: in the order of their classes, with the bounds of each."""

    gram: int
    members: NDArray[np.intp]
    runs: list[tuple[int, int, int]]


def _tasks(codes: NDArray[Any], n_classes: int, pooled: bool, depth: int) -> list[_Task]:
    """The rows of each class, or of all in the pooled form, in blocks of like size."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(n_classes + 1))
    groups = [(bounds[0], bounds[-1])] if pooled else list(pairwise(bounds))
    tasks = []
    for gram, (first, last) in enumerate(groups):
        if first == last:
            continue
        cuts = np.linspace(first, last, -(-(last - first) // depth) + 1).astype(np.intp)
        for begin, end in pairwise(cuts):
            low, high = np.searchsorted(bounds, begin, "right") - 1, np.searchsorted(bounds, end)
            inside = np.clip(bounds[low : high + 1], begin, end) - begin
            runs = [(int(low + index), int(a), int(b)) for index, (a, b) in enumerate(pairwise(inside)) if a < b]
            tasks.append(_Task(gram, order[begin:end], runs))
    return tasks


class _Source:
    """A stretch of rows, and how they are to be multiplied."""

    def __init__(
        self,
        block: NDArray[Any],
        anchor: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        start: int,
        precision: str,
        features: FeatureMap | None,
    ) -> None:
        self.block, self.anchor, self.features = block, anchor, features
        self.roots = None if weights is None else np.sqrt(weights[start : start + block.shape[0]])
        if features is not None:
            self.kind = np.dtype(precision)
            self.depth = min(max(BLOCK_ROWS, len(anchor) // DEEP), block.shape[0])
            return
        exact = block.dtype in PIXELS and weights is None and _fits(anchor, block.dtype)
        self.kind = np.dtype(np.float32 if exact or precision == "float32" else np.float64)
        depth = EXACT_ROWS if exact else HOLLOW_ROWS if _hollow(block[:BLOCK_ROWS], anchor) else BLOCK_ROWS
        self.depth = min(depth, len(block))


def _fits(anchor: NDArray[np.float64], dtype: np.dtype[Any]) -> bool:
    # Differences of pixels and whole numbers of the same range stay within 255.
    low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bool(((anchor >= low) & (anchor <= high) & (anchor == np.rint(anchor))).all())


def _hollow(rows: NDArray[Any], anchor: NDArray[np.float64]) -> bool:
    return bool(2 * np.count_nonzero(rows == anchor) > rows.size)


class _Plain:
    """The bench of a thread on which numpy does everything. All memory is taken once, for all blocks."""

    def __init__(self, source: _Source) -> None:
        self.source, width = source, len(source.anchor)
        self._gathered = np.empty((source.depth, width), dtype=source.block.dtype)
        converted = source.block.dtype != source.kind
        self._rows = np.empty((source.depth, width), dtype=source.kind) if converted else self._gathered
        self._product = np.empty((width, width), dtype=source.kind)
        self._ones = np.ones(source.depth, dtype=source.kind)

    def add(self, task: _Task, sums: RunningSums, lock: threading.Lock) -> None:
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


class _Compact:
    """The bench of a thread with compiled kernels, which leave out columns that lie at the anchor throughout a block.

    Real wide rows are often zero in many columns for a whole class: the rim of an image, a category never taken. The
    Gram matrix there is zero, and is neither multiplied nor added. Columns that remain come in few and long runs.
    """

    def __init__(self, source: _Source, kernels: Any) -> None:
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

    def add(self, task: _Task, sums: RunningSums, lock: threading.Lock) -> None:
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


class _Mapped:
    """The bench of a thread on which rows are mapped before they are multiplied.

    The product is formed in square tiles of the upper triangle: none is as large as the Gram matrix, and none is
    formed twice.
    """

    def __init__(self, source: _Source, kernels: Any) -> None:
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

    def add(self, task: _Task, sums: RunningSums, lock: threading.Lock) -> None:
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


def _bench(source: _Source, kernels: ModuleType | None) -> _Plain | _Compact | _Mapped:
    if source.features is not None:
        return _Mapped(source, kernels)
    return _Compact(source, kernels) if kernels is not None and source.block.dtype in COMPILED else _Plain(source)
