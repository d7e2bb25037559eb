"""Sums of wide rows: blocks gathered by class and multiplied by BLAS."""

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
from mergesvm.knowledge.gram.jit_worker import COMPILED, JitWorker
from mergesvm.knowledge.gram.mapping_worker import MappingWorker
from mergesvm.knowledge.gram.numpy_worker import NumpyWorker
from mergesvm.knowledge.gram.tasks import Source, Task, tasks_of
from mergesvm.knowledge.learning.running_sums import RunningSums

SPAN_ROWS = 1 << 19
"""Rows whose order by class is held at one time."""


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
        block = rows.block(start, stop)
        roots = None if batch.weights is None else np.sqrt(batch.weights[start:stop])
        if features is None:
            source = Source.of(block, anchor, roots, precision)
        else:
            source = Source.mapped(block, anchor, roots, precision, features)

        def run(task: Task, source: Source = source) -> None:
            if getattr(own, "source", None) is not source:
                own.source, own.bench = source, _bench(source, kernels)
            with np.errstate(all="ignore"):  # what overflows or is not finite is found, and named, in the sums
                own.bench.add(task, sums, locks[task.gram])

        engine.map(run, tasks_of(codes[start:stop], len(sums.totals), sums.pooled, source.depth))


def _bench(source: Source, kernels: ModuleType | None) -> NumpyWorker | JitWorker | MappingWorker:
    """The bench of one thread. All its memory is taken once, for all blocks."""
    if source.features is not None:
        return MappingWorker(source, kernels)
    if kernels is not None and source.block.dtype in COMPILED:
        return JitWorker(source, kernels)
    return NumpyWorker(source)
