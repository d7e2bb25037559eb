"""ReductionRows: the rows of one unit at which a smaller model is fitted and evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import Rows, spans
from mergesvm.models.expansion import Expansion

Numbers = NDArray[np.float64]

MAX_TARGET = 2.0
"""Scores of the full model are limited to this size in sums of squares, so that rows far beyond the margins, whose
scores do not matter, do not decide which vectors are selected."""

BLOCK_VALUES = 1 << 21
"""Kernel values or scores that are computed at a time."""


class PairScorer(Protocol):
    """A model with one score per pair of classes."""

    expansion: Expansion

    def scores(self, X: Any) -> Numbers:
        """Scores of all pairs, (rows, pairs)."""

    def winners(self, scores: Numbers) -> NDArray[np.intp]:
        """Index of the predicted class, (rows,), from scores (rows, pairs)."""


@dataclass(frozen=True)
class ColumnSums:
    """Sums over rows of products of columns: a constant, then kernel values with some vectors.

    Sums of different rows can be added; those of the first vectors are a part of those of all.

    Attributes
    ----------
    grams : array of shape (groups, columns, columns)
        Products of columns with each other, for each group of rows.
    cross : array of shape (columns, pairs)
        Products with the scores of the full model, limited to :data:`MAX_TARGET`, over all rows.
    counts : array of shape (groups,)
        Sums of the weights of the rows.
    """

    grams: Numbers
    cross: Numbers
    counts: Numbers

    def __add__(self, other: ColumnSums) -> ColumnSums:
        return ColumnSums(self.grams + other.grams, self.cross + other.cross, self.counts + other.counts)

    def first(self, size: int) -> ColumnSums:
        """Sums of the constant and the first vectors."""
        end = size + 1
        return ColumnSums(self.grams[:, :end, :end], self.cross[:end], self.counts)


@dataclass(frozen=True)
class Outcomes:
    """Sums of the weights of rows: of all, and of those that the full, the smaller and both models predict correctly.

    ``same`` counts the rows for which both predict the same class.
    """

    total: float
    full: float
    reduced: float
    same: float

    def __add__(self, other: Outcomes) -> Outcomes:
        mine, others = vars(self).values(), vars(other).values()
        return Outcomes(*(one + another for one, another in zip(mine, others, strict=True)))


class ReductionRows:
    """Rows with the scores of the full model, and their kernel values with the vectors of the smaller model.

    Parameters
    ----------
    model : PairScorer
        The full model.
    rows : Rows
    codes : array of int, shape (rows,), or None
        The class of each row; negative for rows that do not count. None for the classes that the model predicts.
    weights : array of shape (rows,), or None
    """

    def __init__(
        self, model: PairScorer, rows: Rows, codes: NDArray[np.intp] | None, weights: Numbers | None = None
    ) -> None:
        self._model, self._rows, self._n_classes = model, rows, len(model.expansion.counts)
        scores = model.scores(rows) if rows.n_rows else np.zeros((0, len(model.expansion.intercepts)))
        predicted = model.winners(scores)
        self._row_classes = codes = predicted if codes is None else codes
        weights = np.ones(rows.n_rows) if weights is None else weights
        self._row_scores, self._row_weights = scores, np.where(codes >= 0, weights, 0.0)
        # Everything else is sorted by class, so that the rows of a class are a slice.
        self._order = np.argsort(codes, kind="stable")[np.count_nonzero(codes < 0) :]
        self._codes, self._weights = codes[self._order], self._row_weights[self._order]
        self._predicted, self._scores = predicted[self._order], scores[self._order]
        bounds = np.searchsorted(self._codes, np.arange(self._n_classes + 1))
        self._classes = [slice(int(a), int(b)) for a, b in pairwise(bounds)]
        pairs = list(combinations(range(self._n_classes), 2))
        self._pairs = [np.array([p for p, pair in enumerate(pairs) if c in pair]) for c in range(self._n_classes)]

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows that count."""
        return float(self._weights.sum())

    def classes_of(self, positions: NDArray[np.intp]) -> NDArray[np.intp]:
        """The class of rows; that of rows which do not count is the first."""
        return np.maximum(self._row_classes[positions], 0)

    def candidate_sums(self, vectors: Any) -> ColumnSums:
        """Sums of the kernel values with candidate vectors, over all rows as one group."""
        width = vectors.shape[0] + 1
        gram, cross = np.zeros((width, width)), np.zeros((width, self._row_scores.shape[1]))
        for start, stop in self._spans(width):
            columns = self._columns_of(vectors, start, stop)
            weighted = columns * self._row_weights[start:stop, None]
            gram += weighted.T @ columns
            cross += weighted.T @ _limited(self._row_scores[start:stop])
        return ColumnSums(gram[None], cross, np.array([self._weights.sum()]))

    def take(self, vectors: Any) -> ColumnSums:
        """Compute and keep the kernel values with these vectors; their sums over the rows of each class."""
        width = vectors.shape[0] + 1
        columns = np.empty((self._rows.n_rows, width))
        for start, stop in self._spans(width):
            columns[start:stop] = self._columns_of(vectors, start, stop)
        self._columns = columns[self._order]
        weighted = self._columns * self._weights[:, None]
        grams = np.array([weighted[part].T @ self._columns[part] for part in self._classes])
        counts = np.array([self._weights[part].sum() for part in self._classes])
        return ColumnSums(grams, weighted.T @ _limited(self._scores), counts)

    def gradient(self, coefs: Numbers) -> Numbers:
        """Sums of columns times residuals, (columns, pairs), each pair over the rows of its two classes."""
        from mergesvm.models.reduction.jit import to_residuals

        found = np.zeros(coefs.shape)
        for part, pairs in zip(self._classes, self._pairs, strict=True):
            columns = self._columns[part, : len(coefs)]
            residuals = columns @ coefs[:, pairs]
            to_residuals(residuals, self._scores[part][:, pairs], self._weights[part])
            found[:, pairs] += columns.T @ residuals
        return found

    def outcomes(self, coefs: Numbers) -> Outcomes:
        """How the predictions with these coefficients compare with those of the full model."""
        right = np.zeros(len(self._codes), dtype=bool)
        same = right.copy()
        for start, stop in spans(len(right), max(1, BLOCK_VALUES // max(coefs.shape[1], 1))):
            winners = self._model.winners(self._columns[start:stop, : len(coefs)] @ coefs)
            right[start:stop] = winners == self._codes[start:stop]
            same[start:stop] = winners == self._predicted[start:stop]
        weights, full = self._weights, self._predicted == self._codes
        return Outcomes(*(float(part) for part in (weights.sum(), weights @ full, weights @ right, weights @ same)))

    def moments(self, coefs: Numbers) -> Numbers:
        """Sum of weights, of scores and of squared scores of the two sides of each pair, (pairs, 2, 3)."""
        found = np.zeros((coefs.shape[1], 2, 3))
        for code, (part, pairs) in enumerate(zip(self._classes, self._pairs, strict=True)):
            scores, weights = self._columns[part, : len(coefs)] @ coefs[:, pairs], self._weights[part]
            side = (np.arange(len(pairs)) < code).astype(np.intp)  # a class is second in its pairs with those before it
            found[pairs, side] = np.stack(
                [np.full(len(pairs), weights.sum()), weights @ scores, weights @ scores**2], axis=1
            )
        return found

    def _spans(self, width: int) -> list[tuple[int, int]]:
        return list(spans(self._rows.n_rows, max(16, BLOCK_VALUES // width)))

    def _columns_of(self, vectors: Any, start: int, stop: int) -> Numbers:
        """A constant column, and the kernel values of some rows with vectors, (rows, vectors + 1)."""
        block = self._rows.block(start, stop)
        columns = np.empty((block.shape[0], vectors.shape[0] + 1))
        columns[:, 0] = 1
        columns[:, 1:] = self._model.expansion.over(vectors).kernel_values(block)
        return columns


def _limited(scores: Numbers) -> Numbers:
    return np.clip(scores, -MAX_TARGET, MAX_TARGET)
