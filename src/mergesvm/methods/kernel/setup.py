"""TrainingSetup: the binary problems of a training, and how units work on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.methods.kernel.numerics import KernelNumerics
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.models.kernel_function import Kernel
from mergesvm.multiclass.class_weights import given_weights, side_weights

MAX_ROWS_FOR_TIGHT_TOLERANCE, TIGHT_TOLERANCE = 200, 1e-6
"""Up to this number of rows in all, ``tol`` is multiplied by this factor: the extra iterations take no time."""

SMALL_PROBLEM_FACTOR = 3
"""A problem is small, and solved at once, if its rows are at most this many times the working set."""

MIN_PROPOSED_ROWS = 8
"""Each unit may propose at least this number of rows per problem and direction."""

SELECTION_NOISE = 0.5
"""The fraction of a violation that is random when units select the rows that they propose."""

Pair = tuple[Label, Label]
"""The classes of a binary problem: the negative, then the positive one."""


@dataclass(frozen=True)
class TrainingSetup:
    """The binary problems of a training, and how units work on them.

    Attributes
    ----------
    pairs : list of pairs of classes
    bounds : array of shape (pairs, 2)
        Upper bound of alpha for a row of weight 1, per side.
    numerics : KernelNumerics
    max_proposed : array of int, shape (pairs,)
        Number of rows that a unit proposes per iteration, for each direction of each problem.
    small : array of bool, shape (pairs,)
        The problems that are solved at once; a unit begins by solving those of its own rows.
    selection_noise : float
        The fraction of a violation that is random when rows are selected.
    prefilters : bool
        Whether a unit first solves the problem of the selected rows, and proposes only its support vectors.
    cache_bytes : int
        Memory for columns of the kernel matrix, per unit.
    penalty : float
        On (y'alpha)^2 / 2; negative for the constraint y'alpha = 0.
    subproblem_tol : float
        The violation to which subproblems are solved.
    n_threads : int
        Threads that a unit may use.
    """

    pairs: list[Pair]
    bounds: NDArray[np.float64]
    numerics: KernelNumerics
    max_proposed: NDArray[np.int64]
    small: NDArray[np.bool_]
    selection_noise: float
    prefilters: bool
    cache_bytes: int
    penalty: float
    subproblem_tol: float
    n_threads: int

    @classmethod
    def of(
        cls,
        options: KernelOptions,
        numerics: KernelNumerics,
        class_counts: Mapping[Label, int],
        n_units: int,
        *,
        in_process: bool,
        n_threads: int,
    ) -> TrainingSetup:
        """The setup for rows of these classes at this number of units."""
        pairs = list(combinations(sorted(class_counts), 2))
        one_by_one = options.method == "active-set"
        sizes = np.array([class_counts[one] + class_counts[other] for one, other in pairs], dtype=np.int64)
        small = (sizes <= SMALL_PROBLEM_FACTOR * options.working_set) & (options.method == "working-set")
        # A single unit proposes all rows of a small problem. Several units in one process propose more rows each, for
        # fewer iterations; elsewhere all proposed rows have to be sent.
        fraction = n_units if in_process and n_units > 1 else 4 * n_units
        proposed = 1 if one_by_one else max(MIN_PROPOSED_ROWS, options.working_set // fraction)
        return cls(
            pairs,
            _upper_bounds(options, class_counts, pairs),
            numerics,
            np.where(small & (n_units == 1), sizes, proposed),
            small,
            0.0 if one_by_one else SELECTION_NOISE,
            n_units > 1 and not one_by_one,
            max(1, options.cache_bytes // n_units),
            penalty(options, n_units),
            tolerance(options, class_counts) / 2,
            n_threads if n_units == 1 else 1,
        )

    @property
    def kernel(self) -> Kernel:
        """The kernel function."""
        return self.numerics.kernel

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of kernel values."""
        return self.numerics.dtype


def penalty(options: KernelOptions, n_units: int) -> float:
    """The penalty on (y'alpha)^2 / 2, M beta for M units; negative for the constraint y'alpha = 0."""
    return -1.0 if options.beta is None else options.beta * n_units


def tolerance(options: KernelOptions, class_counts: Mapping[Label, int]) -> float:
    """The tolerance at which a problem has converged."""
    few = sum(class_counts.values()) <= MAX_ROWS_FOR_TIGHT_TOLERANCE
    tighten = few and not options.stops_on_gap and options.method != "gradient"
    return options.tol * (TIGHT_TOLERANCE if tighten else 1.0)


def _upper_bounds(options: KernelOptions, class_counts: Mapping[Label, int], pairs: list[Pair]) -> NDArray[np.float64]:
    """C times the class weights, (pairs, 2)."""
    bounds, classes = np.full((len(pairs), 2), float(options.C)), tuple(sorted(class_counts))
    if isinstance(options.class_weight, Mapping):
        weights = dict(zip(classes, given_weights(options.class_weight, classes), strict=True))
        bounds *= np.array([[weights[one], weights[other]] for one, other in pairs]).reshape(-1, 2)
    elif options.class_weight is not None:
        for p, (one, other) in enumerate(pairs):
            bounds[p] *= side_weights(options.class_weight, class_counts[other], class_counts[one])[::-1]
    return bounds
