"""Base classes of the estimators: parameter validation, and prediction by a model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import InvalidParameterError

from mergesvm.errors import ParameterError
from mergesvm.estimators.constraints import SHARED_CONSTRAINTS
from mergesvm.estimators.inputs import map_of, restore_input_on_failure, rows_to_predict
from mergesvm.features.base import FeatureMap
from mergesvm.models.base import Model
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel


class BaseClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that validates its parameters and predicts with its ``model_``.

    Subclasses declare ``_parameter_constraints`` as scikit-learn does, and wrap ``fit``, ``partial_fit`` and everything
    else that learns in :meth:`_fitting`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS

    @property
    @abstractmethod
    def model_(self) -> Model:
        """The fitted model."""

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Validate the parameters; on failure, restore ``n_features_in_`` and ``feature_names_in_``."""
        self._validate_params()
        with restore_input_on_failure(self):
            yield

    def _validate_params(self) -> None:
        """Check the parameters against their constraints.

        Raises
        ------
        ParameterError
            Names the parameter, the value, and what is allowed.
        """
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from None

    def _scoring_model(self) -> Model:
        """The model without the parts that only probabilities need."""
        return self.model_

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row."""
        rows = rows_to_predict(self, X)
        return self._scoring_model().predict(rows)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (rows, classes); for two classes (rows,), positive for the second."""
        rows = rows_to_predict(self, X)
        return self._scoring_model().decision_function(rows)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from the normal distribution of the scores in each class."""
        rows = rows_to_predict(self, X)
        return self.model_.predict_proba(rows)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, sorted."""
        return self.model_.classes_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LinearClassifier(BaseClassifier):
    """A classifier whose model is linear in its features."""

    features: FeatureMap | str | None
    n_features: int | None
    random_state: Any

    @property
    @abstractmethod
    def model_(self) -> LinearModel | PairwiseModel:
        """The fitted model."""

    def _scoring_model(self) -> LinearModel | PairwiseModel:
        return self.model_

    def _feature_map(self) -> FeatureMap:
        """The map that the parameters ``features``, ``n_features`` and ``random_state`` describe."""
        return map_of(self.features, self.n_features, self.random_state)

    @property
    def features_(self) -> FeatureMap:
        """The frozen feature map; the identity for a linear model."""
        return self.model_.signature.features

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Coefficients, (problems, features)."""
        return self._scoring_model().coef_

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Intercepts, (problems,)."""
        return self._scoring_model().intercept_
