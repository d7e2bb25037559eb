"""RecursiveSVC: recursive least squares with the scikit-learn API, and methods for streams."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.scan import Scan
from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.estimators.base import POSITIVE_INTEGER, LinearClassifier, Number
from mergesvm.estimators.inputs import declare_classes, keep_columns_of_scan, rows_to_learn, set_input_columns
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.checks import Check
from mergesvm.methods.recursive.live import LiveModel
from mergesvm.methods.recursive.options import RecursiveOptions, balanced_weights
from mergesvm.models.linear import LinearModel
from mergesvm.multiclass.class_weights import given_weights


class RecursiveSVC(LinearClassifier):
    """Proximal support vector classifier for streams: its coefficients are exact after every row.

    It updates the inverse of the normal equations and the coefficients by the matrix inversion lemma: a row costs
    O(features^2), however many came before. The model is that of :class:`MergeSVC` on the same rows, one-vs-rest.

    Parameters
    ----------
    C : float
        Weight of the errors relative to the penalty on the coefficients: C/2 times the squared errors. The paper on
        incremental least squares omits the half and leaves the intercept free: its C corresponds to
        ``RecursiveSVC(C=2 * C, penalize_intercept=False)``.
    class_weight : mapping of class to weight, "balanced" or None
        Classes that are not in the mapping have weight 1. "balanced" is n / (n_classes n_c) for the rows of
        :meth:`fit`, and is not updated afterwards.
    penalize_intercept : bool
        False leaves the intercept free, as in the paper.
    fit_intercept : bool
        Whether there is an intercept. Without one, scores are ``X @ coef_.T``.
    forgetting : float
        Forgetting factor: every new row multiplies the weight of all earlier rows by it; 1 for no forgetting.
    window : int, optional
        Number of most recent rows that the model is fitted to. They are kept in memory, and removed exactly.
    check_every : int
        Number of rows after which the coefficients are replaced by those of a fresh factorisation; the first checks
        come earlier.
    per_class : bool
        False keeps one pooled matrix instead of one per class for :meth:`to_knowledge`; see :class:`MergeSVC`.
    features : {"hidden", "fourier", "nystroem", "patches", "pca"}, FeatureMap or None
        Feature map for a model that is not linear; see :class:`MergeSVC`. :meth:`learn_one` needs a frozen map.
    n_features : int, optional
        Size of a map given by name.
    random_state : int, RandomState or None
        Seed of a map given by name.

    Attributes
    ----------
    live_ : LiveModel
        The model that is updated with every row.
    model_ : LinearModel
        The current model, which can be saved.
    classes_, coef_, intercept_ : arrays
    checks_ : list of Check
        The last 1,000 comparisons of the coefficients with a fresh factorisation.
    drift_ : float
        The largest drift of these checks, relative to the largest coefficient.
    features_ : FeatureMap
    n_features_in_ : int
    feature_names_in_ : array of str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mergesvm import MergeSVC, RecursiveSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> live = RecursiveSVC(C=10)
    >>> for row, label in zip(X, y):
    ...     _ = live.learn_one(row, label)
    >>> abs(live.coef_ - MergeSVC(C=10).fit(X, y).coef_).max() < 1e-8
    np.True_
    >>> live.predict_one(X[0])
    0
    >>> abs(live.forget(X[:50], y[:50]).coef_ - MergeSVC(C=10).fit(X[50:], y[50:]).coef_).max() < 1e-8
    np.True_
    """

    _result_attribute = "live_"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), Mapping, None],
        "fit_intercept": ["boolean"],
        "forgetting": [Number(Real, 0, 1, closed="right")],
        "window": [POSITIVE_INTEGER, None],
        "check_every": [POSITIVE_INTEGER],
    }

    live_: LiveModel

    def __init__(
        self,
        C: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        *,
        penalize_intercept: bool = True,
        fit_intercept: bool = True,
        forgetting: float = 1.0,
        window: int | None = None,
        check_every: int = 10_000,
        per_class: bool = True,
        features: FeatureMap | str | None = None,
        n_features: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C, self.class_weight = C, class_weight
        self.penalize_intercept, self.fit_intercept = penalize_intercept, fit_intercept
        self.forgetting, self.window = forgetting, window
        self.check_every = check_every
        self.per_class = per_class
        self.features, self.n_features, self.random_state = features, n_features, random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows, discarding earlier ones: arrays, tables or a scan."""
        with self._fitting():
            if isinstance(X, Scan):
                return self._learn_scan(X, y, sample_weight, None, None)
            rows, labels = rows_to_learn(self, X, y, reset=True)
            batch = Batch.of(rows, labels, sample_weight)
            if not batch.labels.classes:
                raise DataError("There is nothing to learn: all rows have weight zero.")
            weights = self.class_weight
            if isinstance(weights, str):
                weights = balanced_weights(batch)
            elif weights is not None:
                given_weights(weights, batch.labels.classes)  # raises an error for a misspelt class
            live = self._new_live(rows.layout, self._frozen_map(rows, labels), weights)
            live.learn(batch)
            self.live_ = live
            return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows, or from a scan.

        ``classes``, if given, declares all classes, as in ``SGDClassifier``: those without rows yet have a column in
        ``decision_function`` and ``predict_proba``, and are never predicted. Without it, new classes are added when
        they occur.

        Changed parameters take effect with the next :meth:`fit`. If a scan fails, its earlier batches stay learned. Few
        rows are learned one by one, more by the Woodbury identity or, if that is cheaper, by a fresh factorisation when
        coefficients are next used.
        """
        with self._fitting():
            live = getattr(self, "live_", None)
            if isinstance(X, Scan):
                return self._learn_scan(X, y, sample_weight, live, classes)
            rows, labels = rows_to_learn(self, X, y, reset=live is None)
            batch = Batch.of(rows, labels, sample_weight)
            declare_classes(self, batch.labels.classes, classes)
            if live is None:
                live = self._new_live(rows.layout, self._frozen_map(rows, labels), self.class_weight)
            live.learn(batch)
            self.live_ = live
            return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Self:
        """Learn one row: a sequence of numbers, or a dict of feature name to number.

        >>> from mergesvm import RecursiveSVC
        >>> live = RecursiveSVC().learn_one({"size": 1.0, "age": 3.0}, "old")
        >>> _ = live.learn_one({"age": 1.0, "size": 2.0}, "new")
        >>> live.predict_one({"size": 1.0, "age": 3.0})
        'old'
        """
        live = getattr(self, "live_", None)
        if self._declared:
            declare_classes(self, (y,), None)
        if live is not None:
            live.learn_one(x if type(x) in PLAIN_TYPES else _plain_row(x), y, weight)
            return self
        with self._fitting():
            if hasattr(self, "live_"):  # by now another thread has learned a row
                return self.learn_one(x, y, weight)
            x = _plain_row(x)
            names = tuple(x) if isinstance(x, Mapping) else None
            set_input_columns(self, Layout(len(x), names))
            mapping = self._feature_map()
            if not mapping.frozen:
                raise FeatureMapError(
                    f"{mapping!r} is not frozen, and one row is not enough to freeze it. Call map.freeze(X) first."
                )
            live = self._new_live(Layout(len(x), names), mapping, self.class_weight)
            live.learn_one(x, y, weight)
            self.live_ = live
        return self

    def predict_one(self, x: Any) -> Label | None:
        """Predict the class of one row; None if nothing has been learned yet."""
        live = getattr(self, "live_", None)
        return None if live is None else live.predict_one(x if type(x) in PLAIN_TYPES else _plain_row(x))

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remove rows that were learned before, exactly: the model is as if they had never been learned."""
        check_is_fitted(self)
        with self._fitting():
            rows, labels = rows_to_learn(self, X, y, reset=False)
            self.live_.forget(Batch.of(rows, labels, sample_weight))
        return self

    def to_knowledge(self) -> Knowledge:
        """Knowledge of all rows, or of those in the window, which can be merged, saved and solved.

        >>> from mergesvm import MergeSVC, RecursiveSVC
        >>> live = RecursiveSVC().fit([[0.0], [1.0]], ["a", "b"])
        >>> MergeSVC().merge(live.to_knowledge()).predict([[0.9]])
        array(['b'], dtype='<U1')
        """
        return self._fitted.live_.knowledge()

    @classmethod
    def from_knowledge(cls, knowledge: Knowledge, **parameters: Any) -> Self:
        """Create an estimator that continues from knowledge.

        >>> import mergesvm as ms
        >>> live = ms.RecursiveSVC.from_knowledge(ms.learn([[0.0], [1.0]], ["a", "b"]), C=10.0)
        >>> live.learn_one([0.1], "a").predict_one([0.9])
        'b'
        """
        if not isinstance(knowledge, Knowledge):
            raise TypeError(f"from_knowledge needs Knowledge, not {type(knowledge).__name__}.")
        features = knowledge.features if knowledge.signature.mapped else None
        known = {"features": features, "per_class": knowledge.per_class}
        for name in known.keys() & parameters.keys():
            if parameters[name] != known[name]:
                raise ParameterError(
                    f"{name} is {known[name]!r} in this knowledge and cannot be changed to {parameters[name]!r}."
                )
        self = cls(**known | parameters)
        self._validate_params()
        set_input_columns(self, knowledge.layout)
        self.live_ = LiveModel.of(knowledge, self._options(self.class_weight))
        return self

    @property
    def model_(self) -> LinearModel:
        """The current model."""
        return self._fitted.live_.model()

    @property
    def features_(self) -> FeatureMap:
        """The frozen feature map; the identity for a linear model."""
        return self._fitted.live_.signature.features

    def _seen_labels(self) -> tuple[Label, ...]:
        return tuple(self.live_.classes.tolist())

    @property
    def checks_(self) -> list[Check]:
        """The last 1,000 checks against a fresh factorisation."""
        return list(self._fitted.live_.checks)

    @property
    def drift_(self) -> float:
        """The largest drift of these checks, relative to the largest coefficient."""
        return max((check.drift for check in self.checks_), default=0.0)

    def __copy__(self) -> Self:
        """A copy that learns by itself: the live model is copied too."""
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        if "live_" in self.__dict__:
            copied.live_ = deepcopy(self.live_)
        return copied

    def _scoring_model(self) -> LinearModel:
        return self._fitted.live_.model(probabilities=False)

    def _options(self, class_weight: Any) -> RecursiveOptions:
        penalized, fitted = bool(self.penalize_intercept), bool(self.fit_intercept)
        fading = self.forgetting, self.window, self.check_every
        return RecursiveOptions(self.C, class_weight, penalized, *fading, fitted)

    def _new_live(self, layout: Layout, mapping: FeatureMap, class_weight: Any) -> LiveModel:
        signature = Signature(mapping, layout.width, layout.names, layout.categories, bool(self.per_class))
        return LiveModel(signature, self._options(class_weight))

    def _frozen_map(self, rows: Any, labels: Any) -> FeatureMap:
        mapping = self._feature_map()
        return mapping if isinstance(mapping, Identity) else mapping.freeze(rows, labels)

    def _learn_scan(self, scan: Scan, y: Any, sample_weight: Any, live: LiveModel | None, classes: Any) -> Self:
        keep_columns_of_scan(self, scan, y, sample_weight, live is None)
        declare_classes(self, (), classes)
        if live is None:
            mapping = self._feature_map()
            live = self._new_live(scan.layout, mapping.freeze(scan), self.class_weight)
        elif scan.layout != live.signature.layout:
            raise DataError("The columns differ from those learned before. Scan with like=estimator.to_knowledge().")
        for batch in live.batches(scan):
            declare_classes(self, batch.labels.classes, None)
            live.learn(batch)
        self.live_ = live
        return self


PLAIN_TYPES = (dict, list, tuple, np.ndarray)
"""Types of rows that need no conversion."""


def _plain_row(x: Any) -> Any:
    """Convert one row into a mapping or a sequence; a pandas Series becomes a mapping."""
    if hasattr(x, "to_dict"):
        x = x.to_dict()
    if isinstance(x, (str, bytes)) or not hasattr(x, "__len__") or not len(x):
        raise DataError(f"A row must be a sequence of numbers or a mapping of names to numbers, not {x!r:.200}.")
    return x
