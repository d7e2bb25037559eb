"""One-vs-rest models: one hyperplane per class, or a single one for two classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from mergesvm.errors import FormError, ParameterError
from mergesvm.models.domain import Domain
from mergesvm.models.formats.fields import moment_arrays
from mergesvm.models.formats.native import ModelContent
from mergesvm.models.formats.onnx import Steps, linear_steps
from mergesvm.models.hyperplanes import Hyperplanes
from mergesvm.models.score_moments import ClassMoments, SideMoments
from mergesvm.models.solution import Solution
from mergesvm.multiclass.votes import is_second


class LinearModel(Hyperplanes):
    """One-vs-rest: predicts the class with the highest score; for two classes, the sign of the single score.

    A score of exactly 0 counts as positive, and of equal highest scores the first wins.

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
        self.moments = moments

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (rows, classes); for one or two classes (rows,), at least 0 for the last class."""
        scores = self.scores(X)
        return scores if len(self.classes_) > 2 else scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row."""
        predicted: NDArray[Any] = self.classes_[self.winners(self.scores(X))]
        return predicted

    def winners(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Index of the predicted class, (rows,), from scores (rows, problems)."""
        if len(self.classes_) > 2:
            best: NDArray[np.intp] = scores.argmax(axis=1)
            return best
        # A single class is always predicted.
        return is_second(scores[:, 0]).astype(np.intp) if len(self.classes_) == 2 else np.zeros(len(scores), np.intp)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), assuming scores that are normal within each class.

        Means and variances come from the sums, without reading the data again. For two classes the probability follows
        the true class frequencies: if these are unbalanced or weighted, a probability of 1/2 need not be at score 0.
        For more classes it is softmax(t scores), with the t that fits the distribution of the scores best.
        """
        return self.probabilities(self.scores(X))

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from scores (rows, problems)."""
        if self.calibration_ is not None:
            return self.calibration_.probabilities(scores)
        assert self.moments is not None, "probabilities need the moments of the scores"
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if isinstance(self.moments, ClassMoments):
            probabilities: NDArray[np.float64] = softmax(self.moments.temperature * scores, axis=1)
            return probabilities
        positive = expit(self.moments.log_odds(scores))
        return np.hstack([1 - positive, positive])

    def with_threshold(self, threshold: float) -> LinearModel:
        """Copy of a two-class model that predicts the second class from this score on; probabilities stay the same.

        The threshold is subtracted from the scores, so that their sign decides again. A second threshold is relative to
        the first.

        >>> import mergesvm as ms
        >>> model = ms.solve(ms.learn([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]))
        >>> model.predict([[1.8]]), model.with_threshold(0.5).predict([[1.8]])
        (array(['b'], dtype='<U1'), array(['a'], dtype='<U1'))
        """
        if len(self.labels) != 2:
            raise FormError(
                f"A threshold needs a model of two classes, and this one has {len(self.labels)}. Merge classes with "
                f"knowledge.join and solve again."
            )
        if not isinstance(threshold, (int, float, np.integer, np.floating)) or not np.isfinite(threshold):
            raise ParameterError(f"threshold must be a finite number, not {threshold!r}.")
        moments = self.moments
        if moments is not None:
            moments = replace(moments, means=moments.means - threshold)
        solution = Solution(self.coef_, self.offsets_ - threshold, (self.solver_,), self._solution.errors)
        shifted = LinearModel(self.domain, solution, moments)
        shifted.calibration_ = None if self.calibration_ is None else self.calibration_.shifted(float(threshold))
        return shifted

    def _content(self) -> ModelContent:
        arrays = {"coefs": self.coef_, "offsets": self.offsets_, **moment_arrays(self.moments)}
        return ModelContent("linear", self.solver_, None, arrays, self._fields())

    def _onnx_steps(self) -> Steps:
        return linear_steps(len(self.classes_), self.moments, self.calibration_)

    def __repr__(self) -> str:
        return f"LinearModel of {self._size()}"
