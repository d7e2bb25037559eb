"""MergeSVC: the weighted proximal SVM with scikit-learn's manners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.labels import Label
from mergesvm.engines.base import Engine
from mergesvm.errors import FormError, ParameterError
from mergesvm.estimators.base import LinearClassifier
from mergesvm.estimators.inputs import check_classes, frozen_map_of, rows_to_learn
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

SOLVE_PARAMETERS = ("C", "class_weight", "multiclass", "standardize", "penalize_intercept", "ties")


class MergeSVC(LinearClassifier):
    """A weighted proximal support vector machine that merges, forgets, and is solved again without data.

    Parameters
    ----------
    C : float
        Weight of the errors against that of the coefficients.
    class_weight : {None, "inverse", "complement", "balanced"} or dict
        Weights against imbalance; see :func:`mergesvm.solve`.
    multiclass : {"ovr", "ovo"}
        One-vs-rest, or one-vs-one by vote.
    standardize : bool
        Penalise coefficients in units of the standard deviations of the features.
    penalize_intercept : bool
        True as in the papers, False as in scikit-learn's ridge classifier.
    ties : {"recount", "sequential", "margin"}
        What decides between classes with as many votes.
    per_class : bool
        False keeps one pooled matrix instead of one a class: less memory, fewer choices afterwards.
    features : {"hidden", "fourier", "nystroem", "patches", "pca"}, FeatureMap or None
        What rows are mapped by before they are learned, for a model that is not linear: the name of a map, also with
        parameters as in ``"hidden:2000,activation=tanh"``, or a map of :mod:`mergesvm.features`. One that is not frozen
        is frozen on the first rows learned. Estimators that are to be merged need the same frozen map.
    n_features : int, optional
        Size of a map that is given by name: its number of features, or of filters; 1,000 by default, and 64 filters.
    random_state : int, RandomState or None
        Seed of a map that is given by name.
    precision : {"float64", "float32"}, optional
        In which precision products of wide rows are formed: by default that of the map, and float64 where there is
        none.
    engine : Engine, optional
        Where rows are learned: see :mod:`mergesvm.engines` and :func:`mergesvm.learn`. With ``Dask``, X and y may be
        collections of Dask. Under ``MPI`` each rank gives its own rows, and all get the model of all. Threads by
        default.
    n_jobs : int, optional
        Number of threads, one a core by default; with an engine other than threads those of each worker, one.

    Attributes
    ----------
    knowledge_ : Knowledge
        What has been learned: the sums from which everything else follows.
    features_ : FeatureMap
        The frozen map.
    model_ : LinearModel or PairwiseModel
        The solution, on the parameters of the last time something was learned or resolved.
    classes_, coef_, intercept_ : arrays
    n_features_in_ : int
    feature_names_in_ : array of str
        Where the columns of X had names, all of them text.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mergesvm import MergeSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> here, there = MergeSVC(C=10).fit(X[::2], y[::2]), MergeSVC(C=10).fit(X[1::2], y[1::2])
    >>> both = here + there
    >>> abs(both.coef_ - MergeSVC(C=10).fit(X, y).coef_).max() < 1e-12
    np.True_
    >>> abs(both.forget(X[1::2], y[1::2]).coef_ - here.coef_).max() < 1e-12
    np.True_
    >>> both.resolve(C=0.1, multiclass="ovo").score(X, y) > 0.9
    True
    """

    knowledge_: Knowledge
    _model: LinearModel | PairwiseModel | None
    _options: dict[str, Any]

    def __init__(
        self,
        C: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "ovr",
        *,
        standardize: bool = False,
        penalize_intercept: bool = True,
        ties: str = "recount",
        per_class: bool = True,
        features: FeatureMap | str | None = None,
        n_features: int | None = None,
        random_state: Any = None,
        precision: str | None = None,
        engine: Engine | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.class_weight = class_weight
        self.multiclass = multiclass
        self.standardize = standardize
        self.penalize_intercept = penalize_intercept
        self.ties = ties
        self.per_class = per_class
        self.features = features
        self.n_features = n_features
        self.random_state = random_state
        self.precision = precision
        self.engine = engine
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from these rows alone, and solve."""
        with self._fitting():
            knowledge = self._learn(X, y, sample_weight, reset=True)
            return self._know(knowledge, self._solve(knowledge, self._current_options()))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows. Classes are discovered as they come; ``classes``, if given, is what they must be among.

        The model is solved when it is next asked for, so that a slice costs the same however many came before.
        """
        known = getattr(self, "knowledge_", None)
        with self._fitting():
            piece = self._learn(X, y, sample_weight, reset=known is None)
            check_classes(piece.labels, classes)
            return self._know(piece if known is None else known + piece)

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take rows back that were learned before, exactly: the model becomes the one that never saw them."""
        check_is_fitted(self)
        with self._fitting():
            return self._know(self.knowledge_ - self._learn(X, y, sample_weight, reset=False))

    def merge(self, other: MergeSVC | Knowledge) -> Self:
        """Add what another fitted estimator has learned, or knowledge from anywhere; also to one not yet fitted."""
        if isinstance(other, MergeSVC):
            check_is_fitted(other)
        elif not isinstance(other, Knowledge):
            raise TypeError(f"A MergeSVC merges with another or with knowledge, not with {type(other).__name__}.")
        more = other.knowledge_ if isinstance(other, MergeSVC) else other
        with self._fitting():
            if hasattr(self, "knowledge_"):
                return self._know(self.knowledge_ + more)
            self.n_features_in_ = more.signature.inputs
            if more.signature.names is not None:
                self.feature_names_in_ = np.array(more.signature.names, dtype=object)
            return self._know(more)

    def __add__(self, other: object) -> MergeSVC:
        if not isinstance(other, (MergeSVC, Knowledge)):
            return NotImplemented
        check_is_fitted(self)
        both: MergeSVC = clone(self)
        return both.merge(self).merge(other)

    def __radd__(self, other: object) -> MergeSVC:
        # So that sum(machines), which begins with 0, works as one expects.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def resolve(self, **parameters: Any) -> Self:
        """Solve again on other terms, without data: C, class_weight, multiclass, standardize, ...; all are kept.

        Nothing changes if the new terms cannot be solved.
        """
        check_is_fitted(self)
        unknown = sorted(set(parameters) - set(SOLVE_PARAMETERS))
        if unknown:
            what = "cannot be changed without data" if unknown[0] in self.get_params() else "is not a parameter"
            raise ParameterError(f"{unknown[0]!r} {what}. What can be changed: {', '.join(SOLVE_PARAMETERS)}.")
        fixed = self._options["class_weight"]
        if not self.knowledge_.per_class and parameters.get("class_weight", fixed) != fixed:
            raise FormError("In the pooled form class weights are fixed when learning, and cannot be changed.")
        model = self._solve(self.knowledge_, self._current_options() | parameters)
        return self.set_params(**parameters)._know(self.knowledge_, model)  # type: ignore[no-any-return]

    @property
    def model_(self) -> LinearModel | PairwiseModel:
        """The solution, solved when first asked for after something was learned, merged or forgotten."""
        check_is_fitted(self)
        if self._model is None:
            self._model = self._solve(self.knowledge_, self._options)
        return self._model

    @property
    def features_(self) -> FeatureMap:
        """The frozen map by which rows become features; the identity for a linear model."""
        check_is_fitted(self)
        return self.knowledge_.features

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes known, sorted."""
        check_is_fitted(self)
        return self.knowledge_.classes

    def _learn(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Knowledge:
        if self.engine is not None and getattr(self.engine, "root", None) is not None:
            raise ParameterError(f"A MergeSVC is fitted at all ranks: give it {type(self.engine).__name__}(root=None).")
        rows, labels = rows_to_learn(self, X, y, reset, self.engine, own=True)
        knowledge = None if reset else self.knowledge_
        if knowledge is not None:
            features = knowledge.features
        else:
            mapping = self._feature_map()
            features = frozen_map_of(mapping, rows, labels, self.engine)
        return learn(
            rows,
            labels,
            sample_weight,
            features=features,
            per_class=self.per_class,
            class_weight=self._pooled_weights(),
            anchor=None if knowledge is None else knowledge.anchor,
            precision=self.precision,
            engine=self.engine,
            n_jobs=self.n_jobs,
        )

    def _pooled_weights(self) -> Mapping[Label, float] | None:
        if self.per_class or self.class_weight is None:
            return None
        if not isinstance(self.class_weight, Mapping):
            raise ParameterError(
                f"With per_class=False class weights are fixed when learning, before the counts are known: "
                f"class_weight has to be None or a dict, not {self.class_weight!r}."
            )
        return self.class_weight

    def _solve(self, knowledge: Knowledge, options: dict[str, Any]) -> LinearModel | PairwiseModel:
        # In the pooled form the weights of the classes are in the sums already.
        changes = {} if knowledge.per_class else {"class_weight": None}
        # Ranks that all solve the same share the cores of their machine.
        shared = self.n_jobs is None and self.engine is not None and self.engine.collective
        return solve(knowledge, **(options | changes), n_jobs=1 if shared else self.n_jobs)

    def _current_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SOLVE_PARAMETERS}

    def _know(self, knowledge: Knowledge, model: LinearModel | PairwiseModel | None = None) -> Self:
        # The current options are kept for a model that is solved later: parameters set later wait for fit or resolve.
        self.knowledge_, self._model, self._options = knowledge, model, self._current_options()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "knowledge_")
