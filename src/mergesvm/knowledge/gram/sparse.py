"""Sums of sparse rows, from products of stored values only."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.engines.threads import Threads
from mergesvm.knowledge.gram.narrow import MAX_THREAD_SUMS_BYTES, Sums, added
from mergesvm.knowledge.gram.triangles import fill_lower

MIN_VALUES_PER_THREAD = 1 << 16
"""A thread for fewer stored values would not pay."""


def scattered_sums(
    batch: Batch, groups: NDArray[Any], n_groups: int, engine: Threads, jit: ModuleType
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Return totals (groups x width) and Gram matrices of each group about the origin, by a compiled function."""
    rows, unweighted = batch.rows, np.empty(0)
    assert isinstance(rows, SparseRows)
    matrix = rows.block(0, rows.n_rows)
    width = rows.width
    max_threads = MAX_THREAD_SUMS_BYTES // (8 * n_groups * width**2)
    threads = max(1, min(engine.workers, int(matrix.nnz) // MIN_VALUES_PER_THREAD, max_threads))

    def part(span: tuple[int, int]) -> Sums:
        grams, totals = np.zeros((n_groups, width * width)), np.zeros((n_groups, width))
        start, stop = span
        weights = unweighted if batch.weights is None else batch.weights[start:stop]
        starts = matrix.indptr[start : stop + 1]
        jit.scatter_rows(starts, matrix.indices, matrix.data, groups[start:stop], weights, grams, totals)
        return totals, grams

    parts = engine.map(part, list(spans(rows.n_rows, -(-rows.n_rows // threads))))
    totals, grams = added(parts)
    return totals, [fill_lower(gram.reshape(width, width)) for gram in grams]


def multiplied_sums(
    batch: Batch, groups: NDArray[Any], n_groups: int
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Return the same sums by scipy's sparse product: slower, but without loading compiled code."""
    rows = batch.rows
    totals, grams = np.zeros((n_groups, rows.width)), []
    whole = rows.block(0, rows.n_rows)
    for group in range(n_groups):
        members = np.flatnonzero(groups == group)
        part = whole[members].astype(np.float64)
        weighted = part if batch.weights is None else sparse.diags_array(batch.weights[members]) @ part
        totals[group] = np.asarray(weighted.sum(axis=0)).ravel()
        grams.append((part.T @ weighted).toarray())
    return totals, grams
