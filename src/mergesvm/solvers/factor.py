"""Factors of a symmetric positive definite matrix, with a fallback that names itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve_triangular

from mergesvm.errors import IndefiniteError, SolverWarning

Solve = Callable[[NDArray[np.float64]], NDArray[np.float64]]

EPSILON = float(np.finfo(np.float64).eps)


def factorise(matrix: NDArray[np.float64]) -> tuple[Solve, str]:
    """A function that solves systems with this matrix, and the name of the solver.

    Cholesky, unless the matrix is singular to rounding: then by its eigenvectors, leaving out the directions that
    rounding alone fills. numpy's Cholesky is used because it releases the GIL, scipy's does not.

    >>> import numpy as np
    >>> solve, name = factorise(np.diag([2.0, 4.0]))
    >>> name, solve(np.array([1.0, 1.0]))
    ('cholesky', array([0.5 , 0.25]))
    """
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return _by_eigenvectors(matrix), "eigh"
    # The share of a feature that the features before it leave unexplained: free of scale, and at rounding level exactly
    # where the factor has lost its digits.
    unexplained = lower.diagonal() ** 2 / matrix.diagonal()
    if unexplained.min() < len(matrix) * EPSILON:
        return _by_eigenvectors(matrix), "eigh"

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        half = solve_triangular(lower, right, lower=True, check_finite=False)
        solution: NDArray[np.float64] = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
        return solution

    return solve, "cholesky"


def _by_eigenvectors(matrix: NDArray[np.float64]) -> Solve:
    # Scaled to a unit diagonal, so that a small feature is not mistaken for a singular one.
    scale = np.sqrt(np.maximum(matrix.diagonal(), np.finfo(np.float64).tiny))
    values, vectors = eigh(matrix / np.outer(scale, scale))
    tolerance = len(matrix) * EPSILON * max(values[-1], 1.0)
    if values[0] < -1e4 * tolerance:
        raise IndefiniteError(
            f"The Gram matrix is not positive semi-definite: its smallest eigenvalue, scaled to a unit diagonal, is "
            f"{values[0]:.3g}. Rows were subtracted that had never been added. Learn the remaining rows again."
        )
    kept = values > tolerance
    warnings.warn(
        f"The system is singular to rounding ({len(values) - int(kept.sum())} of {len(values)} directions are empty), "
        f"so Cholesky could not be used: solved by 'eigh', with those directions left out. "
        f"Duplicate or constant features and a very large C lead to this; a smaller C avoids it.",
        SolverWarning,
        stacklevel=2,
    )
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        column = right if right.ndim == 2 else right[:, None]
        turned = vectors.T @ (column / scale[:, None])
        solution: NDArray[np.float64] = (vectors @ (inverse[:, None] * turned)) / scale[:, None]
        return solution.reshape(right.shape)

    return solve
