"""The path of C: one eigendecomposition gives the planes for any number of values of C."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.closed_form import SMALL, solve_equations
from mergesvm.methods.proximal.equations import CoefficientScaling, Equations
from mergesvm.methods.proximal.factor import cholesky_tolerance
from mergesvm.methods.proximal.rounding import CancellationGuard
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

Numbers = NDArray[np.float64]

STEPS = 3
"""Solutions are refined at most so often."""

SETTLED = 1e-11
"""The last step of a refinement changes a solution by no more than this, or Cholesky has to help."""

NARROW = 128
"""Up to this width a solution takes less time than the call for it, so that many are found in one."""

BLOCK_VALUES = 1 << 22
"""So many numbers of solutions are found at a time."""


@dataclass(frozen=True)
class _Wanted:
    """Problems with proportional weights: for each, where it belongs, its signs, and its values of C."""

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
    """The planes of several sets of binary problems over the same knowledge, each at many values of C.

    With S = V L V', the solution of (I/C + S) w = t is V (L + I/C)^-1 V' t. Problems whose weights are proportional
    share one decomposition, since weights times a factor are C times that factor. V is exact only to the size of the
    largest eigenvalue, so that each solution is refined by its residual, by which it becomes as exact as Cholesky's,
    also for features of very different scales; where that does not settle, Cholesky is asked.

    Returns
    -------
    list of lists of Solution
        For each set of problems one at each C.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from mergesvm.multiclass.decomposition import one_vs_rest
    >>> k = ms.learn([[-1.0], [1.0]], ["a", "b"])
    >>> [solution.coefs for solution in solve_path(k, [one_vs_rest(k)], [0.5, 1e9])[0]]
    [array([[0.5]]), array([[1.]])]
    """
    Cs = np.asarray(Cs, dtype=np.float64)
    frame, lost = CoefficientScaling.of(knowledge, standardize), CancellationGuard.of(knowledge)
    groups = _grouped(sets, Cs)
    shapes = [(len(Cs), len(problems)) for problems in sets]
    coefs = [np.empty((*shape, knowledge.width)) for shape in shapes]
    offsets = [np.empty(shape) for shape in shapes]
    solvers = [np.full(shape, "eigh", dtype=object) for shape in shapes]

    def run(group: _Wanted) -> None:
        signs = np.unique(np.array(group.signs), axis=0)
        rows = [int(np.flatnonzero((signs == sign).all(axis=1))[0]) for sign in group.signs]
        given = np.unique(np.concatenate(group.Cs))
        equations = Equations.of(knowledge, group.weights, signs.astype(np.float64), frame, lost, penalize_intercept)
        w, b, names = _along(equations, given)
        for (index, problem), row, wanted in zip(group.places, rows, group.Cs, strict=True):
            at = np.searchsorted(given, wanted)
            coefs[index][:, problem] = w[:, row, at].T
            offsets[index][:, problem] = b[row, at]
            solvers[index][:, problem] = names[at]

    if engine is None or len(groups) * (len(Cs) + knowledge.width) * knowledge.width**2 < SMALL:
        engine = Threads(1)
    engine.map(run, groups)
    return [
        [Solution(w[at], b[at], tuple(names[at])) for at in range(len(Cs))]
        for w, b, names in zip(coefs, offsets, solvers, strict=True)
    ]


def _grouped(sets: Sequence[Problems], Cs: Numbers) -> list[_Wanted]:
    """All problems by their weights up to a factor, which goes to C."""
    groups: dict[bytes, _Wanted] = {}
    for index, problems in enumerate(sets):
        for problem in range(len(problems)):
            weights = problems.weights(problem)
            largest = float(weights.max())
            unit = weights / largest if largest > 0 else weights
            digits, powers = np.frexp(unit)
            key = np.round(digits, 13).tobytes() + powers.tobytes()
            group = groups.setdefault(key, _Wanted(unit, [], [], []))
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
    # What overflows, where an eigenvalue is zero but for rounding, does not settle, and is solved directly below.
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [_some(equations, values, vectors, columns, Cs[start : start + step]) for start in starts]
    w, b, settled = (np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))
    names = np.full(len(Cs), "eigh", dtype=object)
    left = np.flatnonzero(~settled)
    if len(columns) <= NARROW and len(left):
        solved, trusted = _together(equations, columns, Cs[left])
        some, left = left[trusted], left[~trusted]
        w[:, :, some], b[:, some] = equations.planes(Cs[some], solved[:, :, trusted])
        names[some] = "cholesky"
    for at in left:
        exact = replace(equations, gram=equations.gram.copy())
        coefs, offsets, names[at] = solve_equations(exact, float(Cs[at]))
        w[:, :, at], b[:, at] = coefs.T, offsets
    return w, b, names


def _together(equations: Equations, columns: Numbers, Cs: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Solutions (features, columns, Cs), each found directly, all in one call; and which of them can be trusted.

    In units of the diagonal, where features of all scales are alike.
    """
    systems = equations.gram + np.eye(len(columns)) / Cs[:, None, None]
    diagonals = systems.diagonal(axis1=1, axis2=2).copy()
    units = np.sqrt(diagonals)
    systems /= units[:, :, None] * units[:, None, :]
    try:
        # The share of a feature that those before it leave unexplained, as in the factorisation of a single system.
        least = (np.linalg.cholesky(systems).diagonal(axis1=1, axis2=2) ** 2).min(axis=1)
    except np.linalg.LinAlgError:
        return np.empty((*columns.shape, len(Cs))), np.zeros(len(Cs), dtype=bool)
    trusted = least >= cholesky_tolerance(len(columns), (equations.noise / diagonals).max(axis=1))
    solved = np.linalg.solve(systems, columns / units[:, :, None])
    return (solved / units[:, :, None]).transpose(1, 2, 0), trusted


def _some(
    equations: Equations, values: Numbers, vectors: Numbers, columns: Numbers, Cs: Numbers
) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    penalties = 1 / Cs
    # Rounding can leave an eigenvalue of zero a little below it.
    inverses = 1 / np.maximum(values[:, None] + penalties, 1e-300)
    width, count = columns.shape

    def divided(right: Numbers) -> Numbers:
        """(features, columns, Cs) of right sides over the system at each C."""
        turned = (vectors.T @ right.reshape(width, -1)).reshape(width, count, -1)
        result: Numbers = (vectors @ (turned * inverses[:, None]).reshape(width, -1)).reshape(width, count, len(Cs))
        return result

    solved = divided(columns[:, :, None])
    unit = np.sqrt(equations.gram.diagonal()[:, None] + penalties)[:, None]
    moved = np.full(len(Cs), np.inf)
    for _ in range(STEPS):
        product = (equations.gram @ solved.reshape(width, -1)).reshape(solved.shape)
        step = divided(columns[:, :, None] - product - penalties * solved)
        solved += step
        size = (np.abs(unit * solved)).max(axis=(0, 1))
        moved = (np.abs(unit * step)).max(axis=(0, 1)) / np.where(size > 0, size, 1.0)
        if (moved <= SETTLED).all():
            break
    w, b = equations.planes(Cs, solved)
    return w, b, moved <= SETTLED
