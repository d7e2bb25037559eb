"""The weighted proximal SVM in closed form, for several binary problems."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.equations import CoefficientScaling, Equations
from mergesvm.methods.proximal.factor import factorise
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
    penalize_intercept: bool = True,
    engine: Threads | None = None,
) -> Solution:
    """Solve binary problems; those with the same weights share one factorisation.

    For weights omega and signs y the hyperplane minimises ::

        1/2 (|w|^2 + b^2) + C/2 sum_i omega_i (1 - y_i (w.x_i + b))^2

    About the weighted mean of the rows of the problem the intercept separates from w: with centred sums S and t,
    (I/C + S) w = t. The penalty on b, which is the intercept at the origin, is a rank-one term and enters by
    Sherman-Morrison; without it (``penalize_intercept=False``) that step is left out.

    >>> import mergesvm as ms
    >>> from mergesvm.methods.proximal.closed_form import solve_problems
    >>> from mergesvm.multiclass.decomposition import one_vs_rest
    >>> k = ms.learn([[-1.0], [1.0]], ["a", "b"])
    >>> solve_problems(k, one_vs_rest(k), C=0.5).coefs
    array([[0.5]])
    """
    scaling, guard = CoefficientScaling.of(knowledge, standardize), CancellationGuard.of(knowledge)
    groups = problems.groups()

    def run(group: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        signs = problems.signs[group].astype(np.float64)
        equations = Equations.of(knowledge, problems.weights(group[0]), signs, scaling, guard, penalize_intercept)
        return solve_equations(equations, C)

    coefs, offsets = np.empty((len(problems), knowledge.width)), np.empty(len(problems))
    solvers = [""] * len(problems)
    if engine is None or len(groups) * knowledge.width**3 < MIN_PRODUCTS_FOR_THREADS:
        engine = Threads(1)
    for group, (w, b, solver) in zip(groups, engine.map(run, groups), strict=True):
        coefs[group], offsets[group] = w, b
        for problem in group:
            solvers[problem] = solver
    return Solution(coefs, offsets, tuple(solvers))


def solve_equations(equations: Equations, C: float) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """Coefficients (problems, features) and offsets at the anchor (problems,) for one C, and the name of the solver.

    The matrix of the equations is overwritten: it may be too large to copy.
    """
    system = equations.gram
    system[np.diag_indices_from(system)] += 1 / C
    solve, solver = factorise(system, float((equations.noise / system.diagonal()).max()))
    w, offsets = equations.hyperplanes(C, solve(equations.columns))
    return w.T, offsets, solver
