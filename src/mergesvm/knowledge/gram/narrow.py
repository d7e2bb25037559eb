"""Sums of narrow rows: a compiled function adds each row directly to its class."""

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
"""Rows of other dtypes are converted in blocks of this size, to stay in the cache."""

JIT_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))
"""Dtypes that the compiled function accepts without conversion."""

MIN_ROWS_PER_THREAD = 1 << 15
"""A thread for fewer rows would not pay."""

MAX_THREAD_SUMS_BYTES = 32 * 2**20
"""The memory for sums and stages of all threads."""

Sums = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Totals and Gram matrices, one per group."""


def narrow_sums(
    batch: Batch, groups: NDArray[Any], n_groups: int, anchor: NDArray[np.float64], engine: Threads, jit: ModuleType
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Return totals (groups x width) and Gram matrices of each group of rows about the anchor.

    Each thread takes one span of rows and has its own sums, which are added at the end.
    """
    width, rows = len(anchor), batch.rows.n_rows
    padded = -(-width // jit.PADDING) * jit.PADDING
    depth = jit.stage_depth(padded)
    max_threads = MAX_THREAD_SUMS_BYTES // (8 * n_groups * padded * (padded + depth))
    threads = max(1, min(engine.workers, rows // MIN_ROWS_PER_THREAD, max_threads))
    step = max(1, BLOCK_BYTES // (8 * width))
    unweighted = np.empty(0)

    def part(span: tuple[int, int]) -> Sums:
        grams = np.zeros((n_groups, padded, padded))
        totals = np.zeros((n_groups, padded))
        stage = np.zeros((n_groups, padded, depth)), np.zeros((n_groups, depth)), np.zeros(n_groups, dtype=np.intp)
        for start, stop in spans(span[1] - span[0], step):
            start, stop = start + span[0], stop + span[0]
            block = (
                batch.rows.strip(start, stop) if isinstance(batch.rows, ColumnRows) else batch.rows.block(start, stop)
            )
            if block.dtype not in JIT_DTYPES:
                block = block.astype(np.float64)
            roots = unweighted if batch.weights is None else np.sqrt(batch.weights[start:stop])
            jit.add_rows(block, groups[start:stop].astype(np.intp), roots, anchor, *stage, grams, totals)
        jit.finish(*stage, grams, totals)
        return totals, grams

    parts = engine.map(part, list(spans(rows, -(-rows // threads))))
    totals, grams = added(parts)
    for gram in grams:
        jit.triangles.mirror(gram)
    return totals[:, :width].copy(), [gram[:width, :width].copy() for gram in grams]


def added(parts: list[Sums]) -> Sums:
    """Add the totals and Gram matrices of all parts to those of the first, in place."""
    totals, grams = parts[0]
    for other_totals, other_grams in parts[1:]:
        totals += other_totals
        grams += other_grams
    return totals, grams
