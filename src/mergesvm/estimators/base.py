"""Base classes of the estimators: parameter validation, and prediction by a model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from numbers import Integral, Real
from operator import is_
from threading import RLock
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.labels import Label
from mergesvm.engines.base import Engine
from mergesvm.errors import ParameterError
from mergesvm.estimators.classes import (
    LabelType,
    all_labels,
    class_array,
    decoded_labels,
    probabilities_with_unseen,
    scores_with_unseen,
)
from mergesvm.estimators.inputs import restore_input_on_failure, rows_to_predict, seed_of
from mergesvm.features.base import FeatureMap
from mergesvm.features.spec import as_map
from mergesvm.methods.proximal.options import MAX_C, MIN_C
from mergesvm.models.base import Model
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel
from mergesvm.models.voting import raise_winners
from mergesvm.multiclass.schemes import CLASS_WEIGHT_SCHEMES, MULTICLASS_SCHEMES, TIE_RULES


class Number(Interval):
    """An interval that excludes booleans, which ``Interval`` accepts as 0 and 1.

    >>> whole = Number(Integral, 1, None, closed="left")
    >>> whole.is_satisfied_by(3), whole.is_satisfied_by(True)
    (True, False)
    """

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether the value is a number within the interval."""
        return not isinstance(val, (bool, np.bool_)) and bool(super().is_satisfied_by(val))


POSITIVE_INTEGER = Number(Integral, 1, None, closed="left")
POSITIVE_NUMBER = Number(Real, 0, None, closed="neither")

SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "C": [Number(Real, MIN_C, MAX_C, closed="both")],
    "class_weight": [StrOptions(set(CLASS_WEIGHT_SCHEMES)), Mapping, None],
    "multiclass": [StrOptions(set(MULTICLASS_SCHEMES))],
    "ties": [StrOptions(set(TIE_RULES))],
    "standardize": ["boolean"],
    "penalize_intercept": ["boolean"],
    "fit_intercept": ["boolean"],
    "per_class": ["boolean"],
    "features": [FeatureMap, str, None],
    "n_features": [POSITIVE_NUMBER, None],  # the map "pca" takes a fraction of the variance
    "random_state": [Number(Integral, 0, None, closed="left"), np.random.RandomState, None],
    "precision": [StrOptions({"float32", "float64"}), None],
    "engine": [Engine, None],
    "n_jobs": [POSITIVE_INTEGER, Number(Integral, None, -1, closed="right"), None],
}
"""Constraints of the parameters that mean the same in every estimator."""

NOT_PICKLED = ("_lock", "_valid_parameters")


@cache
def _parameter_names(kind: type[BaseEstimator]) -> list[str]:
    names: list[str] = kind._get_param_names()
    return names


class BaseClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that validates its parameters and predicts with its ``model_``.

    Subclasses declare ``_parameter_constraints`` as scikit-learn does, and wrap ``fit``, ``partial_fit`` and everything
    else that learns in :meth:`_fitting`: one thread at a time learns. Prediction takes no lock. Therefore a subclass
    keeps its result in one attribute, and replaces it as a whole.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS

    _result_attribute: ClassVar[str]
    """The attribute that a fitted estimator has."""

    _label_type: LabelType = LabelType()
    _declared: tuple[Label, ...] = ()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._result_attribute)

    @property
    def _fitted(self) -> Self:
        """The estimator itself; raises an error if it is not fitted."""
        check_is_fitted(self)
        return self

    @property
    @abstractmethod
    def model_(self) -> Model:
        """The fitted model."""

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Lock out other threads that learn, and validate the parameters.

        On failure, restore what is kept of the input, such as ``n_features_in_``.
        """
        with self._learning_lock:
            self._validate_params()
            with restore_input_on_failure(self):
                yield

    @property
    def _learning_lock(self) -> RLock:
        # Made when it is first used, because constructors only store parameters; setdefault is atomic.
        lock: RLock = self.__dict__.get("_lock") or self.__dict__.setdefault("_lock", RLock())
        return lock

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in NOT_PICKLED}

    def _validate_params(self) -> None:
        """Check the parameters against their constraints; errors are raised as ``ParameterError``.

        Streams call this for every few rows, so that parameters that were valid before are not checked again.
        """
        kind: Any = type(self)
        values = [getattr(self, name) for name in _parameter_names(kind)]
        valid = self.__dict__.get("_valid_parameters", ())
        if len(valid) == len(values) and all(map(is_, values, valid)):
            return
        try:
            super()._validate_params()
        except InvalidParameterError as error:
            raise ParameterError(str(error)) from None
        self._valid_parameters = values

    def _scoring_model(self) -> Model:
        """The model without the parts that only probabilities need."""
        return self.model_

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the class of each row, among the classes that were seen."""
        rows = rows_to_predict(self, X)
        return self._label_type.restored(self._scoring_model().predict(rows))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (rows, classes); for two classes (rows,), positive for the second.

        A class that was declared in ``partial_fit``, and has no rows yet, has the lowest score.
        """
        rows = rows_to_predict(self, X)
        model = self._scoring_model()
        return scores_with_unseen(model.decision_function(rows), model.labels, self._declared)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, (rows, classes), from the normal distribution of the scores in each class.

        The predicted class has the highest probability, unless probabilities were calibrated on held-out rows. Of two
        unbalanced or weighted classes, it is raised just above 1/2 where ``model_.predict_proba`` is lower.
        """
        rows = rows_to_predict(self, X)
        model = self.model_
        if len(model.labels) == 2 and model.calibration_ is None:
            scores = model.scores(rows)
            probabilities = raise_winners(model.probabilities(scores), model.winners(scores))
        else:
            probabilities = model.predict_proba(rows)
        return probabilities_with_unseen(probabilities, model.labels, self._declared)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of the probability of each class, (rows, classes)."""
        with np.errstate(divide="ignore"):  # a probability of 0 is -inf
            logarithms: NDArray[np.float64] = np.log(self.predict_proba(X))
        return logarithms

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy: the fraction of rows, or of their weight, whose class is predicted correctly."""
        # scikit-learn's metrics refuse bytes.
        truth, predicted = (decoded_labels(labels) for labels in (y, self.predict(X)))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def _seen_labels(self) -> tuple[Label, ...]:
        """The classes with rows, sorted."""
        return self.model_.labels

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes with rows, and those declared in ``partial_fit``, sorted."""
        return class_array(all_labels(self._fitted._seen_labels(), self._declared), self._label_type)

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
        seed = seed_of(self.random_state) if isinstance(self.features, str) else self.random_state
        return as_map(self.features, self.n_features, seed)

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
