"""Sums of a batch, by the method that suits its width and storage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT
from mergesvm.knowledge.gram.narrow import narrow_sums
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.sparse import multiplied_sums, scattered_sums
from mergesvm.knowledge.gram.wide import wide_sums

MAX_NARROW_WIDTH = 64
"""Up to this width, compiled sums are faster than gathering rows for BLAS; see benchmarks/crossovers.py."""

MAX_STAGED_VALUES = 20_000
"""For more classes x features, the stages of the compiled function would take more than 32 MB."""

MIN_PRODUCTS_FOR_THREADS = 2e7
"""With fewer products, starting threads takes longer than they save."""

SECONDS_SAVED_PER_ROW = 50e-9
"""The time that the compiled function saves per narrow row; see benchmarks/crossovers.py."""

SECONDS_SAVED_PER_SPARSE_PRODUCT = 4e-9
"""The time that the compiled function saves per product of two stored values; see benchmarks/crossovers.py."""

SECONDS_SAVED_PER_WIDE_PRODUCT = 4e-12
"""The time that compiled functions save per product of two values of a wide row, measured on images."""


def accumulate(
    batch: Batch,
    sums: RunningSums,
    anchor: NDArray[np.float64],
    engine: Threads,
    precision: str,
    expected_batches: float = 1.0,
    features: FeatureMap | None = None,
) -> bool:
    """Add the class totals and Gram matrices of a batch about the anchor to running sums.

    The precision is that of the products of wide rows; the expected number of similar batches, this one included,
    decides whether loading compiled code pays. Returns whether only the upper triangles of the matrices were filled.
    """
    if not batch.labels.classes:
        return False
    own = sums.for_classes(batch.labels.classes)
    added = features is None and _add_narrow_or_sparse(batch, own, anchor, engine, expected_batches)
    if not added:
        width, rows = len(anchor), batch.rows
        products = rows.n_rows * width * (width if features is None else width + rows.width)
        jit = GRAM_JIT.when_worth(rows.n_rows * width**2 * SECONDS_SAVED_PER_WIDE_PRODUCT * expected_batches)
        # Narrow rows are never multiplied in float32.
        product_precision = "float64" if features is None and width <= MAX_NARROW_WIDTH else precision
        threads = Threads(1) if products < MIN_PRODUCTS_FOR_THREADS else engine
        wide_sums(batch, own, anchor, threads, product_precision, jit, features)
    if not all(np.isfinite(gram.diagonal()).all() for gram in own.grams):
        batch.rows.check_finite()
        hint = ", or learn in float64" if precision == "float32" else ""
        raise DataError(f"Input X has values, or weights, too large to be squared and summed. Rescale them{hint}.")
    return not added


def _add_narrow_or_sparse(
    batch: Batch, sums: RunningSums, anchor: NDArray[np.float64], engine: Threads, expected_batches: float
) -> bool:
    """Add the sums of narrow or sparse rows, and return True; return False for other rows."""
    rows, codes = batch.rows, batch.labels.codes
    groups, n_groups = (np.minimum(codes, 0), 1) if sums.pooled else (codes, len(sums.totals))
    if isinstance(rows, SparseRows):
        products = float(rows.matrix.nnz) ** 2 / rows.n_rows
        jit = GRAM_JIT.when_worth(products * SECONDS_SAVED_PER_SPARSE_PRODUCT * expected_batches)
        if jit is None:
            totals, grams = multiplied_sums(batch, groups, n_groups)
        else:
            totals, grams = scattered_sums(batch, groups, n_groups, engine, jit)
    elif len(anchor) <= MAX_NARROW_WIDTH and n_groups * (len(anchor) + 3) <= MAX_STAGED_VALUES:
        jit = GRAM_JIT.when_worth(rows.n_rows * SECONDS_SAVED_PER_ROW * expected_batches)
        if jit is None:
            return False
        totals, grams = narrow_sums(batch, groups, n_groups, anchor, engine, jit)
    else:
        return False
    sums.add(_class_totals(batch, anchor) if sums.pooled else totals, grams)
    return True


def _class_totals(batch: Batch, anchor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the totals of each class, for the pooled form: a sparse class indicator times the rows."""
    n_classes = len(batch.labels.classes)
    totals = np.zeros((n_classes, len(anchor)))
    for start, stop in batch.rows.blocks():
        codes = batch.labels.codes[start:stop]
        counted = np.flatnonzero(codes >= 0)
        weights = np.ones(len(counted)) if batch.weights is None else batch.weights[start:stop][counted]
        indicator = sparse.csr_array((weights, (codes[counted], counted)), shape=(n_classes, stop - start))
        block: Any = batch.rows.block(start, stop)
        centred = block - anchor if anchor.any() else block
        part = indicator @ centred
        totals += part.toarray() if sparse.issparse(part) else part
    return totals
