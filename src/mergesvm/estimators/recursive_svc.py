"""RecursiveSVC: recursive least squares with scikit-learn's manners, and those of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.readers.base import Layout
from mergesvm.data.scan import Scan
from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.estimators.base import LinearClassifier
from mergesvm.estimators.constraints import POSITIVE_INTEGER
from mergesvm.estimators.inputs import check_classes, rows_to_learn
from mergesvm.features.base import FeatureMap
from mergesvm.features.maps.identity import Identity
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.recursive.checks import Check
from mergesvm.methods.recursive.live import LiveModel
from mergesvm.methods.recursive.options import RecursiveOptions
from mergesvm.models.linear import LinearModel
from mergesvm.multiclass.class_weights import given_weights


class RecursiveSVC(LinearClassifier):
    """A proximal support vector machine that follows a stream: its coefficients are exact after every row.

    It keeps the inverse of the system and the coefficients, and changes both by the matrix inversion lemma: one row
    costs O(features^2), whatever came before. The model is that of :class:`MergeSVC` on the same rows, one-vs-rest.

    Parameters
    ----------
    C : float
        Weight of the errors against that of the coefficients: C/2 times the squared errors. The paper of incremental
        least squares writes C without the half and leaves the intercept free: its C is ``RecursiveSVC(C=2 * C,
        penalize_intercept=False)``.
    class_weight : mapping of class to weight, "balanced" or None
        A class that is not in the mapping weighs 1. "balanced" is n / (classes n_c) over the rows of :meth:`fit`, and
        stays so afterwards; a stream has no counts to begin with.
    penalize_intercept : bool
        False leaves the intercept free, as the paper does.
    forgetting : float
        By what factor every row weighs less when the next one comes; 1 to forget nothing.
    window : int, optional
        So many rows count, the last ones; each is taken back exactly when it leaves. They are held in memory.
    check_every : int
        After so many rows the coefficients are compared with a fresh factorisation, and repaired; more often in the
        beginning.
    per_class : bool
        False keeps one pooled matrix instead of one a class in :meth:`to_knowledge`: less memory, fewer choices there.
    features : {"hidden", "fourier", "nystroem", "patches", "pca"}, FeatureMap or None
        What rows are mapped by before they are learned; see :class:`MergeSVC`. For :meth:`learn_one` it has to be
        frozen: one row is no sample.
    n_features : int, optional
        Size of a map that is given by name.
    random_state : int, RandomState or None
        Seed of a map that is given by name.

    Attributes
    ----------
    live_ : LiveModel
        What follows the rows.
    model_ : LinearModel
        The model of this moment, which predicts, and can be saved.
    classes_, coef_, intercept_ : arrays
    checks_ : list of Check
        After how many rows the coefficients were compared with a fresh factorisation, and how far they had drifted.
    drift_ : float
        The largest drift of all checks, as a share of the largest coefficient.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), Mapping, None],
        "forgetting": [Interval(Real, 0, 1, closed="right")],
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
        forgetting: float = 1.0,
        window: int | None = None,
        check_every: int = 10_000,
        per_class: bool = True,
        features: FeatureMap | str | None = None,
        n_features: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.class_weight = class_weight
        self.penalize_intercept = penalize_intercept
        self.forgetting = forgetting
        self.window = window
        self.check_every = check_every
        self.per_class = per_class
        self.features = features
        self.n_features = n_features
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows alone: arrays, tables or a scan."""
        with self._fitting():
            if isinstance(X, Scan):
                return self._follow(X, y, sample_weight, None)
            rows, labels = rows_to_learn(self, X, y, reset=True)
            batch = Batch.of(rows, labels, sample_weight)
            if not batch.labels.classes:
                raise DataError("There is nothing to learn: all rows are of weight zero.")
            weights = self.class_weight
            if isinstance(weights, str) and weights == "balanced":
                counts = np.bincount(batch.labels.codes + 1, batch.weights)[1:]
                shares = counts.sum() / (len(counts) * counts)
                weights = dict(zip(batch.labels.classes, shares.tolist(), strict=True))
            if isinstance(weights, Mapping):
                given_weights(weights, batch.labels.classes)  # an error for a slip of the pen
            live = self._begin(Layout(rows.width, rows.names), self._frozen_map(rows, labels), weights)
            live.learn(batch)
            self.live_ = live
            return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows, or from a scan. Classes are discovered as they come, among ``classes`` if given.

        Parameters that were changed since wait for :meth:`fit`. Of a scan that fails, the slices before stay learned.
        A few rows are learned one by one, a block of them by the formula of Woodbury or, where that is cheaper, by a
        fresh factorisation when coefficients are next asked for.
        """
        live = getattr(self, "live_", None)
        with self._fitting():
            if isinstance(X, Scan):
                return self._follow(X, y, sample_weight, live)
            rows, labels = rows_to_learn(self, X, y, reset=live is None)
            batch = Batch.of(rows, labels, sample_weight)
            check_classes(batch.labels.classes, classes)
            if live is None:
                live = self._begin(Layout(rows.width, rows.names), self._frozen_map(rows, labels), self.class_weight)
            live.learn(batch)
            self.live_ = live
            return self

    def learn_one(self, x: Any, y: Any, weight: float = 1.0) -> Self:
        """Learn one row: a sequence of numbers, or a dict of name to number, as streams give it.

        >>> from mergesvm import RecursiveSVC
        >>> live = RecursiveSVC().learn_one({"size": 1.0, "age": 3.0}, "old")
        >>> _ = live.learn_one({"age": 1.0, "size": 2.0}, "new")
        >>> live.predict_one({"size": 1.0, "age": 3.0})
        'old'
        """
        live = getattr(self, "live_", None)
        if live is not None:
            live.learn_one(x if type(x) in PLAIN else _plain(x), y, weight)
            return self
        with self._fitting():
            x = _plain(x)
            names = tuple(x) if isinstance(x, Mapping) else None
            self.n_features_in_ = len(x)
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            mapping = self._feature_map()
            if not mapping.frozen:
                raise FeatureMapError(
                    f"{mapping!r} is not frozen, and one row is no sample to freeze it on. Freeze it first: "
                    f"map.freeze(X)."
                )
            live = self._begin(Layout(len(x), names), mapping, self.class_weight)
            live.learn_one(x, y, weight)
            self.live_ = live
        return self

    def predict_one(self, x: Any) -> Label | None:
        """The class of one row; None if nothing has been learned yet."""
        live = getattr(self, "live_", None)
        return None if live is None else live.predict_one(x if type(x) in PLAIN else _plain(x))

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows back that were learned before, exactly: the model becomes the one that never saw them."""
        check_is_fitted(self)
        rows, labels = rows_to_learn(self, X, y, reset=False)
        self.live_.forget(Batch.of(rows, labels, sample_weight))
        return self

    def to_knowledge(self) -> Knowledge:
        """The knowledge of all rows that count, which can be merged, saved, and solved on other terms.

        >>> from mergesvm import MergeSVC, RecursiveSVC
        >>> live = RecursiveSVC().fit([[0.0], [1.0]], ["a", "b"])
        >>> MergeSVC().merge(live.to_knowledge()).predict([[0.9]])
        array(['b'], dtype='<U1')
        """
        check_is_fitted(self)
        return self.live_.knowledge()

    @classmethod
    def from_knowledge(cls, knowledge: Knowledge, **parameters: Any) -> Self:
        """A live model that goes on from knowledge: what was learned, and merged, anywhere.

        >>> import mergesvm as ms
        >>> live = ms.RecursiveSVC.from_knowledge(ms.learn([[0.0], [1.0]], ["a", "b"]), C=10.0)
        >>> live.learn_one([0.1], "a").predict_one([0.9])
        'b'
        """
        if not isinstance(knowledge, Knowledge):
            raise TypeError(f"Only knowledge can go live, not {type(knowledge).__name__}.")
        known = {
            "features": knowledge.features if knowledge.signature.mapped else None,
            "per_class": knowledge.per_class,
        }
        for name in known.keys() & parameters.keys():
            if parameters[name] != known[name]:
                raise ParameterError(
                    f"{name} is {known[name]!r} in this knowledge, and cannot be {parameters[name]!r}."
                )
        self = cls(**known | parameters)
        self._validate_params()
        self._know_columns(knowledge.layout)
        self.live_ = LiveModel.of(knowledge, self._options(self.class_weight))
        return self

    @property
    def model_(self) -> LinearModel:
        """The model of this moment."""
        check_is_fitted(self)
        return self.live_.model()

    @property
    def features_(self) -> FeatureMap:
        """The frozen map by which rows become features; the identity for a linear model."""
        check_is_fitted(self)
        return self.live_.signature.features

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of which rows count, sorted."""
        check_is_fitted(self)
        return self.live_.classes

    @property
    def checks_(self) -> list[Check]:
        """The last 1,000 checks."""
        check_is_fitted(self)
        return list(self.live_.checks)

    @property
    def drift_(self) -> float:
        """The largest drift of all these checks."""
        return max((check.drift for check in self.checks_), default=0.0)

    def _scoring_model(self) -> LinearModel:
        check_is_fitted(self)
        return self.live_.model(probabilities=False)

    def _options(self, class_weight: Any) -> RecursiveOptions:
        return RecursiveOptions(
            self.C,
            class_weight,
            bool(self.penalize_intercept),
            self.forgetting,
            self.window,
            self.check_every,
        )

    def _begin(self, layout: Layout, mapping: FeatureMap, class_weight: Any) -> LiveModel:
        signature = Signature(mapping, layout.width, layout.names, layout.categories, bool(self.per_class))
        return LiveModel(signature, self._options(class_weight))

    def _frozen_map(self, rows: Any, labels: Any) -> FeatureMap:
        mapping = self._feature_map()
        return mapping if isinstance(mapping, Identity) else mapping.freeze(rows, labels)

    def _follow(self, scan: Scan, y: Any, sample_weight: Any, live: LiveModel | None) -> Self:
        if y is not None or sample_weight is not None:
            raise ParameterError("A scan has labels and weights of its own: leave y and sample_weight out.")
        if live is None:
            mapping = self._feature_map()
            live = self._begin(scan.layout, mapping.freeze(scan), self.class_weight)
            self._know_columns(scan.layout)
        elif scan.layout != live.signature.layout:
            raise DataError("The columns are others than those learned before. Scan with like=machine.to_knowledge().")
        for batch in live.batches(scan):
            live.learn(batch)
        self.live_ = live
        return self

    def _know_columns(self, layout: Layout) -> None:
        self.n_features_in_ = layout.width
        self.__dict__.pop("feature_names_in_", None)
        if layout.names is not None:
            self.feature_names_in_ = np.array(layout.names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "live_")


PLAIN = (dict, list, tuple, np.ndarray)
"""Rows that need no second look."""


def _plain(x: Any) -> Any:
    """One row as a mapping or a sequence; a row of a pandas table is a mapping."""
    if hasattr(x, "to_dict"):
        x = x.to_dict()
    if isinstance(x, (str, bytes)) or not hasattr(x, "__len__") or not len(x):
        raise DataError(f"A row is a sequence of numbers, or a mapping of names to numbers, not {x!r:.200}.")
    return x
