"""Sums of wide rows: blocks of rows of one class, multiplied by BLAS."""

from __future__ import annotations

import threading
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.dense import DenseRows
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.engines.threads import Threads
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.gram.jit_worker import JIT_DTYPES, JitWorker
from mergesvm.knowledge.gram.mapping_worker import MappingWorker
from mergesvm.knowledge.gram.numpy_worker import NumpyWorker
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.worker import GramWorker, Source, Task, tasks_of

SPAN_ROWS = 1 << 19
"""Rows are ordered by class in spans of this many."""


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
        if features is None:
            source = Source.of(block, anchor, root_weights, precision)
        else:
            source = Source.mapped(block, anchor, root_weights, precision, features)

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
