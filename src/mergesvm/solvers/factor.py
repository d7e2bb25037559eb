"""Factors of a symmetric positive definite matrix, with a fallback that names itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular

from mergesvm.errors import SolverWarning

Solve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

EPSILON = float(np.finfo(np.float64).eps)


def factorise(matrix: NDArray[np.float64], noise: float = 0.0) -> tuple[Solve, str]:
    """A function that solves systems with this matrix, and the name of the solver.

    Cholesky, unless the matrix is singular to rounding: then by its eigenvectors, leaving out the directions that
    rounding alone fills. ``noise`` is the relative rounding that the matrix brings along. numpy's Cholesky is used
    because it releases the GIL, scipy's does not.

    >>> import numpy as np
    >>> solve, name = factorise(np.diag([2.0, 4.0]))
    >>> name, solve(np.array([1.0, 1.0]))
    ('cholesky', array([0.5 , 0.25]))
    """
    tolerance = 8 * max(len(matrix), 16) * EPSILON + noise
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return _by_eigenvectors(matrix, tolerance), "eigh"
    # The share of a feature that the features before it leave unexplained: free of scale, and at rounding level exactly
    # where the factor has lost its digits.
    unexplained = lower.diagonal() ** 2 / matrix.diagonal()
    if unexplained.min() < tolerance:
        return _by_eigenvectors(matrix, tolerance), "eigh"

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        half = solve_triangular(lower, right, lower=True, check_finite=False)
        solution: NDArray[np.float64] = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
        return solution

    return solve, "cholesky"


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
