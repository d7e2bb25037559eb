"""Factors of a symmetric positive definite matrix, with a fallback that names itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular

from mergesvm.engines.threads import Threads
from mergesvm.errors import SolverWarning

Solve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

WIDE = 2048
"""From this width on a single factorisation is worth more than one thread."""

COARSE = 2.0**-30
"""More rounding than this is that of float32."""

Noise = TypeVar("Noise", float, NDArray[np.float64])

EPSILON = float(np.finfo(np.float64).eps)


def factorise(matrix: NDArray[np.float64], noise: float = 0.0) -> tuple[Solve, str]:
    """A function that solves systems with this matrix, and the name of the solver.

    Cholesky, unless the matrix is singular to rounding: then by its eigenvectors, leaving out the directions that
    rounding alone fills. ``noise`` is the relative rounding that the matrix brings along; where it is that of float32,
    a ridge as large as the rounding is added instead, which costs no more than Cholesky does. numpy's Cholesky is used
    because it releases the GIL, scipy's does not.

    >>> import numpy as np
    >>> solve, name = factorise(np.diag([2.0, 4.0]))
    >>> name, solve(np.array([1.0, 1.0]))
    ('cholesky', array([0.5 , 0.25]))
    """
    tolerance = cholesky_tolerance(len(matrix), noise)
    lower = trusted_cholesky(matrix, tolerance)
    if lower is not None:
        return by_triangles(lower), "cholesky"
    if noise > COARSE:
        return _with_ridge(matrix, tolerance), "ridge"
    return _by_eigenvectors(matrix, tolerance), "eigh"


def cholesky_tolerance(width: int, noise: Noise) -> Noise:
    """The least share of a feature that has to be left unexplained by others, for Cholesky to be trusted."""
    return 8 * max(width, 16) * EPSILON + noise


def trusted_cholesky(matrix: NDArray[np.float64], tolerance: float) -> NDArray[np.float64] | None:
    """The lower Cholesky factor, unless rounding has filled it."""
    try:
        lower = np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    # The share of a feature that the features before it leave unexplained: free of scale, and at rounding level exactly
    # where the factor has lost its digits.
    unexplained = lower.diagonal() ** 2 / matrix.diagonal()
    return None if unexplained.min() < tolerance else lower


def _with_ridge(matrix: NDArray[np.float64], tolerance: float) -> Solve:
    """Add rounding to the diagonal, and more until it is enough."""
    share = tolerance
    for _ in range(12):
        system = matrix.copy()
        system[np.diag_indices_from(system)] *= 1 + share
        lower = trusted_cholesky(system, tolerance / 2)
        if lower is not None:
            warnings.warn(
                f"Products in float32 do not tell all directions apart at this C: a ridge of {share:.0e} of the "
                f"diagonal was added (solver 'ridge'), as a smaller C would. Learn in float64, or solve with a smaller "
                f"C.",
                SolverWarning,
                stacklevel=2,
            )
            return by_triangles(lower)
        share *= 4
    return _by_eigenvectors(matrix, tolerance)


def by_triangles(lower: NDArray[np.float64]) -> Solve:
    """A function that solves systems by their Cholesky factor."""

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        half = solve_triangular(lower, right, lower=True, check_finite=False)
        solution: NDArray[np.float64] = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
        return solution

    return solve


def _by_eigenvectors(matrix: NDArray[np.float64], tolerance: float) -> Solve:
    # Scaled to a unit diagonal, so that a small feature is not mistaken for a singular one.
    diagonal = matrix.diagonal()
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = eigh(matrix / scale / scale[:, None])
    kept = values > tolerance * max(values[-1], 1.0)
    warnings.warn(
        f"The system is singular to rounding ({len(values) - int(kept.sum())} of {len(values)} directions are empty), "
        f"so Cholesky could not be used: solved by 'eigh', with those directions left out. "
        f"Duplicate or constant features and a very large C lead to this; a smaller C avoids it.",
        SolverWarning,
        stacklevel=2,
    )
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    # The data do not tell solutions apart that differ in the empty directions; the penalty prefers the shortest.
    empty, _ = np.linalg.qr(vectors[:, ~kept] / scale[:, None])

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        column = right if right.ndim == 2 else right[:, None]
        turned = vectors.T @ (column / scale[:, None])
        solution: NDArray[np.float64] = (vectors @ (inverse[:, None] * turned)) / scale[:, None]
        solution -= empty @ (empty.T @ solution)
        return solution.reshape(right.shape)

    return solve


def small_blas(width: int) -> AbstractContextManager[None]:
    """One thread of BLAS for matrices so small that more gain little, and go on spinning into the work that follows."""
    return Threads.single_threaded_blas() if width < WIDE else nullcontext()
