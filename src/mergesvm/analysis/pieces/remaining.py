"""The normal equations of what remains without one of many pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.pieces import Pieces
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.sums import ROUNDING
from mergesvm.methods.proximal.rounding import CERTAIN
from mergesvm.multiclass.class_weights import side_weights
from mergesvm.multiclass.decomposition import Problems, one_vs_one, one_vs_rest

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class RemainderOptions:
    """On what terms planes are solved, as :func:`mergesvm.solve` has them."""

    C: float
    class_weight: Mapping[Any, float] | str | None
    in_pairs: bool
    standardize: bool
    penalize_intercept: bool

    def problems(self, knowledge: Knowledge) -> Problems:
        """The binary problems of knowledge."""
        return (one_vs_one if self.in_pairs else one_vs_rest)(knowledge, self.class_weight)


@dataclass(frozen=True)
class Rest:
    """The normal equations of problems with the same weights, without each of some pieces; vectors of each."""

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
        """What the systems are to be solved for, (pieces, columns, width); a copy, row by row in memory."""
        sides = [self.rights, self.towards[:, None]] if penalize_intercept else [self.rights]
        return np.ascontiguousarray(np.concatenate(sides, axis=1))


class Remaining:
    """Normal equations without one of several pieces, about the mean of the rows that remain.

    Vectors are made for many pieces at once; matrices one at a time, where they are wanted.

    Attributes
    ----------
    problems : Problems
        Of all pieces together.
    groups : list of lists of int
        Problems that have the same weights, whichever piece is left out.
    wholes : list of arrays of shape (width, width)
        The weighted Gram matrix of all pieces, for each group.
    """

    def __init__(self, pieces: Pieces, terms: RemainderOptions) -> None:
        self.pieces, self.terms, total = pieces, terms, pieces.total
        self.problems = terms.problems(total)
        diagonals = np.array([gram.diagonal() for gram in total.grams])
        self._rounding = ROUNDING[total.precision] * np.maximum(diagonals, total.peaks)
        self._total_square = diagonals.sum(axis=0)
        self._squares = self._piece_squares() if terms.standardize else None
        self.groups = self._grouped()
        self.wholes = [self._weighted_gram(self.problems.weights(group[0])) for group in self.groups]

    def without(self, at: Sequence[int], group: list[int]) -> Rest:
        """The vectors of the equations of a group of problems, without each of the pieces ``at``."""
        pieces, total, signs = self.pieces, self.pieces.total, self.problems.signs[group].astype(np.float64)
        counts, sums = total.counts - pieces.counts[at], total.sums - pieces.sums[at]
        weights = self._weights(group[0], counts)
        weighted = weights * counts
        count, balance = weighted.sum(axis=1), weighted @ signs.T
        mean = (weights[:, None] @ sums)[:, 0] / count[:, None]
        rights = (signs * weights[:, None]) @ sums - balance[:, :, None] * mean[:, None]
        noise = weights @ self._rounding if total.per_class else np.repeat(self._rounding, len(at), axis=0)
        certain = CERTAIN[total.precision] * (weights[:, None] @ np.abs(sums))[:, 0]
        origin, ridge = self._frame(at)
        # The move of the piece to the anchor of all, M + h d' + d h', and that of the rest to its mean, - n m m'.
        shifts, own = pieces.shifts[at], (weights * pieces.counts[at]).sum(axis=1)[:, None]
        halves = (weights[:, None] @ pieces.sums[at])[:, 0] - own * shifts / 2
        left, right = np.stack([halves, count[:, None] * mean / 2], 1), np.stack([shifts, mean], 1)
        towards = total.anchor + mean - origin
        return Rest(weights, count, balance, mean, rights, towards, ridge, noise, certain, left, right)

    def subtract_grams(self, index: int, whole: Numbers, weights: Numbers, out: Numbers) -> None:
        """The weighted Gram matrix of all without that of a piece, which is about an anchor of its own still."""
        total, grams = self.pieces.total, self.pieces.whole_grams(index)
        if isinstance(self.terms.class_weight, str):
            whole = self._weighted_gram(weights)
        each = [1.0] * len(grams)
        if total.per_class:
            each = (weights if len(grams) == len(weights) else weights[self.pieces.places(index)]).tolist()
        for weight, gram in zip(each, grams, strict=True):
            if weight:
                np.subtract(whole, gram if weight == 1 else weight * gram, out=out)
                whole = out
        if whole is not out:
            out[:] = whole

    def _grouped(self) -> list[list[int]]:
        """Problems that have the same weights, whichever piece is left out."""
        if isinstance(self.terms.class_weight, str):
            return [[problem] for problem in range(len(self.problems))]
        groups: dict[bytes, list[int]] = {}
        for problem in range(len(self.problems)):
            groups.setdefault(self.problems.weights(problem).tobytes(), []).append(problem)
        return list(groups.values())

    def _weights(self, problem: int, counts: Numbers) -> Numbers:
        """The weight of each class in a problem, (pieces, classes), where so much of each is left."""
        scheme, sign = self.terms.class_weight, self.problems.signs[problem]
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

    def _frame(self, at: Sequence[int]) -> tuple[Numbers, Numbers]:
        """The origin, and the penalty on each coefficient, of features as they are or standardised without a piece."""
        pieces = self.pieces
        if self._squares is None:
            shape = len(at), pieces.total.width
            return np.zeros(shape), np.full(shape, 1 / self.terms.C)
        return self._standard(pieces.counts[at].sum(axis=1), pieces.sums[at].sum(axis=1), self._squares[at])

    def _standard(self, counts: Numbers, sums: Numbers, squares: Numbers) -> tuple[Numbers, Numbers]:
        total = self.pieces.total
        count = (total.counts.sum() - counts)[:, None]
        mean = (total.sums.sum(axis=0) - sums) / count
        variance = (self._total_square - squares) / count - mean**2
        origin = total.anchor + mean
        rounding = 64 * np.finfo(np.float64).eps
        # What is left of a feature that is constant in the rest is the rounding of all.
        constant = variance <= np.maximum(rounding * self._total_square / count, (rounding * origin) ** 2)
        return origin, np.where(constant, 1.0, variance) / self.terms.C

    def _piece_squares(self) -> Numbers:
        """The diagonal of the Gram matrix of each piece about the anchor of all, (pieces, width)."""
        pieces = self.pieces
        own = np.zeros((len(pieces), pieces.total.width))
        for index, grams in enumerate(pieces.grams):
            for gram in grams:
                own[index] += gram.diagonal()
        counts = pieces.counts.sum(axis=1)[:, None]
        squares: Numbers = own + (2 * pieces.sums.sum(axis=1) - counts * pieces.shifts) * pieces.shifts
        return squares
