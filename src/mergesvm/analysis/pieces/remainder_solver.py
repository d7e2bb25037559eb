"""Hyperplanes solved without one of many pieces, for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from mergesvm.analysis.pieces.pieces import Pieces
from mergesvm.analysis.pieces.remainder_equations import RemainderEquations, Remainders
from mergesvm.methods.proximal.factor import cholesky_tolerance
from mergesvm.methods.proximal.options import SolveOptions

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

CHUNK_BYTES = 2**25
"""Limit of the memory for the coefficients of pieces that are solved together."""


class RemainderSolver:
    """Hyperplanes without one of several pieces: what :func:`~mergesvm.solve` gives for the remaining rows.

    Without piece p the system A of all rows becomes A - B_p. It is assembled in one buffer and factored in place by
    Cholesky. (Conjugate gradients preconditioned with the factor of A take 1.5 to 4 times as long at widths from 54 to
    784.) Systems that are nearly singular are solved one by one, with the fallbacks of :func:`~mergesvm.solve`.

    Parameters
    ----------
    pieces : Pieces
    options : SolveOptions

    Examples
    --------
    >>> import mergesvm as ms
    >>> days = [ms.learn([[0.0], [2.0 + day]], ["a", "b"]) for day in range(3)]
    >>> coefs, offsets = RemainderSolver(Pieces.of(days), SolveOptions()).solve([0, 2])
    >>> bool(abs(coefs[1] - ms.solve(days[0] + days[1]).coef_).max() < 1e-12)
    True
    """

    def __init__(self, pieces: Pieces, options: SolveOptions) -> None:
        self.pieces, self.options = pieces, options
        self.equations = RemainderEquations(pieces, options)
        self.problems = self.equations.problems

    @property
    def chunk(self) -> int:
        """Number of pieces to solve together, by the memory of their coefficients times Gram matrices."""
        total = self.pieces.total
        return max(2, CHUNK_BYTES // (16 * total.width * len(self.problems) * len(total.grams)))

    def solve(self, at: Sequence[int]) -> tuple[Numbers, Numbers]:
        """Coefficients (pieces, problems, width) and offsets at the anchor of the total, (pieces, problems).

        Without each of the pieces ``at``; every class must have rows in the others.
        """
        width, count = self.pieces.total.width, len(self.problems)
        coefs, offsets = np.empty((len(at), count, width)), np.empty((len(at), count))
        trusted = np.ones(len(at), dtype=bool)
        for group, whole in zip(self.equations.groups, self.equations.wholes, strict=True):
            remainders = self.equations.without(at, group)
            columns = remainders.columns(self.options.penalize_intercept)
            trusted &= self._solve_systems(at, whole, remainders, columns)
            coefs[:, group], offsets[:, group] = self._hyperplanes(remainders, columns)
        for row in np.flatnonzero(~trusted).tolist():
            coefs[row], offsets[row] = self._solve_without(at[row])
        return coefs, offsets

    def _solve_without(self, index: int) -> tuple[Numbers, Numbers]:
        """The hyperplanes without one piece, from the knowledge that remains."""
        rest = self.pieces.without(index)
        solution = self.options.solution(rest, self.options.problems(rest))
        return solution.coefs, solution.offsets + solution.coefs @ (self.pieces.total.anchor - rest.anchor)

    def _solve_systems(self, at: Sequence[int], whole: Numbers, remainders: Remainders, columns: Numbers) -> Flags:
        """Replace the columns (pieces, columns, width) of each piece by their solutions; whether to trust each."""
        width = self.pieces.total.width
        system = np.empty((width, width))
        diagonal, transposed = system.reshape(-1)[:: width + 1], system.T
        squares, pivots = np.empty((len(at), width)), np.empty((len(at), width))
        trusted = np.ones(len(at), dtype=bool)

        def solve_system(row: int, constant: Flags | None = None) -> bool:
            self.equations.subtract_grams(at[row], whole, remainders.weights[row], system)
            # Updates only the triangle that the factorisation reads.
            left, right = remainders.left[row].T, remainders.right[row].T
            blas.dsyr2k(-1.0, left, right, beta=1.0, c=transposed, overwrite_c=1)
            clear = constant is None or self._drop_features(constant, system, columns[row], remainders, row)
            squares[row] = diagonal
            np.add(diagonal, remainders.ridge[row], out=diagonal)
            _, _, failed = lapack.dposv(transposed, columns[row].T, lower=0, overwrite_a=1, overwrite_b=1)
            pivots[row] = diagonal
            return clear and not failed

        for row in range(len(at)):
            trusted[row] = solve_system(row)
        # A feature may be constant without a piece: solve again without the feature.
        constant = squares <= remainders.noise
        again = np.flatnonzero(constant.any(axis=1)).tolist()
        if again:
            columns[again] = remainders.columns(self.options.penalize_intercept)[again]
        for row in again:
            trusted[row] = solve_system(row, constant[row])
        before = squares + remainders.ridge
        tolerance = cholesky_tolerance(width, (remainders.noise / before).max(axis=1))
        trusted &= (pivots**2 / before).min(axis=1) >= tolerance
        return trusted

    def _drop_features(
        self, constant: Flags, system: Numbers, columns: Numbers, remainders: Remainders, row: int
    ) -> bool:
        """Remove features whose variance is rounding error; False if their right-hand side is not, which warns."""
        doubtful = constant & (np.abs(remainders.rights[row]).max(axis=0) > remainders.certain[row])
        system[constant], system[:, constant] = 0.0, 0.0
        columns[: remainders.rights.shape[1], constant] = 0.0
        remainders.noise[row, constant] = 0.0
        return not doubtful.any() or self.pieces.total.signature.mapped

    def _hyperplanes(self, remainders: Remainders, solved: Numbers) -> tuple[Numbers, Numbers]:
        at_mean, w = remainders.balance / remainders.count[:, None], solved
        if self.options.penalize_intercept:
            # The penalty on the intercept at the origin is a rank-one term, and enters by Sherman-Morrison.
            w, q, g = solved[:, :-1], solved[:, -1], remainders.towards
            below = self.options.C + np.einsum("pd,pd->p", g, q) + 1 / remainders.count
            pull = (at_mean - (w @ g[:, :, None])[:, :, 0]) / below[:, None]
            w = w + pull[:, :, None] * q[:, None]
            at_mean = at_mean - pull / remainders.count[:, None]
        return w, at_mean - (w @ remainders.mean[:, :, None])[:, :, 0]
