"""MergeSVC: the weighted proximal SVM with the scikit-learn API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mergesvm.data.labels import Label
from mergesvm.data.scan import Scan
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import FormError, ParameterError
from mergesvm.estimators.base import LinearClassifier
from mergesvm.estimators.classes import LabelType, weights_of_seen
from mergesvm.estimators.inputs import (
    declare_classes,
    frozen_map_of,
    join_classes,
    keep_columns_of_scan,
    rows_to_learn,
    set_input_columns,
)
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.algebra import added, merge, subtracted
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.knowledge.provenance.running import Running
from mergesvm.methods.proximal.solve import solve
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

SOLVE_PARAMETERS = ("C", "class_weight", "multiclass", "standardize", "penalize_intercept", "fit_intercept", "ties")


@dataclass
class Solved:
    """Sums, the options to solve them with, and the model once it is solved: replaced as a whole.

    The provenance of the sums ends where the running pieces begin.
    """

    sums: Knowledge
    running: Running
    options: dict[str, Any]
    model: LinearModel | PairwiseModel | None

    @property
    def knowledge(self) -> Knowledge:
        """The sums with all of their provenance."""
        origins = self.running.origins
        return replace(self.sums, provenance=self.sums.provenance + origins) if origins else self.sums


class MergeSVC(LinearClassifier):
    """Weighted proximal support vector classifier that merges, forgets, and is re-solved without data.

    Parameters
    ----------
    C : float
        Weight of the errors relative to the penalty on the coefficients. A larger C fits the data more closely.
    class_weight : {None, "inverse", "complement", "balanced"} or dict
        Weights of the classes; see :func:`mergesvm.solve`.
    multiclass : {"ovr", "ovo"}
        One-vs-rest, or one-vs-one by vote.
    standardize : bool
        Whether to penalise coefficients as if the features were standardised.
    penalize_intercept : bool
        True as in the papers, False as in ``RidgeClassifier``.
    fit_intercept : bool
        Whether there is an intercept. Without one it is 0.
    ties : {"recount", "sequential", "margin"}
        How ties between classes with the same number of votes are broken.
    per_class : bool
        False keeps one pooled matrix instead of one per class: less memory, but class weights are then fixed.
    features : {"hidden", "fourier", "nystroem", "patches", "pca"}, FeatureMap or None
        Feature map for a model that is not linear: a name, optionally with parameters as in
        ``"hidden:2000,activation=tanh"``, or a map of :mod:`mergesvm.features`. A map that is not frozen is frozen on
        the first rows learned. Estimators can be merged only if they have the same frozen map.
    n_features : int, optional
        Size of a map given by name: the number of features (default 1,000) or filters (default 64).
    random_state : int, RandomState or None
        Seed of a map given by name.
    precision : {"float64", "float32"}, optional
        Precision of matrix products of wide rows (default: that of the map, else float64).
    engine : Engine, optional
        Where rows are learned (default: threads); see :mod:`mergesvm.engines` and :func:`mergesvm.learn`. With
        ``Dask``, X and y may be Dask collections. Under ``MPI`` each rank passes its own rows, and all ranks get the
        model of all rows.
    n_jobs : int, optional
        Number of threads (default: one per core; one per worker on other engines).

    Attributes
    ----------
    knowledge_ : Knowledge
        The sums of all rows learned. Rows that are learned later belong to a new piece of their provenance.
    features_ : FeatureMap
        The frozen feature map.
    model_ : LinearModel or PairwiseModel
        The model, solved with the parameters at the last call that learned, merged or resolved.
    classes_, coef_, intercept_ : arrays
    n_features_in_ : int
    feature_names_in_ : array of str
        Defined if all column names of X are strings.

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

    _result_attribute = "_solved"
    _solved: Solved

    def __init__(
        self,
        C: float = 1.0,
        class_weight: Mapping[Any, float] | str | None = None,
        multiclass: str = "ovr",
        *,
        standardize: bool = False,
        penalize_intercept: bool = True,
        fit_intercept: bool = True,
        ties: str = "recount",
        per_class: bool = True,
        features: FeatureMap | str | None = None,
        n_features: int | None = None,
        random_state: Any = None,
        precision: str | None = None,
        engine: Engine | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C, self.class_weight, self.multiclass = C, class_weight, multiclass
        self.standardize, self.penalize_intercept = standardize, penalize_intercept
        self.fit_intercept = fit_intercept
        self.ties = ties
        self.per_class = per_class
        self.features, self.n_features, self.random_state = features, n_features, random_state
        self.precision = precision
        self.engine, self.n_jobs = engine, n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from these rows, discarding earlier ones, and solve.

        X may be a scan of files (:func:`mergesvm.scan`), with labels and weights of its own.
        """
        with self._fitting():
            knowledge = self._learn(X, y, sample_weight, reset=True)
            model = self._solve(knowledge, self._current_options())
            return self._keep(replace(knowledge, provenance=()), Running().plus(*knowledge.provenance), model)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows.

        ``classes``, if given, declares all classes, as in ``SGDClassifier``: those without rows yet have a column in
        ``decision_function`` and ``predict_proba``, and are never predicted. Without it, new classes are added when
        they occur. The model is solved when it is next used, so the cost of a call does not depend on earlier calls.
        """
        with self._fitting():
            known = getattr(self, "_solved", None)
            piece = self._learn(X, y, sample_weight, reset=known is None)
            declare_classes(self, piece.labels, classes)
            if known is None:
                return self._keep(replace(piece, provenance=()), Running().plus(*piece.provenance))
            return self._keep(added([known.sums, piece]), known.running.plus(*piece.provenance))

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Remove rows that were learned before, exactly: the model is as if they had never been learned.

        The provenance of :attr:`knowledge_` records them as retired, with an id of their own.
        """
        check_is_fitted(self)
        with self._fitting():
            known, piece = self._solved, self._learn(X, y, sample_weight, reset=False)
            sums = subtracted(known.sums, piece)
            if not sums.labels:  # nothing is inside
                return self._keep(replace(sums, provenance=()), Running())
            return self._keep(sums, known.running.minus(*piece.provenance))

    def merge(self, other: MergeSVC | Knowledge, *, force: bool = False) -> Self:
        """Add the knowledge of another fitted estimator, or any knowledge; this estimator need not be fitted.

        Pieces that are inside already raise an error; with ``force`` their rows count twice.
        """
        if isinstance(other, MergeSVC):
            check_is_fitted(other)
        elif not isinstance(other, Knowledge):
            raise TypeError(f"A MergeSVC can be merged with a MergeSVC or Knowledge, not with {type(other).__name__}.")
        more = other.knowledge_ if isinstance(other, MergeSVC) else other
        with self._fitting():
            if isinstance(other, MergeSVC):
                join_classes(self, other, reset=not hasattr(self, "_solved"))
            if hasattr(self, "_solved"):
                return self._keep(merge([self.knowledge_, more], force=force), Running())
            set_input_columns(self, more.layout)
            return self._keep(more, Running())

    def solved(self, knowledge: Knowledge, model: LinearModel | PairwiseModel, kind: LabelType) -> Self:
        """Return the estimator as fitted: with knowledge, the model solved from it, and the type of its labels."""
        set_input_columns(self, knowledge.layout)
        self._label_type = kind
        return self._keep(knowledge, Running(), model)

    def __add__(self, other: object) -> MergeSVC:
        if not isinstance(other, (MergeSVC, Knowledge)):
            return NotImplemented
        check_is_fitted(self)
        both: MergeSVC = clone(self)
        return both.merge(self).merge(other)

    def __radd__(self, other: object) -> MergeSVC:
        # sum(estimators) starts with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def resolve(self, **parameters: Any) -> Self:
        """Solve again with other values of C, class_weight, multiclass, standardize and so on, without data.

        The new values are kept as parameters. On an error nothing is changed.
        """
        check_is_fitted(self)
        unknown = sorted(set(parameters) - set(SOLVE_PARAMETERS))
        if unknown:
            problem = "cannot be changed without data" if unknown[0] in self.get_params() else "is not a parameter"
            raise ParameterError(f"{unknown[0]!r} {problem}. Choose from: {', '.join(SOLVE_PARAMETERS)}.")
        with self._learning_lock:
            known, fixed = self._solved, self._solved.options["class_weight"]
            if not known.sums.per_class and parameters.get("class_weight", fixed) != fixed:
                raise FormError("With per_class=False class weights are fixed when learning, and cannot be changed.")
            model = self._solve(known.knowledge, self._current_options() | parameters)
            self.set_params(**parameters)
            return self._keep(known.sums, known.running, model)

    @property
    def model_(self) -> LinearModel | PairwiseModel:
        """The model, solved when it is first used after rows were learned, merged or forgotten."""
        solved = self._fitted._solved
        if solved.model is None:
            solved.model = self._solve(solved.knowledge, solved.options)
        return solved.model

    @property
    def knowledge_(self) -> Knowledge:
        """The sums of all rows learned; rows of later calls belong to a new piece of their provenance."""
        check_is_fitted(self)
        with self._learning_lock:
            self._solved = replace(self._solved, sums=self._solved.knowledge, running=Running())
            return self._solved.sums

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "_solved"):
            self.knowledge_  # noqa: B018 - the copy and the original may both go on learning, each its own rows
        return super().__getstate__()

    @property
    def features_(self) -> FeatureMap:
        """The frozen feature map; the identity for a linear model."""
        return self._fitted._solved.sums.features

    def _seen_labels(self) -> tuple[Label, ...]:
        return self._fitted._solved.sums.labels

    def _learn(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Knowledge:
        if self.engine is not None and getattr(self.engine, "root", None) is not None:
            raise ParameterError(f"A MergeSVC is fitted on all ranks: use {type(self.engine).__name__}(root=None).")
        if isinstance(X, Scan):
            rows, labels = X, None
            on_all = (self.engine or Threads()).ranks.on_all
            on_all(lambda: keep_columns_of_scan(self, X, y, sample_weight, reset))
        else:
            rows, labels = rows_to_learn(self, X, y, reset, self.engine, own=True)
        if reset:
            anchor, features = None, frozen_map_of(self._feature_map(), rows, labels, self.engine)
        else:
            anchor, features = self._solved.sums.anchor, self._solved.sums.features
        return learn(
            rows,
            labels,
            sample_weight,
            features=features,
            per_class=self.per_class,
            class_weight=self._pooled_weights(),
            anchor=anchor,
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
                f"class_weight must be None or a dict, not {self.class_weight!r}."
            )
        weights: Mapping[Label, float] = weights_of_seen(self.class_weight, (), ())
        return weights

    def _solve(self, knowledge: Knowledge, options: dict[str, Any]) -> LinearModel | PairwiseModel:
        # In the pooled form the sums already include the class weights.
        weights = weights_of_seen(options["class_weight"], knowledge.labels, self._declared)
        changes = {"class_weight": weights if knowledge.per_class else None}
        # All ranks solve the same problem, and share the cores of their machine.
        shared = self.n_jobs is None and self.engine is not None and self.engine.ranks.spmd
        return solve(knowledge, **(options | changes), n_jobs=1 if shared else self.n_jobs)

    def _current_options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in SOLVE_PARAMETERS}

    def _keep(self, sums: Knowledge, running: Running, model: LinearModel | PairwiseModel | None = None) -> Self:
        if self.engine is not None and self.engine.ranks.spmd:
            # All ranks have the same ids, also if only one of them hands out its knowledge.
            sums, running = replace(sums, provenance=sums.provenance + running.origins), Running()
        # The current options are kept for a model that is solved later: parameters set later wait for fit or resolve.
        self._solved = Solved(sums, running, self._current_options(), model)
        return self
