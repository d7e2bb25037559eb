"""Random draws of unbalanced rows of two classes, and the accuracy of each weighting."""

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
"""The names of the paper, and the values of ``class_weight``."""


@dataclass(frozen=True)
class Draw:
    """Training rows, the ``n_rare`` of the rare class first, and separate test rows, equally many of both classes."""

    X: NDArray[Any]
    y: NDArray[Any]
    n_rare: int
    test: NDArray[Any]
    truth: NDArray[Any]

    @classmethod
    def of(cls, X: NDArray[Any], y: NDArray[Any], n_rare: int, n_frequent: int, n_test: int, seed: int) -> Draw:
        """Draw at random: test rows without replacement, training rows from the others with replacement."""
        labels, counts = np.unique(y, return_counts=True)
        if len(labels) != 2:
            raise DataError(f"The rows must be of two classes. Got {len(labels)}.")
        if counts.min() <= n_test:
            raise ParameterError(
                f"--test {n_test} leaves no training rows: the smaller class has {counts.min():,} rows."
            )
        generator = np.random.default_rng(seed)
        training, test = [], []
        for label, count in zip(labels[np.argsort(counts)], (n_rare, n_frequent), strict=True):
            rows = generator.permutation(np.flatnonzero(y == label))
            test.append(rows[:n_test])
            training.append(generator.choice(rows[n_test:], count))
        train_rows, test_rows = np.concatenate(training), np.concatenate(test)
        return cls(X[train_rows], y[train_rows], n_rare, X[test_rows], y[test_rows])

    def shuffled(self, n_rows: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The first training rows, shuffled, so that every rank gets rows of both classes."""
        order = np.random.default_rng(seed).permutation(n_rows)
        return self.X[order], self.y[order]

    def accuracies(self, frequents: Sequence[int], C: float) -> NDArray[np.float64]:
        """Accuracy on the test rows by number of rows, weighting and class, the rare one first.

        Rows of the frequent class are added incrementally, as in algorithm 2.1 of the paper; no row is learned twice,
        and all weightings are solved from the same sums.
        """
        ends = [0, *(self.n_rare + count for count in frequents)]
        known, found = None, []
        for first, end in pairwise(ends):
            piece = learn(self.X[first:end], self.y[first:end])
            known = piece if known is None else known + piece
            models = [solve(known, C, weighting) for weighting in WEIGHTINGS.values()]
            correct = [model.predict(self.test) == self.truth for model in models]
            found.append([[float(half.mean()) for half in np.array_split(each, 2)] for each in correct])
        return np.array(found)
