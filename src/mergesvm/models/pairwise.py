"""One-vs-one models: one hyperplane per pair of classes, decided by votes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.data.rows.convert import as_rows
from mergesvm.models.domain import Domain
from mergesvm.models.formats.fields import moment_arrays
from mergesvm.models.formats.native import ModelContent
from mergesvm.models.formats.onnx import Steps
from mergesvm.models.formats.onnx_votes import pairwise_steps
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.score_moments import SideMoments
from mergesvm.models.solution import Solution
from mergesvm.models.voting import Voting

MAX_BLOCK_SCORES = 1 << 21
"""Votes are counted for blocks of at most this many scores: 47 classes have 1,081 scores per row."""


class PairwiseModel(Hyperplanes):
    """One-vs-one: each pair of classes has one vote; the class with the most votes is predicted.

    Row p of ``coef_`` is the hyperplane between the classes ``pairs_[p]``, positive for the second of them.

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
        self.moments = moments
        self.ties = ties
        self._voting = Voting(len(domain.labels), ties, moments)
        self.pairs_ = list(combinations(domain.labels, 2))

    def votes(self, X: Any) -> NDArray[np.float64]:
        """Number of votes per class, (rows, classes)."""
        votes: NDArray[np.float64] = self._by_block(X, self._voting.votes)
        return votes

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Votes plus a fraction from the summed margins, (rows, classes); the highest is the predicted class."""
        decision: NDArray[np.float64] = self._by_block(X, self._voting.decide)
        return decision

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row."""
        predicted: NDArray[Any] = self.classes_[self._by_block(X, self.winners)]
        return predicted

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index of the predicted class, (rows,), from scores (rows, problems)."""
        return self._voting.winners(scores)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), assuming scores that are normal within each class.

        With r_ij the probability of i against j, p_i = 1 / (sum_j 1/r_ij - (k - 2)), normalised to a sum of 1: exact
        where the pairs are consistent. The most probable class is the predicted one: where the votes disagree,
        their winner is raised to the highest probability.
        """
        probabilities: NDArray[np.float64] = self._by_block(X, self.probabilities)
        return probabilities

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from scores (rows, problems)."""
        if self.calibration_ is not None:
            return self.calibration_.probabilities(self._voting.decide(scores))
        return self._voting.couple(scores)

    def _by_block(self, X: Any, function: Callable[[NDArray[np.float64]], NDArray[Any]]) -> NDArray[Any]:
        rows = as_rows(X)
        step = max(256, MAX_BLOCK_SCORES // len(self.coef_))
        if rows.n_rows <= step:
            return function(self.scores(rows))
        return np.concatenate([function(self.scores(rows.part(*span))) for span in spans(rows.n_rows, step)])

    def _content(self) -> ModelContent:
        arrays = {"coefs": self.coef_, "offsets": self.offsets_, **moment_arrays(self.moments)}
        return ModelContent("pairwise", self.solver_, self.ties, arrays, self._fields())

    def _onnx_steps(self) -> Steps:
        return pairwise_steps(len(self.classes_), self.ties, self.moments, self.calibration_)

    def __repr__(self) -> str:
        return f"PairwiseModel of {self._size()}, {len(self.pairs_)} pairs, ties by {self.ties}"
