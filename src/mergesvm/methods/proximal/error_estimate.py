"""Estimates of the error that the rounding of sums leaves in scores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import warn_solver
from mergesvm.methods.proximal.equations import Equations
from mergesvm.methods.proximal.factor import EPSILON
from mergesvm.models.solution import Solution

Numbers = NDArray[np.float64]

N_PROBES, MAX_WIDTH_FOR_ALL = 8, 32
"""Random perturbations whose effect is computed; up to this width those of all features."""

MIN_LEFT = 0.1
"""With fewer degrees of freedom left, as a fraction of the rows, new rows need not be like those learned."""

MAX_ERROR = {"float64": 1e-8, "float32": 1e-2}
"""Estimated errors of scores above this are worth a warning, by the precision of the products."""

SMALLEST = 1e-300

SIGNIFICANT = 16.0
"""A number that is this many times its typical rounding error is not rounding error."""


@lru_cache(maxsize=8)
def probes(width: int) -> Numbers:
    """Vectors whose entries have mean 0 and variance 1, (width, probes); if there are few features, one for each.

    >>> probes(2)
    array([[1.41421356, 0.        ],
           [0.        , 1.41421356]])
    """
    vectors: Numbers
    if width <= MAX_WIDTH_FOR_ALL:
        vectors = np.sqrt(width) * np.eye(width)
    else:
        vectors = np.random.default_rng(0).choice([-1.0, 1.0], (width, N_PROBES))
    vectors.flags.writeable = False
    return vectors


def perturbations(equations: Equations) -> Numbers:
    """Right-hand sides whose solutions :func:`estimated_errors` needs, (features, columns)."""
    random = probes(len(equations.squares))
    sides = np.sqrt(equations.squares)[:, None] * random
    # With many rows they decide about all features, whatever the penalty.
    return sides if equations.rows > 2 * len(random) else np.hstack([sides, random])


def estimated_errors(equations: Equations, C: float, moved: Numbers, w: Numbers, ridge: float = 0.0) -> Numbers:
    """Estimated error of the scores of rows like those learned, for coefficients w (features, problems), (problems,).

    The sums are rounded: with squares m of the features and a relative error e, S is wrong by about e sqrt(m_i m_j) and
    t by e sqrt(n m_i), independently. To first order the coefficients are then wrong by A^-1 r, where ::

        r_i = e sqrt(m_i) (|sqrt(m) w| + sqrt(n)) z_i       with z of mean 0 and variance 1

    and the scores of the rows by the root of r' A^-1 S A^-1 r / n. Its expectation is taken over a few random z:
    ``moved`` are the solutions for :func:`perturbations`. Coefficients are those of scaled features.
    """
    random, sizes = probes(len(w)), np.sqrt(equations.squares)[:, None]
    moved, more = moved[:, : random.shape[1]], moved[:, random.shape[1] :]
    lengths = (moved**2 / C).sum(axis=0)
    energy = float(((moved * sizes * random).sum(axis=0) - lengths).mean()) + EPSILON * float(lengths.mean())
    anywhere = float(((sizes * moved) ** 2).sum(axis=0).mean())
    left = float(equations.rows - 1 - len(w))
    if more.size:
        left += _decided_by_penalty((random * more).sum(axis=0) / C, len(w))
    few = left <= MIN_LEFT * equations.rows
    spread = anywhere if few else min(anywhere, max(energy, 1.0) * (equations.rows / left) ** 2)
    errors: Numbers = (equations.rounding + ridge) * size_of_terms(equations, w) * np.sqrt(spread)
    return errors


def _decided_by_penalty(traces: Numbers, width: int) -> float:
    """tr(A^-1) / C, the number of coefficients that the penalty decides rather than the rows, cautiously estimated.

    With ``left`` rows more than the others, the scores of new rows are wrong by rows / left times as much as those of
    the rows learned (generalised cross-validation). With none, new rows need not be like those learned.
    """
    deviation = float(traces.std()) / np.sqrt(len(traces)) if width > MAX_WIDTH_FOR_ALL else 0.0
    return max(float(traces.mean()) - 2 * deviation, 0.0)


def estimated_errors_on_path(
    equations: Equations, values: Numbers, vectors: Numbers, Cs: Numbers, w: Numbers
) -> Numbers:
    """The same at many C, for coefficients w (features, problems, Cs), (problems, Cs): the exact expectation.

    S has these eigenvalues and eigenvectors; any others are empty.
    """
    values = values[:, None]
    inverses = 1 / np.maximum(values + 1 / Cs, SMALLEST)
    sizes = (vectors**2).T @ equations.squares
    energy = np.maximum(sizes @ (np.maximum(values, 0.0) * inverses**2), 1.0)
    left = equations.rows - 1 - len(values) + (inverses / Cs).sum(axis=0)
    anywhere = sizes @ (sizes[:, None] * inverses**2)
    few = left <= MIN_LEFT * equations.rows
    spread = np.where(few, anywhere, energy * (equations.rows / np.where(few, 1.0, left)) ** 2)
    return equations.rounding * size_of_terms(equations, w) * np.sqrt(spread)


def size_of_terms(equations: Equations, w: Numbers) -> Numbers:
    """1 + |sqrt(m) w| / sqrt(n): the size of labels and of scores whose terms do not cancel, (problems, ...)."""
    terms = (equations.squares @ (w**2).reshape(len(w), -1)).reshape(w.shape[1:])
    norms: Numbers = 1 + np.sqrt(terms / equations.count)
    return norms


def lost_scores(equations: Equations, empty: Numbers, variances: Numbers | float = 0.0) -> Numbers:
    """Scores lost by taking directions (features, directions) as empty where right-hand sides are not, (problems,)."""
    along, sizes = equations.rights @ empty, equations.squares @ empty**2
    told = np.abs(along) > SIGNIFICANT * equations.rounding * np.sqrt(equations.count * sizes)
    least = equations.count * np.maximum(variances, equations.rounding * sizes)
    lost: Numbers = np.sqrt((np.where(told, along, 0.0) ** 2 / np.where(least > 0, least, 1.0)).sum(axis=1))
    return lost


def warn_if_rounded(solutions: Sequence[Solution], precision: str) -> None:
    """Warn if the largest estimated error of solutions is above the limit; the solver "ridge" has its own warning."""
    errors = [each.errors[np.array(each.solvers) != "ridge"] for each in solutions if each.errors is not None]
    largest = max((float(each.max(initial=0.0)) for each in errors), default=0.0)
    if not largest <= MAX_ERROR[precision]:
        warn_solver(
            f"Rounding of the sums changes scores by about {largest:.0e} (rounding_ of the model), more than "
            f"{MAX_ERROR[precision]:.0e}, because features almost determine each other. A smaller C, standardize=True "
            f"or fewer features make it smaller."
        )
