"""Sums of narrow rows: the compiled kernel adds each row straight to its class."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.columns import ColumnRows
from mergesvm.engines.threads import Threads

BLOCK_BYTES = 2**21
"""Rows that need converting are converted so many bytes at a time, to stay in the cache."""

READY = (np.dtype(np.float64), np.dtype(np.float32))
"""Types that the compiled kernel takes as they are."""

PART_ROWS = 1 << 15
"""A thread is not worth starting for fewer rows than this."""

PART_BYTES = 32 * 2**20
"""What the sums and stages of the classes may take in all threads."""


def narrow_sums(
    batch: Batch, groups: NDArray[Any], n_groups: int, anchor: NDArray[np.float64], engine: Threads, kernels: ModuleType
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Sums (groups x width) and Gram matrices of each group of rows about the anchor.

    Each thread takes one stretch of rows, with sums of its own that are added at the end.
    """
    width, rows = len(anchor), batch.rows.n_rows
    padded = -(-width // kernels.PADDING) * kernels.PADDING
    depth = kernels.stage_depth(padded)
    room = PART_BYTES // (8 * n_groups * padded * (padded + depth))
    threads = max(1, min(engine.workers, rows // PART_ROWS, room))
    step = max(1, BLOCK_BYTES // (8 * width))
    unweighted = np.empty(0)

    def part(span: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        grams = np.zeros((n_groups, padded, padded))
        totals = np.zeros((n_groups, padded))
        stage = np.zeros((n_groups, padded, depth)), np.zeros((n_groups, depth)), np.zeros(n_groups, dtype=np.intp)
        for start, stop in spans(span[1] - span[0], step):
            start, stop = start + span[0], stop + span[0]
            block = (
                batch.rows.strip(start, stop) if isinstance(batch.rows, ColumnRows) else batch.rows.block(start, stop)
            )
            if block.dtype not in READY:
                block = block.astype(np.float64)
            roots = unweighted if batch.weights is None else np.sqrt(batch.weights[start:stop])
            kernels.add_rows(block, groups[start:stop].astype(np.intp), roots, anchor, *stage, grams, totals)
        kernels.finish(*stage, grams, totals)
        return totals, grams

    parts = engine.map(part, list(spans(rows, -(-rows // threads))))
    totals, grams = added(parts)
    for gram in grams:
        kernels.mirror(gram)
    return totals[:, :width].copy(), [gram[:width, :width].copy() for gram in grams]


def added(
    parts: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Totals and Gram matrices of all parts, summed in place into those of the first."""
    totals, grams = parts[0]
    for other_totals, other_grams in parts[1:]:
        totals += other_totals
        grams += other_grams
    return totals, grams


def mirror(gram: NDArray[np.float64], step: int = 64) -> NDArray[np.float64]:
    """Copy the upper triangle of a matrix onto its lower one, block by block."""
    for start, stop in spans(len(gram), step):
        gram[stop:, start:stop] = gram[start:stop, stop:].T
        corner = np.triu(gram[start:stop, start:stop])
        gram[start:stop, start:stop] = corner + np.triu(corner, 1).T
    return gram
