"""From a batch to its sums, by the kernel that fits its width and kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data import Batch, SparseRows
from mergesvm.engines import Threads
from mergesvm.errors import DataError
from mergesvm.knowledge.loading import kernels_worth
from mergesvm.knowledge.narrow import narrow_sums
from mergesvm.knowledge.scatter import multiplied_sums, scattered_sums
from mergesvm.knowledge.wide import wide_sums

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
    batch: Batch, anchor: NDArray[np.float64], per_class: bool, engine: Threads, precision: str, foresight: float = 1.0
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    """Sums of each class (classes x width) and Gram matrices about the anchor: one a class, or a pooled one.

    ``foresight`` is how many such batches are to be expected, this one included, when deciding what pays.
    """
    n_classes = len(batch.labels.classes)
    if n_classes == 0:
        return np.zeros((0, len(anchor))), []
    if per_class:
        totals, grams = _sums(batch, batch.labels.codes, n_classes, anchor, engine, precision, foresight)
    else:
        pool = np.minimum(batch.labels.codes, 0)
        _, grams = _sums(batch, pool, 1, anchor, engine, precision, foresight)
        totals = _class_totals(batch, anchor)
    if not all(np.isfinite(gram.diagonal()).all() for gram in grams):
        batch.rows.check_finite()
        cure = ", or learn in float64" if precision == "float32" else ""
        raise DataError(f"Input X has values, or weights, too large to be squared and summed. Rescale them{cure}.")
    return totals, grams


def _sums(
    batch: Batch,
    groups: NDArray[Any],
    n_groups: int,
    anchor: NDArray[np.float64],
    engine: Threads,
    precision: str,
    foresight: float,
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]]]:
    rows = batch.rows
    if isinstance(rows, SparseRows):
        products = float(rows.matrix.nnz) ** 2 / rows.n_rows
        kernels = kernels_worth(products * PRODUCT_SECONDS * foresight)
        if kernels is None:
            return multiplied_sums(batch, groups, n_groups)
        return scattered_sums(batch, groups, n_groups, engine, kernels)
    if len(anchor) <= NARROW and n_groups * (len(anchor) + 3) <= STAGES:
        kernels = kernels_worth(rows.n_rows * ROW_SECONDS * foresight)
        if kernels is not None:
            return narrow_sums(batch, groups, n_groups, anchor, engine, kernels)
    products = rows.n_rows * len(anchor) ** 2
    if products < SMALL:
        engine = Threads(1)
    kernels = kernels_worth(products * CELL_SECONDS * foresight)
    precision = precision if len(anchor) > NARROW else "float64"
    return wide_sums(batch, groups, n_groups, anchor, engine, precision, kernels)


def _class_totals(batch: Batch, anchor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of each class alone, for the pooled form: a sparse indicator of the classes times the rows."""
    n_classes = len(batch.labels.classes)
    totals = np.zeros((n_classes, len(anchor)))
    for start, stop in batch.rows.blocks():
        codes = batch.labels.codes[start:stop]
        counted = np.flatnonzero(codes >= 0)
        weights = np.ones(len(counted)) if batch.weights is None else batch.weights[start:stop][counted]
        indicator = sparse.csr_array((weights, (codes[counted], counted)), shape=(n_classes, stop - start))
        block = batch.rows.block(start, stop)
        centred = block - anchor if anchor.any() else block
        part = indicator @ centred
        totals += part.toarray() if sparse.issparse(part) else part
    return totals
