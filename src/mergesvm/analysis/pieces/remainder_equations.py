"""Normal equations of the rows that remain without one of many pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.pieces import Pieces
from mergesvm.knowledge.sums import ROUNDING
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.methods.proximal.rounding import CERTAIN
from mergesvm.multiclass.class_weights import side_weights

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Remainders:
    """Vectors of the normal equations without each of several pieces, for problems with the same class weights.

    The system of piece p is ``whole - gram_p - left_p' right_p - right_p' left_p + diag(ridge_p)``, about the weighted
    mean of the rows that remain.

    Attributes
    ----------
    weights : array of shape (pieces, classes)
    count : array of shape (pieces,)
        Weight of the remaining rows.
    balance : array of shape (pieces, problems)
        Weight of the positive rows minus that of the negative rows.
    mean : array of shape (pieces, width)
        Mean of the remaining rows, relative to the anchor of the total.
    rights : array of shape (pieces, problems, width)
        Right-hand sides.
    towards : array of shape (pieces, width)
        The mean, relative to the origin at which the intercept is penalised.
    ridge, noise, certain : arrays of shape (pieces, width)
        Penalty, rounding error of the diagonal, and size below which a right-hand side is rounding error.
    left, right : arrays of shape (pieces, 2, width)
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

    def columns(self, penalize_intercept: bool) -> Numbers:
        """A copy of all right-hand sides, (pieces, columns, width); the last is for the penalty of the intercept."""
        sides = [self.rights, self.towards[:, None]] if penalize_intercept else [self.rights]
        return np.ascontiguousarray(np.concatenate(sides, axis=1))


class RemainderEquations:
    """Normal equations without one of several pieces, about the mean of the rows that remain.

    Vectors are computed for many pieces at once, matrices one at a time.

    Attributes
    ----------
    problems : Problems
        The binary problems of all pieces together.
    groups : list of lists of int
        Problems that have the same class weights, whichever piece is left out.
    wholes : list of arrays of shape (width, width)
        The weighted Gram matrix of all pieces, one per group.
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
        return origin, np.where(constant, 1.0, variance) / self.options.C

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
