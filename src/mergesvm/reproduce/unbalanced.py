"""Unbalanced rows of two classes, drawn with repetition, and how well each weighting predicts others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError, ParameterError
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve

WEIGHTINGS = {"PLSVM": None, "class weighted PLSVM": "inverse", "weight (3)'s PLSVM": "complement"}
"""As the paper calls them, and what they are called here."""


@dataclass(frozen=True)
class Draw:
    """Rows to learn, those of the rare class first, and rows to test on, none of which is among the former.

    Attributes
    ----------
    X, y : arrays
    n_rare : int
        How many of the rows to learn are of the rare class.
    test, truth : arrays
        As many rows of one class as of the other.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    n_rare: int
    test: NDArray[Any]
    truth: NDArray[Any]

    @classmethod
    def of(cls, X: NDArray[Any], y: NDArray[Any], n_rare: int, n_frequent: int, n_test: int, seed: int) -> Draw:
        """Draw at random: rows to test on once each, rows to learn from the others, with repetition."""
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) != 2:
            raise DataError(f"Rows of two classes are needed, and there are {len(labels)}.")
        if counts.min() <= n_test:
            raise ParameterError(
                f"--test {n_test} leaves nothing to learn: the smaller class has {counts.min():,} rows."
            )
        generator = np.random.default_rng(seed)
        learned, tested = [], []
        for label, count in zip(labels[np.argsort(counts)], (n_rare, n_frequent), strict=True):
            rows = generator.permutation(np.flatnonzero(y == label))
            tested.append(rows[:n_test])
            learned.append(generator.choice(rows[n_test:], count))
        chosen, kept = np.concatenate(learned), np.concatenate(tested)
        return cls(X[chosen], y[chosen], n_rare, X[kept], y[kept])

    def mixed(self, n_rows: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The first rows to learn, shuffled, so that every rank gets some of both classes."""
        order = np.random.default_rng(seed).permutation(n_rows)
        return self.X[order], self.y[order]

    def accuracies(self, frequents: Sequence[int], C: float) -> NDArray[np.float64]:
        """The share of test rows predicted rightly, by number of rows, weighting, and class, the rare one first.

        Rows of the frequent class are added step by step, as in algorithm 2.1 of the paper; nothing is learned twice,
        and all weightings are solved from the same sums.
        """
        ends = [0, *(self.n_rare + count for count in frequents)]
        known, found = None, []
        for first, end in pairwise(ends):
            news = learn(self.X[first:end], self.y[first:end])
            known = news if known is None else known + news
            models = [solve(known, C, weighting) for weighting in WEIGHTINGS.values()]
            right = [model.predict(self.test) == self.truth for model in models]
            found.append([[float(half.mean()) for half in np.array_split(each, 2)] for each in right])
        return np.array(found)
