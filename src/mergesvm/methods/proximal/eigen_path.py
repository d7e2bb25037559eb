"""The path of C: solutions for many values of C from one eigendecomposition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.closed_form import MIN_PRODUCTS_FOR_THREADS, solve_equations
from mergesvm.methods.proximal.equations import CoefficientScaling, Equations
from mergesvm.methods.proximal.factor import cholesky_tolerance
from mergesvm.methods.proximal.rounding import CancellationGuard
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

Numbers = NDArray[np.float64]

MAX_REFINEMENTS = 3
"""Steps of iterative refinement."""

REFINEMENT_TOLERANCE = 1e-11
"""If the last refinement changes a solution by more, it is solved by Cholesky."""

MAX_BATCHED_WIDTH = 128
"""Up to this width systems are solved in one batched call, because calls take longer than solutions."""

BLOCK_VALUES = 1 << 22
"""Values of solutions computed at a time."""


@dataclass(frozen=True)
class _Group:
    """Problems with proportional weights: for each, its (set, problem) index, its signs, and its values of C."""

    weights: Numbers
    places: list[tuple[int, int]]
    signs: list[NDArray[np.int8]]
    Cs: list[Numbers]


def solve_path(
    knowledge: Knowledge,
    sets: Sequence[Problems],
    Cs: Sequence[float] | Numbers,
    *,
    standardize: bool = False,
    penalize_intercept: bool = True,
    engine: Threads | None = None,
) -> list[list[Solution]]:
    """Solve several sets of binary problems over the same knowledge, each at many values of C.

    With S = V L V', the solution of (I/C + S) w = t is V (L + I/C)^-1 V' t. Problems whose weights are proportional
    share one decomposition, since scaling the weights is scaling C. V is exact only relative to the largest eigenvalue,
    so each solution is refined with its residual until it is as exact as that of Cholesky, also for features of very
    different scales. Solutions that do not converge are solved by Cholesky.

    Returns
    -------
    list of lists of Solution
        For each set of problems, one solution per C.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from mergesvm.multiclass.decomposition import one_vs_rest
    >>> k = ms.learn([[-1.0], [1.0]], ["a", "b"])
    >>> [solution.coefs for solution in solve_path(k, [one_vs_rest(k)], [0.5, 1e9])[0]]
    [array([[0.5]]), array([[1.]])]
    """
    Cs = np.asarray(Cs, dtype=np.float64)
    scaling, guard = CoefficientScaling.of(knowledge, standardize), CancellationGuard.of(knowledge)
    groups = _grouped(sets, Cs)
    shapes = [(len(Cs), len(problems)) for problems in sets]
    coefs = [np.empty((*shape, knowledge.width)) for shape in shapes]
    offsets = [np.empty(shape) for shape in shapes]
    solvers = [np.full(shape, "eigh", dtype=object) for shape in shapes]

    def run(group: _Group) -> None:
        signs = np.unique(np.array(group.signs), axis=0)
        rows = [int(np.flatnonzero((signs == sign).all(axis=1))[0]) for sign in group.signs]
        given = np.unique(np.concatenate(group.Cs))
        equations = Equations.of(knowledge, group.weights, signs.astype(np.float64), scaling, guard, penalize_intercept)
        w, b, names = _along(equations, given)
        for (index, problem), row, wanted in zip(group.places, rows, group.Cs, strict=True):
            at = np.searchsorted(given, wanted)
            coefs[index][:, problem] = w[:, row, at].T
            offsets[index][:, problem] = b[row, at]
            solvers[index][:, problem] = names[at]

    if engine is None or len(groups) * (len(Cs) + knowledge.width) * knowledge.width**2 < MIN_PRODUCTS_FOR_THREADS:
        engine = Threads(1)
    engine.map(run, groups)
    return [
        [Solution(w[at], b[at], tuple(names[at])) for at in range(len(Cs))]
        for w, b, names in zip(coefs, offsets, solvers, strict=True)
    ]


def _grouped(sets: Sequence[Problems], Cs: Numbers) -> list[_Group]:
    """Group problems by their weights up to a factor, which is moved to C."""
    groups: dict[bytes, _Group] = {}
    for index, problems in enumerate(sets):
        for problem in range(len(problems)):
            weights = problems.weights(problem)
            largest = float(weights.max())
            unit = weights / largest if largest > 0 else weights
            digits, powers = np.frexp(unit)
            key = np.round(digits, 13).tobytes() + powers.tobytes()
            group = groups.setdefault(key, _Group(unit, [], [], []))
            group.places.append((index, problem))
            group.signs.append(problems.signs[problem])
            group.Cs.append(Cs * (largest if largest > 0 else 1.0))
    return list(groups.values())


def _along(equations: Equations, Cs: Numbers) -> tuple[Numbers, Numbers, NDArray[np.object_]]:
    """Coefficients (features, problems, Cs), offsets (problems, Cs), and the solver at each C."""
    values, vectors = np.linalg.eigh(equations.gram)
    columns = equations.columns
    step = max(1, BLOCK_VALUES // columns.size)
    starts = range(0, len(Cs), step)
    # Solutions that overflow, because an eigenvalue is zero up to rounding, do not converge and are solved below.
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [_solve_block(equations, values, vectors, columns, Cs[start : start + step]) for start in starts]
    w, b, converged = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    names = np.full(len(Cs), "eigh", dtype=object)
    left = np.flatnonzero(~converged)
    if len(columns) <= MAX_BATCHED_WIDTH and len(left):
        solved, trusted = _solve_batched(equations, columns, Cs[left])
        some, left = left[trusted], left[~trusted]
        w[:, :, some], b[:, some] = equations.hyperplanes(Cs[some], solved[:, :, trusted])
        names[some] = "cholesky"
    for at in left:
        exact = replace(equations, gram=equations.gram.copy())
        coefs, offsets, names[at] = solve_equations(exact, float(Cs[at]))
        w[:, :, at], b[:, at] = coefs.T, offsets
    return w, b, names


def _solve_batched(equations: Equations, columns: Numbers, Cs: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Solutions (features, columns, Cs) of a batched call, and which of them can be trusted.

    Systems are scaled to a unit diagonal, so that the scale of features does not matter.
    """
    systems = equations.gram + np.eye(len(columns)) / Cs[:, None, None]
    diagonals = systems.diagonal(axis1=1, axis2=2).copy()
    units = np.sqrt(diagonals)
    systems /= units[:, :, None] * units[:, None, :]
    try:
        # The fraction of a feature that those before it leave unexplained, as for single systems.
        least = (np.linalg.cholesky(systems).diagonal(axis1=1, axis2=2) ** 2).min(axis=1)
        solved = np.linalg.solve(systems, columns / units[:, :, None])
    except np.linalg.LinAlgError:
        return np.empty((*columns.shape, len(Cs))), np.zeros(len(Cs), dtype=bool)
    trusted = least >= cholesky_tolerance(len(columns), (equations.noise / diagonals).max(axis=1))
    return (solved / units[:, :, None]).transpose(1, 2, 0), trusted


def _solve_block(
    equations: Equations, values: Numbers, vectors: Numbers, columns: Numbers, Cs: Numbers
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    penalties = 1 / Cs
    # Rounding can make an eigenvalue of zero slightly negative.
    inverses = 1 / np.maximum(values[:, None] + penalties, 1e-300)
    width, count = columns.shape

    def divided(right: Numbers) -> Numbers:
        """Solve the system at each C, (features, columns, Cs)."""
        turned = (vectors.T @ right.reshape(width, -1)).reshape(width, count, -1)
        result: Numbers = (vectors @ (turned * inverses[:, None]).reshape(width, -1)).reshape(width, count, len(Cs))
        return result

    solved = divided(columns[:, :, None])
    unit = np.sqrt(equations.gram.diagonal()[:, None] + penalties)[:, None]
    moved = np.full(len(Cs), np.inf)
    for _ in range(MAX_REFINEMENTS):
        product = (equations.gram @ solved.reshape(width, -1)).reshape(solved.shape)
        step = divided(columns[:, :, None] - product - penalties * solved)
        solved += step
        size = (np.abs(unit * solved)).max(axis=(0, 1))
        moved = (np.abs(unit * step)).max(axis=(0, 1)) / np.where(size > 0, size, 1.0)
        if (moved <= REFINEMENT_TOLERANCE).all():
            break
    w, b = equations.hyperplanes(Cs, solved)
    return w, b, moved <= REFINEMENT_TOLERANCE
