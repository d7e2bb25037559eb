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
from mergesvm.methods.proximal.error_estimate import (
    estimated_errors,
    estimated_errors_on_path,
    lost_scores,
    perturbations,
)
from mergesvm.methods.proximal.factor import cholesky_tolerance
from mergesvm.methods.proximal.rounding import CancellationGuard
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

Numbers = NDArray[np.float64]
Places = NDArray[np.intp]

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
    intercept_penalty: float = 1.0,
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
    scaling = CoefficientScaling.of(knowledge, standardize, np.isfinite(intercept_penalty))
    guard = CancellationGuard.of(knowledge)
    groups = _grouped(sets, Cs)
    shapes = [(len(Cs), len(problems)) for problems in sets]
    coefs = [np.empty((*shape, knowledge.width)) for shape in shapes]
    offsets, errors = [np.empty(shape) for shape in shapes], [np.empty(shape) for shape in shapes]
    solvers = [np.full(shape, "eigh", dtype=object) for shape in shapes]

    def run(group: _Group) -> None:
        signs = np.unique(np.array(group.signs), axis=0)
        rows = [int(np.flatnonzero((signs == sign).all(axis=1))[0]) for sign in group.signs]
        given = np.unique(np.concatenate(group.Cs))
        equations = Equations.of(knowledge, group.weights, signs.astype(np.float64), scaling, guard, intercept_penalty)
        w, b, error, names = _along(equations, given)
        for (index, problem), row, wanted in zip(group.places, rows, group.Cs, strict=True):
            at = np.searchsorted(given, wanted)
            coefs[index][:, problem] = w[:, row, at].T
            offsets[index][:, problem] = b[row, at]
            errors[index][:, problem] = error[row, at]
            solvers[index][:, problem] = names[at]

    if engine is None or len(groups) * (len(Cs) + knowledge.width) * knowledge.width**2 < MIN_PRODUCTS_FOR_THREADS:
        engine = Threads(1)
    engine.map(run, groups)
    return [
        [Solution(w[at], b[at], tuple(names[at]), error[at]) for at in range(len(Cs))]
        for w, b, names, error in zip(coefs, offsets, solvers, errors, strict=True)
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


def _along(equations: Equations, Cs: Numbers) -> tuple[Numbers, Numbers, Numbers, NDArray[np.object_]]:
    """Coefficients (features, problems, Cs), offsets and estimated errors (problems, Cs), and the solver at each C."""
    spectrum = _Spectrum.of(equations)
    columns = equations.columns
    step = max(1, BLOCK_VALUES // columns.size)
    starts = range(0, len(Cs), step)
    # Solutions that overflow, because an eigenvalue is zero up to rounding, do not converge and are solved below.
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [_solve_block(equations, spectrum, columns, Cs[start : start + step]) for start in starts]
        w, b, converged = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
        scaled = w * equations.scale[:, None, None]
        errors = estimated_errors_on_path(equations, spectrum.values, spectrum.vectors, Cs, scaled)
    names = np.full(len(Cs), "eigh", dtype=object)
    left = np.flatnonzero(~(converged & spectrum.trusted(equations, Cs)))
    if len(columns) <= MAX_BATCHED_WIDTH and len(left):
        some, left = _solve_batched(equations, columns, Cs, left, w, b, errors)
        names[some] = "cholesky"
    for at in left:
        solved = solve_equations(replace(equations, gram=equations.gram.copy()), float(Cs[at]))
        w[:, :, at], b[:, at], errors[:, at], names[at] = solved.coefs.T, solved.offsets, solved.errors, solved.solver
    return w, b, errors, names


@dataclass(frozen=True)
class _Spectrum:
    """Eigenvalues (k,) and eigenvectors (features, k) of S, and directions along which S is empty up to rounding."""

    values: Numbers
    vectors: Numbers
    empty: Numbers

    @classmethod
    def of(cls, equations: Equations) -> _Spectrum:
        values, vectors = np.linalg.eigh(equations.gram)
        # The variance of features along each eigenvector, if they were not correlated.
        explained = (vectors**2).T @ equations.gram.diagonal()
        empty = np.abs(values) <= cholesky_tolerance(len(values), 0.0) * explained
        if lost_scores(equations, vectors[:, empty]).any():
            empty[:] = False
        return cls(values[~empty], vectors[:, ~empty], vectors[:, empty])

    def trusted(self, equations: Equations, Cs: Numbers) -> NDArray[np.bool_]:
        """Whether no eigenvalue is lost to rounding at each C."""
        diagonal = equations.gram.diagonal()[:, None] + 1 / Cs
        tolerance = cholesky_tolerance(len(diagonal), (equations.noise[:, None] / diagonal).max(axis=0))
        lost = self.values[:, None] + 1 / Cs < tolerance * ((self.vectors**2).T @ diagonal)
        trusted: NDArray[np.bool_] = ~lost.any(axis=0)
        return trusted


def _solve_batched(
    equations: Equations, columns: Numbers, Cs: Numbers, left: Places, w: Numbers, b: Numbers, errors: Numbers
) -> tuple[Places, Places]:
    """Solve at ``Cs[left]`` in one batched call, and write the solutions that can be trusted.

    Systems are scaled to a unit diagonal, so that the scale of features does not matter. Returns the indices of
    the solutions that were written, and of the others.
    """
    systems = equations.gram + np.eye(len(columns)) / Cs[left, None, None]
    diagonals = systems.diagonal(axis1=1, axis2=2).copy()
    units = np.sqrt(diagonals)
    systems /= units[:, :, None] * units[:, None, :]
    sides = np.hstack([columns, perturbations(equations)])
    try:
        # The fraction of a feature that those before it leave unexplained, as for single systems.
        least = (np.linalg.cholesky(systems).diagonal(axis1=1, axis2=2) ** 2).min(axis=1)
        solved = np.linalg.solve(systems, sides / units[:, :, None]) / units[:, :, None]
    except np.linalg.LinAlgError:
        return left[:0], left
    trusted = least >= cholesky_tolerance(len(columns), (equations.noise / diagonals).max(axis=1))
    for at, found in zip(left[trusted], solved[trusted], strict=True):
        hyperplanes, moved = found[:, : columns.shape[1]], found[:, columns.shape[1] :]
        w[:, :, at], b[:, at] = equations.hyperplanes(float(Cs[at]), equations.divided(hyperplanes, float(Cs[at])))
        errors[:, at] = estimated_errors(equations, Cs[at], moved, w[:, :, at] * equations.scale[:, None])
    return left[trusted], left[~trusted]


def _solve_block(
    equations: Equations, spectrum: _Spectrum, columns: Numbers, Cs: Numbers
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Coefficients (features, problems, Cs), offsets (problems, Cs), and whether they have converged, (Cs,)."""
    penalties = 1 / Cs
    vectors = spectrum.vectors
    # Rounding can make an eigenvalue of zero slightly negative.
    inverses = 1 / np.maximum(spectrum.values[:, None] + penalties, 1e-300)
    width, count = columns.shape

    def divided(right: Numbers) -> Numbers:
        """Solve the system at each C, (features, columns, Cs)."""
        rank = vectors.shape[1]  # zero if no feature varies
        turned = (vectors.T @ right.reshape(width, -1)).reshape(rank, count, right.shape[2])
        result: Numbers = vectors @ (turned * inverses[:, None]).reshape(rank, count * len(Cs))
        return result.reshape(width, count, len(Cs))

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
    w, b = equations.hyperplanes(Cs, equations.divided(solved, Cs, spectrum.empty))
    return w, b, moved <= REFINEMENT_TOLERANCE
