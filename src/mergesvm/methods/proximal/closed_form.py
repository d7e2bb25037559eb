"""The weighted proximal SVM in closed form, for several binary problems."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.equations import CoefficientScaling, Equations
from mergesvm.methods.proximal.error_estimate import MAX_ERROR, estimated_errors, lost_scores, perturbations
from mergesvm.methods.proximal.factor import (
    MAX_FLOAT64_NOISE,
    Factor,
    by_eigenvectors,
    cholesky_tolerance,
    factorise,
)
from mergesvm.methods.proximal.rounding import CancellationGuard
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

MIN_PRODUCTS_FOR_THREADS = 1e7
"""With fewer products, starting threads takes longer than it saves."""


def solve_problems(
    knowledge: Knowledge,
    problems: Problems,
    C: float,
    *,
    standardize: bool = False,
    intercept_penalty: float = 1.0,
    engine: Threads | None = None,
) -> Solution:
    """Solve binary problems; those with the same weights share one factorisation.

    For weights omega and signs y the hyperplane minimises ::

        1/2 (|w|^2 + b^2) + C/2 sum_i omega_i (1 - y_i (w.x_i + b))^2

    About the weighted mean of the rows of the problem the intercept separates from w: with centred sums S and t,
    (I/C + S) w = t. The penalty on b, which is the intercept at the origin, is a rank-one term and enters by
    Sherman-Morrison. ``intercept_penalty`` is its factor: 0 leaves that step out, and an infinite one gives b = 0.

    >>> import mergesvm as ms
    >>> from mergesvm.methods.proximal.closed_form import solve_problems
    >>> from mergesvm.multiclass.decomposition import one_vs_rest
    >>> k = ms.learn([[-1.0], [1.0]], ["a", "b"])
    >>> solve_problems(k, one_vs_rest(k), C=0.5).coefs
    array([[0.5]])
    """
    scaling = CoefficientScaling.of(knowledge, standardize, np.isfinite(intercept_penalty))
    guard, groups = CancellationGuard.of(knowledge), problems.groups()

    def run(group: list[int]) -> SolvedGroup:
        signs = problems.signs[group].astype(np.float64)
        equations = Equations.of(knowledge, problems.weights(group[0]), signs, scaling, guard, intercept_penalty)
        return solve_equations(equations, C)

    coefs, offsets = np.empty((len(problems), knowledge.width)), np.empty(len(problems))
    errors = np.empty(len(problems))
    solvers = [""] * len(problems)
    if engine is None or len(groups) * knowledge.width**3 < MIN_PRODUCTS_FOR_THREADS:
        engine = Threads(1)
    for group, solved in zip(groups, engine.map(run, groups), strict=True):
        coefs[group], offsets[group], errors[group] = solved.coefs, solved.offsets, solved.errors
        for problem in group:
            solvers[problem] = solved.solver
    return Solution(coefs, offsets, tuple(solvers), errors)


class SolvedGroup(NamedTuple):
    """Solution of problems with the same weights."""

    coefs: NDArray[np.float64]  # (problems, features)
    offsets: NDArray[np.float64]  # (problems,), at the anchor
    errors: NDArray[np.float64]  # (problems,), estimated errors of scores
    solver: str


def solve_equations(equations: Equations, C: float) -> SolvedGroup:
    """Solve equations for one C. Their matrix is overwritten: it may be too large to copy."""
    system = equations.gram
    system[np.diag_indices_from(system)] += 1 / C
    noise = float((equations.noise / system.diagonal()).max())
    factor = factorise(system, noise, 1 / C)
    found = _solve_with(factor, equations, C)
    # With fewer rows than features there are empty directions, in which rounding hides the penalty of a large C.
    empty = equations.rows <= len(system) and factor.solver == "cholesky"
    if empty and equations.rounding <= MAX_FLOAT64_NOISE and found.errors.max() > MAX_ERROR["float64"]:
        other = _solve_with(by_eigenvectors(system, cholesky_tolerance(len(system), noise), 1 / C), equations, C)
        return other if other.errors.max() < found.errors.max() else found
    return found


def _solve_with(factor: Factor, equations: Equations, C: float) -> SolvedGroup:
    """Solutions by a factor of the system, with their estimated errors."""
    columns = equations.columns
    both = factor.solve(np.hstack([columns, perturbations(equations)]))
    solved, moved = both[:, : columns.shape[1]], both[:, columns.shape[1] :]
    w, offsets = equations.hyperplanes(C, equations.divided(solved, C, factor.empty))
    errors = estimated_errors(equations, C, moved, w * equations.scale[:, None], factor.ridge)
    if factor.empty.size:
        variances = np.einsum("de,de->e", factor.empty, equations.gram @ factor.empty) - 1 / C
        errors += lost_scores(equations, factor.empty, variances)
    return SolvedGroup(w.T, offsets, errors, factor.solver)
