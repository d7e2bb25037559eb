"""Sums of wide rows: blocks gathered by class and multiplied by BLAS."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data import Batch, DenseRows, spans
from mergesvm.engines import Threads

BLOCK_ROWS = 1024
"""Rows a product, by measurement: enough to hide the addition of the product, few enough for the cache."""

EXACT_ROWS = 256
"""Rows a product of pixels: 256 x 255^2 is below 2^24, so that float32 sums of whole numbers stay exact."""

SEGMENT_ROWS = 4096
"""A segment is not cut into pieces shorter than this."""

SPAN_ROWS = 1 << 19
"""Rows whose order by class is held at one time."""

PIXELS = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype(np.bool_))


def wide_sums(
    batch: Batch, groups: NDArray[Any], n_groups: int, anchor: NDArray[np.float64], engine: Threads, precision: str
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Sums (groups x width) and Gram matrices of each group of rows about the anchor.

    The rows of a group are cut into segments; a thread takes one segment at a time, sums it by itself, and adds the
    result to the group's: memory is three matrices and three blocks a thread, whatever the number of groups.
    """
    width, rows = len(anchor), batch.rows
    totals = np.zeros((n_groups, width))
    grams = [np.zeros((width, width)) for _ in range(n_groups)]
    locks = [threading.Lock() for _ in range(n_groups)]
    own = threading.local()
    in_place = isinstance(rows, DenseRows) and rows.array.flags.c_contiguous and rows.array.dtype != object
    for start, stop in spans(rows.n_rows, SPAN_ROWS) if in_place else rows.blocks():
        source = _Source(rows.block(start, stop), anchor, batch.weights, start, precision)

        def run(task: tuple[int, NDArray[np.intp]], source: _Source = source) -> None:
            group, members = task
            if getattr(own, "source", None) is not source:
                own.source, own.segment = source, _Segment(source, width)
            segment: _Segment = own.segment
            segment.sum_up(members)
            with locks[group]:
                segment.add_to(totals[group], grams[group])

        engine.map(run, _segments(groups[start:stop], n_groups, engine.workers))
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
        self.block = block
        self.kind = np.dtype(np.float32 if exact or precision == "float32" else np.float64)
        self.depth = min(EXACT_ROWS if exact else BLOCK_ROWS, len(block))
        self.shift = anchor if anchor.any() else None
        self.roots = None if weights is None else np.sqrt(weights[start : start + len(block)])


def _fits(anchor: NDArray[np.float64], dtype: np.dtype[Any]) -> bool:
    # Differences of pixels and whole numbers of the same range stay within 255.
    low, high = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return bool(((anchor >= low) & (anchor <= high) & (anchor == np.rint(anchor))).all())


def _segments(groups: NDArray[Any], n_groups: int, workers: int) -> list[tuple[int, NDArray[np.intp]]]:
    """The rows of each group in segments of like size, longest first."""
    order = np.argsort(groups, kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(n_groups + 1))
    longest = max(SEGMENT_ROWS, -(-len(groups) // (4 * workers)))
    segments = []
    for group in range(n_groups):
        members = order[bounds[group] : bounds[group + 1]]
        if len(members):
            segments += [(group, part) for part in np.array_split(members, -(-len(members) // longest))]
    return sorted(segments, key=lambda segment: -len(segment[1]))


class _Segment:
    """The sums of one segment after another, over those columns only that have shown anything but zero.

    Real wide rows are often zero in many columns for a whole class: the rim of an image, a category never taken. The
    Gram matrix there is zero, and is neither multiplied nor added. All memory is taken once, for all segments.
    """

    def __init__(self, source: _Source, width: int) -> None:
        self.source = source
        self._gathered = np.empty((source.depth, width), dtype=source.block.dtype)
        converted = source.block.dtype != source.kind
        self._rows = np.empty((source.depth, width), dtype=source.kind) if converted else self._gathered
        self._compact = np.empty(source.depth * width, dtype=source.kind)
        self._product = np.empty(width * width, dtype=source.kind)
        self._ones = np.ones(source.depth, dtype=source.kind)
        self._sum, self._lines = np.empty((width, width)), np.empty((width, width))
        self._forget()

    def _forget(self) -> None:
        self.total = np.zeros(self._rows.shape[1])
        self.columns = np.empty(0, dtype=np.intp)
        self._reached = np.zeros(len(self.total), dtype=bool)
        self.gram = self._sum[:0, :0]

    def sum_up(self, members: NDArray[np.intp]) -> None:
        """Sum the rows of a segment, block by block."""
        self._forget()
        with np.errstate(all="ignore"):  # what overflows or is not finite is found, and named, in the sums
            for first, last in spans(len(members), self.source.depth):
                self._add(members[first:last])

    def add_to(self, total: NDArray[np.float64], gram: NDArray[np.float64]) -> None:
        """Add the sums of the segment to those of its group."""
        total += self.total
        count, width = len(self.columns), len(total)
        # Columns are put in their places by one take, silent ones from a column of zeros; then rows line by line.
        places = np.full(width, count)
        places[self.columns] = np.arange(count)
        summed = self._sum[:count]
        summed[:, count:] = 0.0
        np.take(summed, places, axis=1, out=self._lines[:count], mode="clip")
        for column, line in zip(self.columns.tolist(), self._lines, strict=False):
            gram[column] += line

    def _add(self, members: NDArray[np.intp]) -> None:
        count = len(members)
        rows, root = self._gather(members)
        total = root @ rows
        self.total += total
        self._reach(_active_columns(rows, total))
        width = len(self.columns)
        if width < rows.shape[1]:
            compact = self._compact[: count * width].reshape(count, width)
            rows = np.take(rows, self.columns, axis=1, out=compact, mode="clip")
        product = self._product[: width * width].reshape(width, width)
        self.gram += np.matmul(rows.T, rows, out=product)

    def _gather(self, members: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows about the anchor, times the root of their weight; and the roots."""
        source, rows = self.source, self._rows[: len(members)]
        gathered = np.take(source.block, members, axis=0, out=self._gathered[: len(members)], mode="clip")
        if source.shift is not None:
            # In float64, also where products are float32: rows far from zero are rounded only when they are near it.
            np.subtract(gathered, source.shift, out=rows, dtype=np.float64, casting="unsafe")
        elif gathered.dtype != rows.dtype:
            np.copyto(rows, gathered, casting="unsafe")
        if source.roots is None:
            return rows, self._ones[: len(members)]
        root = source.roots[members].astype(source.kind)
        rows *= root[:, None]
        return rows, root

    def _reach(self, active: NDArray[np.intp]) -> None:
        """Take in columns that were silent until now, behind the others."""
        new = active[~self._reached[active]]
        if len(new):
            known, wider = len(self.columns), len(self.columns) + len(new)
            self._reached[new] = True
            self.columns = np.concatenate([self.columns, new])
            self.gram = self._sum[:wider, :wider]
            self.gram[known:] = 0.0
            self.gram[:known, known:] = 0.0
            if wider == len(self.total):
                # All of them: from now on rows are multiplied as they are, in the order of their columns.
                order = np.argsort(self.columns)
                self.gram[:] = self.gram[np.ix_(order, order)]
                self.columns = self.columns[order]


def _active_columns(rows: NDArray[Any], total: NDArray[Any]) -> NDArray[np.intp]:
    """Columns that are not zero throughout; all of them where leaving some out would not pay."""
    width = rows.shape[1]
    silent = total == 0
    if np.count_nonzero(silent) * 16 > width:
        silent &= (rows.max(axis=0) == 0) & (rows.min(axis=0) == 0)
    if np.count_nonzero(silent) * 16 <= width:
        return np.arange(width)
    return np.flatnonzero(~silent)
