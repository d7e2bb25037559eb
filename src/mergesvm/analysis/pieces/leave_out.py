"""The planes that are solved without one of many pieces, for each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from mergesvm.analysis.pieces.pieces import Pieces
from mergesvm.analysis.pieces.remaining import RemainderOptions, Remaining, Rest
from mergesvm.methods.proximal.closed_form import solve_problems
from mergesvm.methods.proximal.factor import EPSILON

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

CHUNK_BYTES = 2**25
"""What is put together for the pieces that are taken at a time takes no more memory than this."""


class HyperplanesWithout:
    """Planes without one of several pieces, those that :func:`solve_problems` gives for the rest.

    Without piece p the system of all rows, A, is A - B_p. It is put together in one buffer, where a factor takes its
    place: memory is read once, and little else is done but the factorisation. (Steps of conjugate gradients from the
    factor of A, of which a small piece should need few, took 1.5 to 4 times as long at widths from 54 to 784.) What a
    factor is not to be trusted with is solved by itself, by whatever solver that takes.

    Parameters
    ----------
    pieces : Pieces
    terms : RemainderOptions

    Examples
    --------
    >>> import mergesvm as ms
    >>> days = [ms.learn([[0.0], [2.0 + day]], ["a", "b"]) for day in range(3)]
    >>> leaving = HyperplanesWithout(Pieces.of(days), RemainderOptions(1.0, None, False, False, True))
    >>> coefs, offsets = leaving.planes([0, 2])
    >>> bool(abs(coefs[1] - ms.solve(days[0] + days[1]).coef_).max() < 1e-12)
    True
    """

    def __init__(self, pieces: Pieces, terms: RemainderOptions) -> None:
        self.pieces, self.terms = pieces, terms
        self.remaining = Remaining(pieces, terms)
        self.problems = self.remaining.problems

    @property
    def chunk(self) -> int:
        """How many pieces to take at a time, by the memory of their planes times their Gram matrices."""
        total = self.pieces.total
        return max(2, CHUNK_BYTES // (16 * total.width * len(self.problems) * len(total.grams)))

    def planes(self, at: Sequence[int]) -> tuple[Numbers, Numbers]:
        """Coefficients (pieces, problems, width) and offsets at the anchor of the total, (pieces, problems).

        Without each of the pieces ``at``; each class must have rows in the others.
        """
        width, count = self.pieces.total.width, len(self.problems)
        coefs, offsets = np.empty((len(at), count, width)), np.empty((len(at), count))
        good = np.ones(len(at), dtype=bool)
        for group, whole in zip(self.remaining.groups, self.remaining.wholes, strict=True):
            rest = self.remaining.without(at, group)
            columns = rest.columns(self.terms.penalize_intercept)
            good &= self._factor(at, whole, rest, columns)
            coefs[:, group], offsets[:, group] = self._planes(rest, columns)
        for row in np.flatnonzero(~good).tolist():
            coefs[row], offsets[row] = self._alone(at[row])
        return coefs, offsets

    def _alone(self, index: int) -> tuple[Numbers, Numbers]:
        rest, terms = self.pieces.without(index), self.terms
        solution = solve_problems(
            rest,
            terms.problems(rest),
            terms.C,
            standardize=terms.standardize,
            penalize_intercept=terms.penalize_intercept,
        )
        return solution.coefs, solution.offsets + solution.coefs @ (self.pieces.total.anchor - rest.anchor)

    def _factor(self, at: Sequence[int], whole: Numbers, rest: Rest, columns: Numbers) -> Flags:
        """Solve the system of each piece in place of its columns, (pieces, columns, width); whether to trust each."""
        width = self.pieces.total.width
        system = np.empty((width, width))
        diagonal, turned = system.reshape(-1)[:: width + 1], system.T
        squares, after = np.empty((len(at), width)), np.empty((len(at), width))
        good = np.ones(len(at), dtype=bool)

        def factor(row: int, lost: Flags | None = None) -> bool:
            self.remaining.subtract_grams(at[row], whole, rest.weights[row], system)
            # Only the triangle that is read by the factorisation.
            blas.dsyr2k(-1.0, rest.left[row].T, rest.right[row].T, beta=1.0, c=turned, overwrite_c=1)
            trusted = lost is None or self._clear(lost, system, columns[row], rest, row)
            squares[row] = diagonal
            np.add(diagonal, rest.ridge[row], out=diagonal)
            _, _, failed = lapack.dposv(turned, columns[row].T, lower=0, overwrite_a=1, overwrite_b=1)
            after[row] = diagonal
            return trusted and not failed

        stack = self.pieces.stack
        if stack is not None:
            from mergesvm.analysis.pieces.jit import solve_without

            solve_without(
                np.asarray(at, dtype=np.intp), stack, whole, rest.left, rest.right, rest.ridge, columns, squares, after
            )
        else:
            for row in range(len(at)):
                good[row] = factor(row)
        # Rarely a feature is constant without a piece: once more without it.
        lost = squares <= rest.noise
        again = np.flatnonzero(lost.any(axis=1)).tolist()
        if again:
            columns[again] = rest.columns(self.terms.penalize_intercept)[again]
        for row in again:
            good[row] = factor(row, lost[row])
        before = squares + rest.ridge
        tolerance = 8 * max(width, 16) * EPSILON + (rest.noise / before).max(axis=1)
        trusted: Flags = good & ((after**2 / before).min(axis=1) >= tolerance)
        return trusted

    def _clear(self, lost: Flags, system: Numbers, columns: Numbers, rest: Rest, row: int) -> bool:
        """Leave out features of which rounding has left no variance; False if that is worth a warning."""
        telling = lost & (np.abs(rest.rights[row]).max(axis=0) > rest.certain[row])
        system[lost], system[:, lost] = 0.0, 0.0
        columns[: rest.rights.shape[1], lost] = 0.0
        rest.noise[row, lost] = 0.0
        return not telling.any() or self.pieces.total.signature.mapped

    def _planes(self, rest: Rest, solved: Numbers) -> tuple[Numbers, Numbers]:
        at_mean, w = rest.balance / rest.count[:, None], solved
        if self.terms.penalize_intercept:
            # The penalty on the intercept at the origin is a term of rank one, and enters by Sherman-Morrison.
            w, q, g = solved[:, :-1], solved[:, -1], rest.towards
            below = self.terms.C + np.einsum("pd,pd->p", g, q) + 1 / rest.count
            pull = (at_mean - (w @ g[:, :, None])[:, :, 0]) / below[:, None]
            w = w + pull[:, :, None] * q[:, None]
            at_mean = at_mean - pull / rest.count[:, None]
        return w, at_mean - (w @ rest.mean[:, :, None])[:, :, 0]
