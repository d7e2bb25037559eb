"""One plane a class, or one plane for two classes: the highest score wins."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from mergesvm.models.model import Domain
from mergesvm.models.planes import Planes
from mergesvm.solvers import ClassMoments, SideMoments, Solution


class LinearModel(Planes):
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
        scores = self.scores(X)
        if len(self.classes_) > 2:
            winners = scores.argmax(axis=1)
        else:
            # A single class has nothing to be told apart from.
            winners = (scores[:, 0] > 0).astype(np.intp) if len(self.classes_) == 2 else np.zeros(len(scores), np.intp)
        predicted: NDArray[Any] = self.classes_[winners]
        return predicted

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), if scores are normal within each class.

        Means and variances come from the sums, with no second look at the data. For two classes the probability follows
        the true frequencies of the classes: where they are unbalanced or weighted, 1/2 need not be at score 0. For more
        it is softmax(t scores), with the one t that suits the distribution of the scores best.
        """
        assert self._moments is not None, "models that are shown know how their scores are distributed"
        scores = self.scores(X)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if isinstance(self._moments, ClassMoments):
            shares: NDArray[np.float64] = softmax(self._moments.temperature * scores, axis=1)
            return shares
        positive = expit(self._moments.log_odds(scores))
        return np.hstack([1 - positive, positive])

    def __repr__(self) -> str:
        return f"LinearModel of {self._size()}"
