"""Factorisation of symmetric positive definite matrices, with fallbacks for singular ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Factor:
    """A factored matrix.

    Attributes
    ----------
    solver : {"cholesky", "ridge", "eigh"}
    solve : function
        Solves systems of shape (features, columns); without the part along empty directions.
    ridge : float
        The fraction of the diagonal that was added.
    empty : array of shape (features, directions)
        Orthonormal directions in which the matrix is zero up to rounding, but for the penalty.
    """

    solver: str
    solve: Solve
    ridge: float
    empty: NDArray[np.float64]


def factorise(matrix: NDArray[np.float64], noise: float = 0.0, penalty: float = 0.0) -> Factor:
    """Factor a matrix, which is left as it is. ``penalty`` is what was added to its diagonal.

    Cholesky, unless the matrix is singular up to rounding: then its eigenvectors, without the directions that are only
    rounding. ``noise`` is the relative rounding error of the matrix; if it is that of float32, a ridge of the size of
    the rounding is added instead, which costs no more than Cholesky. numpy's Cholesky releases the GIL, scipy's does
    not.

    >>> import numpy as np
    >>> factor = factorise(np.diag([2.0, 4.0]))
    >>> factor.solver, factor.solve(np.array([1.0, 1.0]))
    ('cholesky', array([0.5 , 0.25]))
    """
    tolerance = cholesky_tolerance(len(matrix), noise)
    lower = trusted_cholesky(matrix, tolerance)
    if lower is not None:
        return Factor("cholesky", by_triangles(lower), 0.0, np.empty((len(matrix), 0)))
    factor = (_with_ridge if noise > MAX_FLOAT64_NOISE else by_eigenvectors)(matrix, tolerance, penalty)
    if factor.solver == "eigh":
        warn_solver(
            f"The system is singular up to rounding ({factor.empty.shape[1]} of {len(matrix)} directions are empty), "
            f"so it was solved by 'eigh' without those directions. "
            f"Causes are duplicate or constant features and a very large C; a smaller C avoids it."
        )
    return factor


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


def _with_ridge(matrix: NDArray[np.float64], tolerance: float, penalty: float) -> Factor:
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
            return Factor("ridge", by_triangles(lower), ridge, np.empty((len(matrix), 0)))
        ridge *= 4
    return by_eigenvectors(matrix, tolerance, penalty)


def by_triangles(lower: NDArray[np.float64]) -> Solve:
    """A function that solves systems with a Cholesky factor."""

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        half = solve_triangular(lower, right, lower=True, check_finite=False)
        solution: NDArray[np.float64] = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
        return solution

    return solve


def by_eigenvectors(matrix: NDArray[np.float64], tolerance: float, penalty: float) -> Factor:
    """Factor a matrix S + penalty I by the eigenvectors of S, without those along which S is empty up to rounding.

    With S scaled to a unit diagonal, eigenvalues L and eigenvectors V that are not empty, solutions are Z c, where the
    columns of Z are V in the original scale and orthogonal to all empty directions, and (L + penalty Z'Z) c = Z't.
    """
    diagonal = matrix.diagonal()
    # A feature of small scale must not look singular.
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = matrix / scale / scale[:, None]
    scaled[np.diag_indices_from(scaled)] -= penalty / scale**2
    values, vectors = eigh(scaled)
    kept = values > tolerance * max(values[-1], 1.0)
    vectors /= scale[:, None]
    # The rows do not determine the solution in the empty directions; the penalty prefers the shortest.
    empty, _ = np.linalg.qr(vectors[:, ~kept])
    basis = vectors[:, kept]
    basis -= empty @ (empty.T @ basis)
    roots = np.sqrt(values[kept])
    inner = np.eye(len(roots)) + penalty * (basis / roots).T @ (basis / roots)
    inside = by_triangles(np.linalg.cholesky(inner))

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        column = right if right.ndim == 2 else right[:, None]
        solution: NDArray[np.float64] = basis @ (inside(basis.T @ column / roots[:, None]) / roots[:, None])
        return solution.reshape(right.shape)

    return Factor("eigh", solve, 0.0, empty)


def small_blas(width: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small matrices.

    Extra threads gain little, and keep busy-waiting while later work runs.
    """
    return Threads.single_threaded_blas() if width < MIN_WIDTH_FOR_BLAS_THREADS else nullcontext()
