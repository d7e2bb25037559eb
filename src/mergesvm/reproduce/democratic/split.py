"""The rows of one data set, as the paper prepares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.learning.learn import learn
from mergesvm.reproduce.paper_data import PaperData, Source

EXPLAINED_VARIANCE = 0.9999

HELD_OUT = 0.2
"""Fraction of the training rows on which lambda is chosen."""


@dataclass(frozen=True)
class Split:
    """Principal components of training rows and test rows, and their labels."""

    X: NDArray[Any]
    y: NDArray[Any]
    test: NDArray[Any]
    truth: NDArray[Any]

    @classmethod
    def of(cls, data: PaperData, source: Source, seed: int) -> Split:
        """Load a data set and keep 99.99 % of the variance of its training rows, computed from their sums."""
        X, y, test, truth = data.load(source, seed)
        components = learn(X, y).pca(EXPLAINED_VARIANCE, precision="float32")
        white = np.float32(255)  # with pixels from 0 to 1, the same lambda suits all data sets
        return cls(components.transform(X) / white, y, components.transform(test) / white, truth)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(np.unique(self.y))

    def held_out(self, seed: int) -> Split:
        """The training rows alone, with a random part of them as test rows."""
        order = np.random.default_rng(seed).permutation(len(self.y))
        test, rest = np.split(order, [round(HELD_OUT * len(order))])
        return Split(self.X[rest], self.y[rest], self.X[test], self.y[test])
