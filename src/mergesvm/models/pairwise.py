"""One plane for each pair of classes: the most votes win."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.data.rows.convert import as_rows
from mergesvm.models.base import Domain
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.score_moments import SideMoments
from mergesvm.models.solution import Solution
from mergesvm.models.voting import Voting

BLOCK_SCORES = 1 << 21
"""Votes are counted for so many scores at a time: 47 classes have 1,081 scores a row."""


class PairwiseModel(Hyperplanes):
    """One-vs-one: each pair of classes has one vote, and the class with most votes wins.

    Row p of ``coef_`` is the plane between the classes ``pairs_[p]``, positive for the second of them.

    Examples
    --------
    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0], [0.1], [1.0], [1.1], [2.0], [2.1]], list("aabbcc"))
    >>> model = ms.solve(k, C=100.0, multiclass="ovo")
    >>> model.predict([[0.0], [1.0], [2.0]])
    array(['a', 'b', 'c'], dtype='<U1')
    >>> model.votes([[1.0]])
    array([[1., 2., 0.]])
    """

    def __init__(self, domain: Domain, solution: Solution, moments: SideMoments, ties: str) -> None:
        super().__init__(domain, solution)
        self._moments = moments
        self.ties = ties
        self._ballot = Voting(len(domain.labels), ties, moments)
        self.pairs_ = list(combinations(domain.labels, 2))

    def votes(self, X: Any) -> NDArray[np.float64]:
        """How many votes each class has, (rows, classes)."""
        votes: NDArray[np.float64] = self._by_block(X, self._ballot.votes)
        return votes

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Votes, and in their fraction the summed margins; the highest is the predicted class. (rows, classes)."""
        decision: NDArray[np.float64] = self._by_block(X, self._ballot.decide)
        return decision

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        predicted: NDArray[Any] = self.classes_[self._by_block(X, self.winners)]
        return predicted

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """The place of the class that scores, (rows, problems), speak for."""
        return self._ballot.winners(scores)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), if scores are normal within each class.

        With r_ij the probability of i against j, p_i = 1 / (sum_j 1/r_ij - (k - 2)), brought to a sum of 1: exact
        where the pairs agree with one another.
        """
        shares: NDArray[np.float64] = self._by_block(X, self.shares)
        return shares

    def shares(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probabilities, (rows, classes), that follow from scores, (rows, problems)."""
        if self.calibration_ is not None:
            return self.calibration_.shares(self._ballot.decide(scores))
        return self._ballot.couple(scores)

    def _by_block(self, X: Any, function: Callable[[NDArray[np.float64]], NDArray[Any]]) -> NDArray[Any]:
        rows = as_rows(X)
        step = max(256, BLOCK_SCORES // len(self.coef_))
        if rows.n_rows <= step:
            return function(self.scores(rows))
        return np.concatenate([function(self.scores(rows.part(*span))) for span in spans(rows.n_rows, step)])

    def __repr__(self) -> str:
        return f"PairwiseModel of {self._size()}, {len(self.pairs_)} pairs, ties by {self.ties}"
