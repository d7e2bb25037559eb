"""A model of support vectors: the sign of one expansion, or the votes of one for each pair of classes."""

from __future__ import annotations

import os
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from mergesvm.errors import FormError
from mergesvm.knowledge.knowledge import counted
from mergesvm.models.base import Domain, Model, check_scores
from mergesvm.models.expansion import Expansion
from mergesvm.models.score_moments import SideMoments
from mergesvm.models.voting import Voting

KERNEL_SOLVERS = ("working-set", "active-set", "gradient")
"""The methods that train kernel models."""


class KernelModel(Model):
    """One-vs-one by kernel expansions; for two classes the sign of the one score, positive for the second.

    Attributes
    ----------
    pairs_ : list of pairs of classes
        Row p of the scores is positive for the second class of ``pairs_[p]``.
    support_vectors_ : array or CSR array of shape (vectors, features)
        Those of the first class first, and so on.
    n_support_ : array of int, shape (classes,)
    dual_coef_ : array of shape (classes - 1, vectors)
        Y alpha of each vector, against each of the other classes in turn.
    intercept_ : array of shape (pairs,)

    Examples
    --------
    >>> import mergesvm as ms
    >>> machine = ms.ParallelKernelSVC(C=10.0, gamma=1.0).fit([[0.0], [1.0], [2.0], [3.0]], list("abba"))
    >>> machine.model_
    KernelModel of 2 classes x 1 feature, 4 support vectors
    >>> machine.model_.predict([[0.1], [1.5], [2.9]])
    array(['a', 'b', 'a'], dtype='<U1')
    """

    def __init__(
        self, domain: Domain, expansion: Expansion, moments: SideMoments, ties: str, solver: str = "working-set"
    ) -> None:
        super().__init__(domain)
        self.expansion, self.ties, self.solver_ = expansion, ties, solver
        self._moments = moments
        self._ballot = Voting(len(domain.labels), ties, moments)
        self.pairs_ = list(combinations(domain.labels, 2))
        self.support_vectors_, self.n_support_ = expansion.vectors, expansion.counts
        self.dual_coef_, self.intercept_ = expansion.coefs, expansion.intercepts

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of all rows for all pairs, (rows, pairs), computed block by block."""
        rows = self._checked(X)
        return check_scores(self.expansion.scores(rows), rows)

    def votes(self, X: Any) -> NDArray[np.float64]:
        """How many votes each class has, (rows, classes)."""
        return self._ballot.votes(self.scores(X))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Votes, and in their fraction the summed margins, (rows, classes); for two classes the score, (rows,)."""
        scores = self.scores(X)
        if len(self.classes_) > 2:
            return self._ballot.decide(scores)
        return scores[:, 0] if len(self.classes_) == 2 else np.zeros(len(scores))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        predicted: NDArray[Any] = self.classes_[self.winners(self.scores(X))]
        return predicted

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """The place of the class that scores, (rows, pairs), speak for."""
        if len(self.classes_) > 2:
            return self._ballot.winners(scores)
        # A single class has nothing to be told apart from.
        return (scores[:, 0] > 0).astype(np.intp) if len(self.classes_) == 2 else np.zeros(len(scores), np.intp)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), if scores of training rows are normal within each class.

        A score of zero is where both classes of a pair are as likely. Training rows are scored better than others, the
        more so the larger C is: where probabilities matter, calibrate them on rows kept back (:meth:`calibrated`).
        """
        return self.shares(self.scores(X))

    def shares(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probabilities, (rows, classes), that follow from scores, (rows, pairs)."""
        if self.calibration_ is not None:
            return self.calibration_.shares(scores if len(self.classes_) == 2 else self._ballot.decide(scores))
        if len(self.classes_) > 2:
            return self._ballot.couple(scores)
        if len(self.classes_) < 2:
            return np.ones((len(scores), 1))
        positive = expit(self._moments.log_odds(scores))
        return np.hstack([1 - positive, positive])

    def to_onnx(self, path: str | os.PathLike[str]) -> NoReturn:
        """Raise the error that a kernel model cannot be written for ONNX, and say what can be."""
        raise FormError(
            f"{self!r} cannot be written to {path}: for ONNX there are models of planes only, those of MergeSVC, "
            f"RecursiveSVC and PegasosSVC. MergeSVC(features='nystroem') or 'fourier' comes close to the kernel 'rbf'."
        )

    def __repr__(self) -> str:
        size = f"{counted(len(self.classes_), 'class', 'classes')} x {counted(self.signature.inputs, 'feature')}"
        return f"KernelModel of {size}, {counted(self.support_vectors_.shape[0], 'support vector')}"
