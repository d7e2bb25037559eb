"""Factorisation of symmetric positive definite matrices, with fallbacks for singular ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular

from mergesvm.engines.threads import Threads
from mergesvm.errors import warn_solver

Solve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

MIN_WIDTH_FOR_BLAS_THREADS = 2048
"""From this width on, BLAS uses several threads for a single factorisation."""

MAX_FLOAT64_NOISE = 2.0**-30
"""More relative rounding than this comes from float32 sums."""

Noise = TypeVar("Noise", float, NDArray[np.float64])

EPSILON = float(np.finfo(np.float64).eps)


def factorise(matrix: NDArray[np.float64], noise: float = 0.0) -> tuple[Solve, str]:
    """A function that solves systems with this matrix, and the name of the solver.

    Cholesky, unless the matrix is singular up to rounding: then its eigenvectors, without the directions that are only
    rounding. ``noise`` is the relative rounding error of the matrix; if it is that of float32, a ridge of the size of
    the rounding is added instead, which costs no more than Cholesky. numpy's Cholesky releases the GIL, scipy's does
    not.

    >>> import numpy as np
    >>> solve, name = factorise(np.diag([2.0, 4.0]))
    >>> name, solve(np.array([1.0, 1.0]))
    ('cholesky', array([0.5 , 0.25]))
    """
    tolerance = cholesky_tolerance(len(matrix), noise)
    lower = trusted_cholesky(matrix, tolerance)
    if lower is not None:
        return by_triangles(lower), "cholesky"
    if noise > MAX_FLOAT64_NOISE:
        return _with_ridge(matrix, tolerance), "ridge"
    return _by_eigenvectors(matrix, tolerance), "eigh"


def cholesky_tolerance(width: int, noise: Noise) -> Noise:
    """The smallest fraction of a feature left unexplained by others at which Cholesky is trusted."""
    return 8 * max(width, 16) * EPSILON + noise


def trusted_cholesky(matrix: NDArray[np.float64], tolerance: float) -> NDArray[np.float64] | None:
    """The lower Cholesky factor; None if rounding dominates it."""
    try:
        lower = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    # The fraction of a feature that those before it leave unexplained: independent of scale, and at rounding level
    # exactly where the factor has lost its digits.
    unexplained = lower.diagonal() ** 2 / matrix.diagonal()
    return None if unexplained.min() < tolerance else lower


def _with_ridge(matrix: NDArray[np.float64], tolerance: float) -> Solve:
    """Add a ridge of the size of the rounding, increased until Cholesky succeeds."""
    ridge = tolerance
    for _ in range(12):
        system = matrix.copy()
        system[np.diag_indices_from(system)] *= 1 + ridge
        lower = trusted_cholesky(system, tolerance / 2)
        if lower is not None:
            warn_solver(
                f"Sums in float32 are not precise enough at this C: a ridge of {ridge:.0e} of the diagonal was added "
                f"(solver 'ridge'), which acts like a smaller C. Learn in float64, or solve with a smaller C."
            )
            return by_triangles(lower)
        ridge *= 4
    return _by_eigenvectors(matrix, tolerance)


def by_triangles(lower: NDArray[np.float64]) -> Solve:
    """A function that solves systems with a Cholesky factor."""

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        half = solve_triangular(lower, right, lower=True, check_finite=False)
        solution: NDArray[np.float64] = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
        return solution

    return solve


def _by_eigenvectors(matrix: NDArray[np.float64], tolerance: float) -> Solve:
    # Scale to a unit diagonal, so that a feature of small scale does not look singular.
    diagonal = matrix.diagonal()
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = eigh(matrix / scale / scale[:, None])
    kept = values > tolerance * max(values[-1], 1.0)
    warn_solver(
        f"The system is singular up to rounding ({len(values) - int(kept.sum())} of {len(values)} directions are "
        f"empty), so it was solved by 'eigh' without those directions. "
        f"Causes are duplicate or constant features and a very large C; a smaller C avoids it."
    )
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    # The data do not determine the solution in the empty directions; the penalty prefers the shortest.
    empty, _ = np.linalg.qr(vectors[:, ~kept] / scale[:, None])

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        column = right if right.ndim == 2 else right[:, None]
        turned = vectors.T @ (column / scale[:, None])
        solution: NDArray[np.float64] = (vectors @ (inverse[:, None] * turned)) / scale[:, None]
        solution -= empty @ (empty.T @ solution)
        return solution.reshape(right.shape)

    return solve


def small_blas(width: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small matrices.

    Extra threads gain little, and keep busy-waiting while later work runs.
    """
    return Threads.single_threaded_blas() if width < MIN_WIDTH_FOR_BLAS_THREADS else nullcontext()
