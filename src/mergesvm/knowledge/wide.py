"""Sums of wide rows: blocks gathered by class and multiplied by BLAS."""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data import Batch, DenseRows, spans
from mergesvm.engines import Threads

BLOCK_ROWS = 1024
"""Rows a product, by measurement: enough to hide the addition of the product, few enough for the cache."""

HOLLOW_ROWS = 512
"""The same where most values lie at the anchor: the fewer the rows, the more columns do so throughout."""

EXACT_ROWS = 256
"""Rows a product of pixels: 256 x 255^2 is below 2^24, so that float32 sums of whole numbers stay exact."""

SPAN_ROWS = 1 << 19
"""Rows whose order by class is held at one time."""

PIXELS = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.bool_))

COMPILED = (*PIXELS, *(np.dtype(name) for name in ("i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")))
"""Types of rows that the compiled kernels take: those of this machine, in its order of bytes."""


def wide_sums(
    batch: Batch,
    groups: NDArray[Any],
    n_groups: int,
    anchor: NDArray[np.float64],
    engine: Threads,
    precision: str,
    kernels: ModuleType | None,
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Sums (groups x width) and Gram matrices of each group of rows about the anchor.

    The rows of a group are cut into blocks; a thread takes one block at a time, multiplies it, and adds the product to
    the group's: memory is a matrix and two blocks a thread, whatever the number of groups.
    """
    width, rows = len(anchor), batch.rows
    totals = np.zeros((n_groups, width))
    grams = list(np.zeros((n_groups, width, width)))
    locks = [threading.Lock() for _ in range(n_groups)]
    own = threading.local()
    in_place = isinstance(rows, DenseRows) and rows.array.flags.c_contiguous and rows.array.dtype != object
    for start, stop in spans(rows.n_rows, SPAN_ROWS) if in_place else rows.blocks():
        source = _Source(rows.block(start, stop), anchor, batch.weights, start, precision)

        def run(task: tuple[int, NDArray[np.intp]], source: _Source = source) -> None:
            group, members = task
            if getattr(own, "source", None) is not source:
                compiled = kernels is not None and source.block.dtype in COMPILED
                own.source, own.bench = source, _Compact(source, kernels) if compiled else _Plain(source)
            with np.errstate(all="ignore"):  # what overflows or is not finite is found, and named, in the sums
                own.bench.add(members, totals[group], grams[group], locks[group])

        engine.map(run, _blocks(groups[start:stop], n_groups, source.depth))
    if kernels is not None:
        engine.map(kernels.mirror, grams)
    return totals, grams


class _Source:
    """A stretch of rows, and how they are to be multiplied."""

    def __init__(
        self,
        block: NDArray[Any],
        anchor: NDArray[np.float64],
        weights: NDArray[np.float64] | None,
        start: int,
        precision: str,
    ) -> None:
        exact = block.dtype in PIXELS and weights is None and _fits(anchor, block.dtype)
        self.block, self.anchor = block, anchor
        self.kind = np.dtype(np.float32 if exact or precision == "float32" else np.float64)
        depth = EXACT_ROWS if exact else HOLLOW_ROWS if _hollow(block[:BLOCK_ROWS], anchor) else BLOCK_ROWS
        self.depth = min(depth, len(block))
        self.roots = None if weights is None else np.sqrt(weights[start : start + len(block)])


def _fits(anchor: NDArray[np.float64], dtype: np.dtype[Any]) -> bool:
    # Differences of pixels and whole numbers of the same range stay within 255.
    low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bool(((anchor >= low) & (anchor <= high) & (anchor == np.rint(anchor))).all())


def _hollow(rows: NDArray[Any], anchor: NDArray[np.float64]) -> bool:
    return bool(2 * np.count_nonzero(rows == anchor) > rows.size)


def _blocks(groups: NDArray[Any], n_groups: int, depth: int) -> list[tuple[int, NDArray[np.intp]]]:
    """The rows of each group in blocks of like size."""
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(n_groups + 1))
    blocks = []
    for group in range(n_groups):
        members = order[bounds[group] : bounds[group + 1]]
        if len(members):
            blocks += [(group, part) for part in np.array_split(members, -(-len(members) // depth))]
    return blocks


class _Plain:
    """The bench of a thread on which numpy does everything. All memory is taken once, for all blocks."""

    def __init__(self, source: _Source) -> None:
        self.source, width = source, len(source.anchor)
        self._gathered = np.empty((source.depth, width), dtype=source.block.dtype)
        converted = source.block.dtype != source.kind
        self._rows = np.empty((source.depth, width), dtype=source.kind) if converted else self._gathered
        self._product = np.empty((width, width), dtype=source.kind)
        self._ones = np.ones(source.depth, dtype=source.kind)

    def add(
        self, members: NDArray[np.intp], total: NDArray[np.float64], gram: NDArray[np.float64], lock: threading.Lock
    ) -> None:
        """Add the sums of some rows to those of their group."""
        rows, root = self._gather(members)
        part = root @ rows
        product = np.matmul(rows.T, rows, out=self._product)
        with lock:
            total += part
            gram += product

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

    def add(
        self, members: NDArray[np.intp], total: NDArray[np.float64], gram: NDArray[np.float64], lock: threading.Lock
    ) -> None:
        """Add the sums of some rows to those of their group: only to the upper triangle of the Gram matrix."""
        source, kernels, count = self.source, self.kernels, len(members)
        roots = self._ones[:count] if source.roots is None else source.roots[members]
        found, width = kernels.moving_runs(self._block, members, self._rest, self._moving, self._runs)
        runs = self._runs[:found]
        rows = self._rows[: count * width].reshape(count, width)
        kernels.gather(self._block, members, roots, source.anchor, runs, rows, self._as_they_are)
        product = np.matmul(rows.T, rows, out=self._product[: width * width].reshape(width, width))
        with lock:
            kernels.add_totals(rows, roots, runs, total)
            kernels.add_product(product, runs, gram)
