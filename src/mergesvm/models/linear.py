"""One plane a class, or one plane for two classes: the highest score wins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from mergesvm.errors import FormError, ParameterError
from mergesvm.models.base import Domain
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.score_moments import ClassMoments, SideMoments
from mergesvm.models.solution import Solution


class LinearModel(Hyperplanes):
    """One-vs-rest: the class with the highest score; for two classes the sign of the one score.

    Examples
    --------
    >>> import mergesvm as ms
    >>> model = ms.solve(ms.learn([[0.0], [1.0], [2.0], [3.0]], ["low", "low", "high", "high"]))
    >>> model.predict([[0.2], [2.9]])
    array(['low', 'high'], dtype='<U4')
    >>> model.decision_function([[0.2], [2.9]]).shape
    (2,)
    """

    def __init__(self, domain: Domain, solution: Solution, moments: SideMoments | ClassMoments | None) -> None:
        super().__init__(domain, solution)
        self._moments = moments

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (rows, classes); for two classes or one (rows,), positive for the last class."""
        scores = self.scores(X)
        return scores if len(self.classes_) > 2 else scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        predicted: NDArray[Any] = self.classes_[self.winners(self.scores(X))]
        return predicted

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """The place of the class that scores, (rows, problems), speak for."""
        if len(self.classes_) > 2:
            best: NDArray[np.intp] = scores.argmax(axis=1)
            return best
        # A single class has nothing to be told apart from.
        return (scores[:, 0] > 0).astype(np.intp) if len(self.classes_) == 2 else np.zeros(len(scores), np.intp)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), if scores are normal within each class.

        Means and variances come from the sums, with no second look at the data. For two classes the probability follows
        the true frequencies of the classes: where they are unbalanced or weighted, 1/2 need not be at score 0. For more
        it is softmax(t scores), with the one t that suits the distribution of the scores best.
        """
        return self.shares(self.scores(X))

    def shares(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probabilities, (rows, classes), that follow from scores, (rows, problems)."""
        if self.calibration_ is not None:
            return self.calibration_.shares(scores)
        assert self._moments is not None, "models that are shown know how their scores are distributed"
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if isinstance(self._moments, ClassMoments):
            shares: NDArray[np.float64] = softmax(self._moments.temperature * scores, axis=1)
            return shares
        positive = expit(self._moments.log_odds(scores))
        return np.hstack([1 - positive, positive])

    def at(self, threshold: float) -> LinearModel:
        """The model of two classes that predicts the second above this score, with the same probabilities.

        Its scores are less by the threshold, so that their sign decides again; another threshold counts from there.

        >>> import mergesvm as ms
        >>> model = ms.solve(ms.learn([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]))
        >>> model.predict([[1.8]]), model.at(0.5).predict([[1.8]])
        (array(['b'], dtype='<U1'), array(['a'], dtype='<U1'))
        """
        if len(self.labels) != 2:
            raise FormError(
                f"A threshold is between two classes, and the model has {len(self.labels)}. Join the others first, "
                f"and solve again: knowledge.join."
            )
        if not isinstance(threshold, (int, float, np.integer, np.floating)) or not np.isfinite(threshold):
            raise ParameterError(f"A threshold has to be a finite number, not {threshold!r}.")
        moments = self._moments
        if moments is not None:
            moments = replace(moments, means=moments.means - threshold)
        solution = Solution(self.coef_, self._offsets - threshold, (self.solver_,))
        shifted = LinearModel(self.domain, solution, moments)
        shifted.calibration_ = None if self.calibration_ is None else self.calibration_.shifted(float(threshold))
        return shifted

    def __repr__(self) -> str:
        return f"LinearModel of {self._size()}"
