"""What all faces have in common: they predict by a model."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from mergesvm.estimators.inputs import rows_to_predict
from mergesvm.features.base import FeatureMap
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel


class BaseClassifier(ClassifierMixin, BaseEstimator):
    """A classifier with scikit-learn's manners, whose predictions are those of its ``model_``."""

    @property
    @abstractmethod
    def model_(self) -> LinearModel | PairwiseModel:
        """What predicts."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        rows = rows_to_predict(self, X)
        return self._planes().predict(rows)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (rows, classes); for two classes (rows,), positive for the second."""
        rows = rows_to_predict(self, X)
        return self._planes().decision_function(rows)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from the normal distribution of the scores in each class."""
        rows = rows_to_predict(self, X)
        return self.model_.predict_proba(rows)

    def _planes(self) -> LinearModel | PairwiseModel:
        """The model, or as much of it as scores need."""
        return self.model_

    @property
    def features_(self) -> FeatureMap:
        """The frozen map by which rows become features; the identity for a linear model."""
        return self.model_.signature.features

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes known, sorted."""
        return self.model_.classes_

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients, (problems, features)."""
        return self._planes().coef_

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, (problems,)."""
        return self._planes().intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
