"""Hyperplanes solved without one of many pieces, for each of them, and their normal equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from mergesvm.analysis.pieces.pieces import Pieces
from mergesvm.knowledge.sums import ROUNDING
from mergesvm.methods.proximal.factor import cholesky_tolerance
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.rounding import CERTAIN
from mergesvm.multiclass.class_weights import side_weights

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

CHUNK_BYTES = 2**25
"""Limit of the memory for the coefficients of pieces that are solved together."""


@dataclass(frozen=True)
class Remainders:
    """Vectors of the normal equations without each of several pieces, for problems with the same class weights.

    The system of piece p is ``whole - gram_p - left_p' right_p - right_p' left_p + diag(ridge_p)``, about the weighted
    mean of the rows that remain.

    ``count`` (pieces,) is the weight of the remaining rows, ``balance`` (pieces, problems) that of the positive minus
    that of the negative ones, ``mean`` (pieces, width) is relative to the anchor of the total, and ``towards`` relative
    to the origin, at which the intercept is penalised. ``rights`` (pieces, problems, width) are right-hand sides,
    ``noise`` is the rounding error of the diagonal, and a right-hand side below ``certain`` is rounding error.
    """

    weights: Numbers
    count: Numbers
    balance: Numbers
    mean: Numbers
    rights: Numbers
    towards: Numbers
    ridge: Numbers
    noise: Numbers
    certain: Numbers
    left: Numbers
    right: Numbers

    def columns(self, options: SolveOptions) -> Numbers:
        """A copy of all right-hand sides, (pieces, columns, width); the last is for the penalty of the intercept."""
        sides = [self.rights, self.towards[:, None]] if options.intercept_penalty else [self.rights]
        return np.ascontiguousarray(np.concatenate(sides, axis=1))


class RemainderEquations:
    """Normal equations without one of several pieces, about the mean of the rows that remain.

    Vectors are computed for many pieces at once, matrices one at a time. The problems of a group have the same class
    weights, whichever piece is left out; ``wholes`` has the weighted Gram matrix of all pieces for each group.
    """

    def __init__(self, pieces: Pieces, options: SolveOptions) -> None:
        self.pieces, self.options, total = pieces, options, pieces.total
        self.problems = options.problems(total)
        diagonals = np.array([gram.diagonal() for gram in total.grams])
        self._rounding = ROUNDING[total.precision] * np.maximum(diagonals, total.peaks)
        self._total_square = diagonals.sum(axis=0)
        self._squares = self._piece_squares() if options.standardize else None
        # A scheme such as "balanced" weighs classes by the remaining counts, differently in every problem.
        changing = isinstance(options.class_weight, str)
        self.groups = [[at] for at in range(len(self.problems))] if changing else self.problems.groups()
        self.wholes = [self._weighted_gram(self.problems.weights(group[0])) for group in self.groups]

    def without(self, at: Sequence[int], group: list[int]) -> Remainders:
        """Vectors of the equations of a group of problems, without each of the pieces ``at``."""
        pieces, total, signs = self.pieces, self.pieces.total, self.problems.signs[group].astype(np.float64)
        counts, sums = total.counts - pieces.counts[at], total.sums - pieces.sums[at]
        weights = self._weights(group[0], counts)
        weighted = weights * counts
        count, balance = weighted.sum(axis=1), weighted @ signs.T
        mean = (weights[:, None] @ sums)[:, 0] / count[:, None]
        rights = (signs * weights[:, None]) @ sums - balance[:, :, None] * mean[:, None]
        noise = weights @ self._rounding if total.per_class else np.repeat(self._rounding, len(at), axis=0)
        certain = CERTAIN[total.precision] * (weights[:, None] @ np.abs(sums))[:, 0]
        origin, ridge = self._scaling(at)
        # Moving the piece to the anchor of the total, M + h d' + d h', and the remainder to its mean, - n m m'.
        shifts, own = pieces.shifts[at], (weights * pieces.counts[at]).sum(axis=1)[:, None]
        halves = (weights[:, None] @ pieces.sums[at])[:, 0] - own * shifts / 2
        left, right = np.stack([halves, count[:, None] * mean / 2], 1), np.stack([shifts, mean], 1)
        towards = total.anchor + mean - origin
        return Remainders(weights, count, balance, mean, rights, towards, ridge, noise, certain, left, right)

    def subtract_grams(self, index: int, whole: Numbers, weights: Numbers, out: Numbers) -> None:
        """Write the weighted Gram matrix of all pieces minus that of one, which is about its own anchor, to ``out``."""
        total, grams = self.pieces.total, self.pieces.grams[index]
        if isinstance(self.options.class_weight, str):
            whole = self._weighted_gram(weights)
        of_grams = [1.0] * len(grams)
        if total.per_class:
            of_grams = (weights if len(grams) == len(weights) else weights[self.pieces.places(index)]).tolist()
        for weight, gram in zip(of_grams, grams, strict=True):
            if weight:
                np.subtract(whole, gram if weight == 1 else weight * gram, out=out)
                whole = out
        if whole is not out:
            out[:] = whole

    def _weights(self, problem: int, counts: Numbers) -> Numbers:
        """Class weights of a problem, (pieces, classes), from the remaining counts."""
        scheme, sign = self.options.class_weight, self.problems.signs[problem]
        if not isinstance(scheme, str):
            return np.broadcast_to(self.problems.weights(problem), counts.shape)
        sides = [counts[:, sign > 0].sum(axis=1).tolist(), counts[:, sign < 0].sum(axis=1).tolist()]
        both = np.array([side_weights(scheme, *pair) for pair in zip(*sides, strict=True)])
        return np.where(sign > 0, both[:, :1], np.where(sign < 0, both[:, 1:], 0.0))

    def _weighted_gram(self, weights: Numbers) -> Numbers:
        total = self.pieces.total
        if not total.per_class or (weights == 1).all():
            return total.pooled_gram
        found = np.zeros((total.width, total.width))
        for weight, gram in zip(weights.tolist(), total.grams, strict=True):
            if weight:
                found += weight * gram
        return found

    def _scaling(self, at: Sequence[int]) -> tuple[Numbers, Numbers]:
        """Origin and penalty of the coefficients, for features as they are or standardised without each piece."""
        pieces, total = self.pieces, self.pieces.total
        if self._squares is None:
            shape = len(at), total.width
            return np.zeros(shape), np.full(shape, 1 / self.options.C)
        count = (total.counts.sum() - pieces.counts[at].sum(axis=1))[:, None]
        mean = (total.sums.sum(axis=0) - pieces.sums[at].sum(axis=1)) / count
        variance = (self._total_square - self._squares[at]) / count - mean**2
        origin = total.anchor + mean
        rounding = 64 * np.finfo(np.float64).eps
        # The variance of a feature that is constant in the remainder is the rounding error of the total.
        constant = variance <= np.maximum(rounding * self._total_square / count, (rounding * origin) ** 2)
        ridge = np.where(constant, 1.0, variance) / self.options.C
        return origin if self.options.fit_intercept else np.zeros_like(origin), ridge

    def _piece_squares(self) -> Numbers:
        """Diagonal of the Gram matrix of each piece about the anchor of the total, (pieces, width)."""
        pieces = self.pieces
        own = np.zeros((len(pieces), pieces.total.width))
        for index, grams in enumerate(pieces.grams):
            for gram in grams:
                own[index] += gram.diagonal()
        counts = pieces.counts.sum(axis=1)[:, None]
        squares: Numbers = own + (2 * pieces.sums.sum(axis=1) - counts * pieces.shifts) * pieces.shifts
        return squares


class RemainderSolver:
    """Hyperplanes without one of several pieces: what :func:`~mergesvm.solve` gives for the remaining rows.

    Without piece p the system A of all rows becomes A - B_p. It is assembled in one buffer and factored in place by
    Cholesky. Systems that are nearly singular are solved one by one, with the fallbacks of :func:`~mergesvm.solve`.
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
            columns = remainders.columns(self.options)
            trusted &= self._solve_systems(at, whole, remainders, columns)
            coefs[:, group], offsets[:, group] = self._hyperplanes(remainders, columns)
        for row in np.flatnonzero(~trusted).tolist():
            rest = self.pieces.without(at[row])
            solution = self.options.solution(rest, self.options.problems(rest))
            coefs[row] = solution.coefs
            offsets[row] = solution.offsets + solution.coefs @ (self.pieces.total.anchor - rest.anchor)
        return coefs, offsets

    def _solve_systems(self, at: Sequence[int], whole: Numbers, remainders: Remainders, columns: Numbers) -> Flags:
        """Overwrite ``columns``, of shape (pieces, columns, width), with the solutions for each piece.

        Return whether each piece's solutions can be trusted.
        """
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
            columns[again] = remainders.columns(self.options)[again]
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
        if self.options.intercept_penalty:
            # The penalty on the intercept at the origin is a rank-one term, and enters by Sherman-Morrison.
            w, q, g = solved[:, :-1], solved[:, -1], remainders.towards
            below = self.options.C / self.options.intercept_penalty + np.einsum("pd,pd->p", g, q) + 1 / remainders.count
            pull = (at_mean - (w @ g[:, :, None])[:, :, 0]) / below[:, None]
            w = w + pull[:, :, None] * q[:, None]
            at_mean = at_mean - pull / remainders.count[:, None]
        return w, at_mean - (w @ remainders.mean[:, :, None])[:, :, 0]
