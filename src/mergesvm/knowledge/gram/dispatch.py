"""From a batch to its sums, by the kernel that fits its width and kind."""

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
from mergesvm.knowledge.gram.jit_policy import kernels_worth
from mergesvm.knowledge.gram.narrow import narrow_sums
from mergesvm.knowledge.gram.sparse import multiplied_sums, scattered_sums
from mergesvm.knowledge.gram.wide import wide_sums
from mergesvm.knowledge.learning.running_sums import RunningSums

STAGES = 20_000
"""For more classes x features than this the stages of the compiled kernel would take more than 32 MB."""

NARROW = 64
"""Up to this width the compiled kernel is faster than gathering and BLAS; see benchmarks/crossovers.py."""

SMALL = 2e7
"""With fewer products than this, threads take longer to start than to save."""

ROW_SECONDS = 50e-9
"""What the compiled kernel saves on a narrow row, as measured."""

PRODUCT_SECONDS = 4e-9
"""What the compiled kernel saves on one product of two stored values of a sparse row, as measured."""

CELL_SECONDS = 4e-12
"""What the compiled kernels save on one product of two values of a wide row, as measured on images."""


def accumulate(
    batch: Batch,
    sums: RunningSums,
    anchor: NDArray[np.float64],
    engine: Threads,
    precision: str,
    foresight: float = 1.0,
    features: FeatureMap | None = None,
) -> bool:
    """Add the sums and Gram matrices of a batch about the anchor to those of its classes.

    Returns whether Gram matrices were filled in their upper triangles only.

    ``foresight`` is how many such batches are to be expected, this one included, when deciding what pays. ``features``
    is what rows are mapped by; None for rows as they are.
    """
    if not batch.labels.classes:
        return False
    own = sums.room_for(batch.labels.classes)
    small = features is None and _add_small(batch, own, anchor, engine, foresight)
    if features is not None:
        products = batch.rows.n_rows * len(anchor) * (len(anchor) + batch.rows.width)
        kernels = kernels_worth(batch.rows.n_rows * len(anchor) ** 2 * CELL_SECONDS * foresight)
        wide_sums(batch, own, anchor, Threads(1) if products < SMALL else engine, precision, kernels, features)
    elif not small:
        products = batch.rows.n_rows * len(anchor) ** 2
        kernels = kernels_worth(products * CELL_SECONDS * foresight)
        exact = "float64" if len(anchor) <= NARROW else precision  # narrow rows are never multiplied in float32
        wide_sums(batch, own, anchor, Threads(1) if products < SMALL else engine, exact, kernels)
    if not all(np.isfinite(gram.diagonal()).all() for gram in own.grams):
        batch.rows.check_finite()
        cure = ", or learn in float64" if precision == "float32" else ""
        raise DataError(f"Input X has values, or weights, too large to be squared and summed. Rescale them{cure}.")
    return not small


def _add_small(batch: Batch, sums: RunningSums, anchor: NDArray[np.float64], engine: Threads, foresight: float) -> bool:
    """Add the sums of narrow or sparse rows, for which there are kernels of their own; False for any other rows."""
    rows, codes = batch.rows, batch.labels.codes
    groups, n_groups = (np.minimum(codes, 0), 1) if sums.pooled else (codes, len(sums.totals))
    if isinstance(rows, SparseRows):
        products = float(rows.matrix.nnz) ** 2 / rows.n_rows
        kernels = kernels_worth(products * PRODUCT_SECONDS * foresight)
        if kernels is None:
            totals, grams = multiplied_sums(batch, groups, n_groups)
        else:
            totals, grams = scattered_sums(batch, groups, n_groups, engine, kernels)
    elif len(anchor) <= NARROW and n_groups * (len(anchor) + 3) <= STAGES:
        kernels = kernels_worth(rows.n_rows * ROW_SECONDS * foresight)
        if kernels is None:
            return False
        totals, grams = narrow_sums(batch, groups, n_groups, anchor, engine, kernels)
    else:
        return False
    sums.add(_class_totals(batch, anchor) if sums.pooled else totals, grams)
    return True


def _class_totals(batch: Batch, anchor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of each class alone, for the pooled form: a sparse indicator of the classes times the rows."""
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
