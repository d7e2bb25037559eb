"""TrainingSetup: the binary problems of a training run. KernelNumerics: how its kernel is evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.labels import Label
from mergesvm.engines.base import Actors
from mergesvm.errors import DataError
from mergesvm.methods.kernel.centred_polynomial import CentredPolynomial
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.methods.kernel.stats import RowSummary
from mergesvm.models.kernel_function import Kernel, Lifted
from mergesvm.multiclass.class_weights import given_weights, side_weights

MAX_ROWS_FOR_FLOAT64 = 1000
"""Up to this number of rows kernel values are computed in float64, which is fast enough."""

MIN_DENSITY_FOR_DENSE = 0.01
"""Sparse rows are multiplied as dense ones if at least this fraction of their values is stored."""

CENTRED_KERNELS = ("linear", "poly")
"""Kernels for which another origin of the feature space, which y'alpha = 0 allows, is that of centred rows."""

MIN_RELATIVE_OFFSET = 16
"""The kernel "poly" is centred if products of rows are this many times larger than those of centred rows."""

MAX_ROWS_FOR_TIGHT_TOLERANCE, TIGHT_TOLERANCE = 200, 1e-6
"""Up to this number of rows in all, ``tol`` is multiplied by this factor: the extra iterations take no time."""

SMALL_PROBLEM_FACTOR = 3
"""A problem is small, and solved at once, if its rows are at most this many times the working set."""

MIN_PROPOSED_ROWS = 8
"""Each unit may propose at least this number of rows per problem and direction."""

MAX_ROWS_IF_HARD = 1500
"""All units together may propose this number of rows of a problem on which SMO does not converge."""

SELECTION_NOISE = 0.5
"""The fraction of a violation that is random when units select the rows that they propose."""

Pair = tuple[Label, Label]
"""The classes of a binary problem: the negative, then the positive one."""


@dataclass(frozen=True)
class KernelNumerics:
    """The kernel and how it is evaluated; the same for all later rows."""

    kernel: Kernel
    trained: Kernel  # the kernel in training: with y'alpha = 0, that about another origin of the feature space
    dtype: np.dtype[Any]  # the precision of kernel values
    dense: bool  # whether products of sparse rows are computed on dense copies
    origin: NDArray[np.float64] | None  # subtracted from rows before products, if training does not depend on it

    @classmethod
    def of(cls, units: Actors[Any], options: KernelOptions, n_rows: int) -> KernelNumerics:
        """Choose the numerics from summaries of the units; rows stay local."""
        summaries: list[RowSummary] = units.call("summarize", isinstance(options.kernel.gamma, str))
        with np.errstate(over="ignore", invalid="ignore"):  # values that are too large are reported by their norm
            summary = reduce(add, summaries)
        kernel = _with_gamma(options.kernel, summary).check()
        dense = summary.stored >= MIN_DENSITY_FOR_DENSE * summary.cells or kernel.is_function
        mean = summary.sums / max(summary.n_rows, 1)
        movable = kernel.of_distance or (options.beta is None and kernel.kind in CENTRED_KERNELS)
        origin = mean if movable and dense else None
        norm = _max_squared_norm(units, kernel, origin)
        trained = kernel
        if kernel.kind == "poly" and origin is not None:
            raw = _max_squared_norm(units, kernel, None)
            far = kernel.gamma * raw + abs(kernel.coef0) > MIN_RELATIVE_OFFSET * kernel.gamma * norm
            trained, origin, norm = CentredPolynomial(**vars(kernel), origin=mean) if far else kernel, None, raw
        double = n_rows <= MAX_ROWS_FOR_FLOAT64 or trained is not kernel or not kernel.fits_float32(norm)
        # The score of a row at the bound, whose alpha is C, is rounded as much.
        double |= options.tol < options.C * kernel.largest(norm) * 2**-24
        dtype = np.dtype(options.precision or ("float64" if double else "float32"))
        if not kernel.is_finite(norm, dtype):
            raise DataError(f"Input X has values too large for the kernel in {dtype.name}. Rescale the columns.")
        return cls(kernel, trained, dtype, dense, origin)

    def lift(self, rows: Any, indices: NDArray[np.int64]) -> Lifted:
        """Prepare rows for products by the kernel, on dense or sparse rows as chosen."""
        if sparse.issparse(rows) and self.dense:
            rows = rows.toarray()
        elif isinstance(rows, np.ndarray) and not self.dense:
            rows = sparse.csr_array(rows)
        if self.kernel.kind == "precomputed":
            rows = np.column_stack([rows, indices])
        return self.trained.lift(rows, self.dtype, self.origin)

    @property
    def centre(self) -> NDArray[np.float64] | None:
        """The point whose score is zero in training, without the intercept; None for a kernel used as it is."""
        if isinstance(self.trained, CentredPolynomial):
            return self.trained.origin
        return None if self.kernel.of_distance else self.origin


def _max_squared_norm(units: Actors[Any], kernel: Kernel, origin: NDArray[np.float64] | None) -> float:
    """The largest squared distance of a row from the origin; raises an error if kernel values overflow."""
    norm = float(np.max(units.call("max_squared_norm", origin)))
    if not (np.isfinite(norm) and kernel.is_finite(norm, np.dtype(np.float64))):
        raise DataError("Input X has values too large for the kernel. Rescale the columns.")
    return norm


def _with_gamma(kernel: Kernel, summary: RowSummary) -> Kernel:
    """The kernel with a number for gamma "scale" or "auto"."""
    if not isinstance(kernel.gamma, str):
        return kernel
    width = len(summary.sums)
    variance = float(summary.scatter) / max(summary.n_rows * width, 1)
    scaled = kernel.gamma == "scale" and variance > 0 and np.isfinite(variance)
    return replace(kernel, gamma=1 / (width * variance) if scaled else 1 / width)


@dataclass(frozen=True)
class TrainingSetup:
    """The binary problems of a training run, and how units work on them."""

    pairs: list[Pair]
    bounds: NDArray[np.float64]  # (pairs, 2): upper bound of alpha for a row of weight 1, per side
    numerics: KernelNumerics
    max_proposed: NDArray[np.int64]  # per problem: rows that a unit proposes in each direction
    max_proposed_if_hard: int
    small: NDArray[np.bool_]  # problems that are solved at once; a unit begins by solving those of its own rows
    selection_noise: float
    prefilters: bool  # whether a unit first solves the problem of the selected rows, and proposes its support vectors
    cache_bytes: int  # of each unit, for columns of the kernel matrix
    penalty: float  # on (y'alpha)^2 / 2: M beta for M units; negative for the constraint y'alpha = 0
    tolerance: float  # of a problem: its violation, or its relative duality gap
    n_threads: int  # of each unit
    max_iter: float  # infinite for no limit

    @classmethod
    def of(
        cls,
        options: KernelOptions,
        numerics: KernelNumerics,
        class_counts: Mapping[Label, int],
        class_weights: Mapping[Label, float],
        n_units: int,
        *,
        in_process: bool,
        n_threads: int,
    ) -> TrainingSetup:
        """The setup for rows of these classes, with these sums of weights, at this number of units."""
        pairs = list(combinations(sorted(class_counts), 2))
        one_by_one = options.method == "active-set"
        sizes = np.array([class_counts[one] + class_counts[other] for one, other in pairs], dtype=np.int64)
        small = (sizes <= SMALL_PROBLEM_FACTOR * options.working_set) & (options.method == "working-set")
        # A single unit proposes all rows of a small problem. Several units in one process propose more rows each, for
        # fewer iterations; elsewhere all proposed rows have to be sent.
        fraction = n_units if in_process and n_units > 1 else 4 * n_units
        proposed = 1 if one_by_one else max(MIN_PROPOSED_ROWS, options.working_set // fraction)
        n_rows = sum(class_counts.values())
        tighten = n_rows <= MAX_ROWS_FOR_TIGHT_TOLERANCE and not options.stops_on_gap and options.method != "gradient"
        return cls(
            pairs,
            _upper_bounds(options, class_weights, pairs),
            numerics,
            np.where(small & (n_units == 1), sizes, proposed),
            proposed if one_by_one else max(proposed, MAX_ROWS_IF_HARD // (2 * n_units)),
            small,
            0.0 if one_by_one else SELECTION_NOISE,
            n_units > 1 and not one_by_one,
            max(1, options.cache_bytes // n_units),
            -1.0 if options.beta is None else options.beta * n_units,
            options.tol * (TIGHT_TOLERANCE if tighten else 1.0),
            n_threads if n_units == 1 else 1,
            options.iteration_limit(n_rows),
        )

    @property
    def subproblem_tol(self) -> float:
        """The violation to which subproblems are solved."""
        return self.tolerance / 2

    @property
    def kernel(self) -> Kernel:
        """The kernel function in training."""
        return self.numerics.trained

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of kernel values."""
        return self.numerics.dtype


def _upper_bounds(
    options: KernelOptions, class_weights: Mapping[Label, float], pairs: list[Pair]
) -> NDArray[np.float64]:
    """C times the class weights, (pairs, 2)."""
    bounds, classes = np.full((len(pairs), 2), float(options.C)), tuple(sorted(class_weights))
    if isinstance(options.class_weight, Mapping):
        weights = dict(zip(classes, given_weights(options.class_weight, classes), strict=True))
        bounds *= np.array([[weights[one], weights[other]] for one, other in pairs]).reshape(-1, 2)
    elif options.class_weight is not None:
        for p, (one, other) in enumerate(pairs):
            bounds[p] *= side_weights(options.class_weight, class_weights[other], class_weights[one])[::-1]
    return bounds
