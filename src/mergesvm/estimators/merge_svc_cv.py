"""MergeSVCCV: MergeSVC with C, class weights and multi-class scheme chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import StrOptions

from mergesvm.analysis.cross_validation.grid import Grid
from mergesvm.analysis.cross_validation.score_names import SCORINGS
from mergesvm.analysis.cross_validation.validation import Validation, validate
from mergesvm.checks import listed
from mergesvm.data.batch import Batch
from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import label_array
from mergesvm.data.rows.base import Rows
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads, resolve_engine
from mergesvm.errors import ParameterError
from mergesvm.estimators.base import LinearClassifier
from mergesvm.estimators.inputs import frozen_map_of, rows_to_learn
from mergesvm.estimators.scorers import validate_by_scorer
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.models.calibration import CURVES
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

CHOSEN = ("C", "class_weight", "multiclass")


class MergeSVCCV(LinearClassifier):
    """:class:`MergeSVC` with parameters chosen by cross-validation, in one pass over the rows and one to score.

    The sums of each fold are kept; the sums of a training set are the total minus its fold. Every candidate of the grid
    is therefore solved without data, and all of them are scored in one pass over the held-out rows.

    Parameters
    ----------
    Cs : list of float, optional
        Candidates (default: 25 values from 1e-6 to 1e6).
    class_weights : None, str, dict, or list of these
        Candidates among None, "inverse", "complement", "balanced", or a dict; see :func:`mergesvm.solve`.
    multiclass : {"ovr", "ovo"}, or list of both
    cv : int, splitter, iterable or None
        Number of folds (default 5), to which rows are assigned by a hash of their values, or of their group if
        ``groups`` are given to :meth:`fit`. Or a splitter of scikit-learn, or a list of splits, in which no row is held
        out twice.
    scoring : str or callable
        "accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc", "neg_squared_loss" or "neg_balanced_loss"; see
        :func:`mergesvm.validate`. Or another scorer of scikit-learn, by name or as a function ``f(estimator, X, y)``,
        which is called with the held-out rows of every fold and candidate.
    measure : bool
        False for no second pass: losses are still exact, all other scores are estimated.
    calibration : {None, "isotonic", "platt"}
        Calibrate probabilities on the scores of held-out rows; see :meth:`Model.calibrated`.
    standardize, penalize_intercept, fit_intercept, ties, features, n_features, random_state, precision, engine, n_jobs
        As in :class:`MergeSVC`. With an engine other than threads there is no second pass.

    Attributes
    ----------
    C_, class_weight_, multiclass_ : the chosen parameters
    best_score_ : float
    best_index_ : int
    best_params_ : dict
    cv_results_ : dict of arrays
        As in ``GridSearchCV``.
    validation_ : Validation
    folds_ : Folds
    knowledge_ : Knowledge
        The sums of all rows.
    model_ : LinearModel or PairwiseModel
    classes_, coef_, intercept_ : arrays
    n_features_in_ : int
    feature_names_in_ : array of str

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from mergesvm import MergeSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = MergeSVCCV(multiclass=["ovr", "ovo"]).fit(X, y)
    >>> search.multiclass_, search.best_score_ > 0.95, len(search.cv_results_["params"])
    ('ovo', True, 50)
    """

    _result_attribute = "validation_"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearClassifier._parameter_constraints,
        "multiclass": [StrOptions({"ovr", "ovo"}), "array-like"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(SCORINGS) | set(get_scorer_names())), callable],
        "measure": ["boolean"],
        "calibration": [StrOptions(set(CURVES)), None],
    }

    folds_: Folds
    validation_: Validation
    _model: LinearModel | PairwiseModel

    def __init__(
        self,
        Cs: Any = None,
        class_weights: Any = None,
        multiclass: Any = "ovr",
        cv: Any = None,
        scoring: str | Callable[[Any, Any, Any], float] = "accuracy",
        *,
        measure: bool = True,
        calibration: str | None = None,
        standardize: bool = False,
        penalize_intercept: bool = True,
        fit_intercept: bool = True,
        ties: str = "recount",
        features: FeatureMap | str | None = None,
        n_features: int | None = None,
        random_state: Any = None,
        precision: str | None = None,
        engine: Engine | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.Cs, self.class_weights, self.multiclass = Cs, class_weights, multiclass
        self.cv, self.scoring, self.measure = cv, scoring, measure
        self.calibration = calibration
        self.standardize, self.penalize_intercept = standardize, penalize_intercept
        self.fit_intercept = fit_intercept
        self.ties = ties
        self.features, self.n_features, self.random_state = features, n_features, random_state
        self.precision = precision
        self.engine, self.n_jobs = engine, n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from these rows, choose the parameters, and solve with them."""
        spread = resolve_engine(self.engine)[1]
        with self._fitting():
            self._check_options()
            rows, labels = rows_to_learn(self, X, y, True, self.engine, own=True)
            mapping = self._feature_map()

            def given() -> NDArray[np.int64] | None:
                return self._given_folds(X, rows, labels, groups)

            # An error on one rank is raised on all.
            numbers = given() if spread is None else spread.ranks.on_all(given)
            if numbers is not None:
                groups = None  # the splitter has used them
            n_folds = 5 if self.cv is None else self.cv
            folds = learn(
                rows,
                labels,
                sample_weight,
                features=frozen_map_of(mapping, rows, labels, self.engine),
                folds=n_folds if numbers is None else numbers,
                groups=groups,
                precision=self.precision,
                engine=self.engine,
                n_jobs=self.n_jobs,
            )
            again = self.measure and isinstance(rows, Rows) and isinstance(self.engine, Threads | None)
            data = (rows, labels, sample_weight) if again else (None, None, None)
            shared: dict[str, Any] = {"groups": groups, "numbers": numbers, "n_jobs": self.n_jobs}
            if isinstance(self.scoring, str) and self.scoring in SCORINGS:
                validation = validate(folds, *data, scoring=self.scoring, **self._grid() | shared)
            else:
                validation = self._validate_by_scorer(folds, X, Batch.of(rows, labels, sample_weight), shared)
            if self.calibration is None:
                self._model = validation.solve(self.n_jobs)
            else:
                self._model = validation.calibrated(rows, labels, sample_weight, self.calibration, **shared)
            self.folds_, self.validation_ = folds, validation
        return self

    def _validate_by_scorer(self, folds: Folds, X: Any, batch: Batch, shared: dict[str, Any]) -> Validation:
        engine, numbers = Threads.of_jobs(self.n_jobs), shared["numbers"]
        if numbers is None:
            numbers = folds.assignment.numbers(batch.rows, shared["groups"], engine)
        grid = Grid.of(**self._grid())
        return validate_by_scorer(folds, grid, self.scoring, X, batch, numbers, self._label_type, engine)

    def _grid(self) -> dict[str, Any]:
        names = ("Cs", "class_weights", "multiclass", "standardize", "penalize_intercept", "fit_intercept", "ties")
        return {name: getattr(self, name) for name in names}

    def _check_options(self) -> None:
        """Check parameters that depend on each other, before anything is learned."""
        Grid.of(**self._grid())
        local = isinstance(self.engine, Threads | None)
        if (callable(self.scoring) or self.scoring not in SCORINGS) and not (self.measure and local):
            raise ParameterError(
                f"scoring={self.scoring!r} needs the held-out rows: use measure=True and threads, or one of "
                f"{listed(SCORINGS)}."
            )
        if self.calibration is not None and self.engine is not None and not isinstance(self.engine, Threads):
            raise ParameterError(
                f"calibration={self.calibration!r} needs the rows in memory, and {type(self.engine).__name__} keeps "
                f"them elsewhere. Calibrate after fit: model_.calibrated(X, y)."
            )

    def _given_folds(self, X: Any, rows: Any, labels: Any, groups: Any) -> NDArray[np.int64] | None:
        """The fold of each row according to a splitter; None for folds by hash."""
        if self.cv is None or isinstance(self.cv, (int, np.integer)):
            return None
        if not isinstance(rows, Rows):
            raise ParameterError("Splitters cannot see rows on a cluster: give cv as a number of folds.")
        # Splitters take labels of type object for continuous numbers, so they get plain values.
        encoded = EncodedLabels.encode(labels)
        target = label_array(encoded.classes)[encoded.codes]
        numbers = np.full(rows.n_rows, -1, dtype=np.int64)
        for fold, (train, test) in enumerate(check_cv(self.cv, target).split(X, target, groups)):
            held_out, learned = np.zeros(rows.n_rows, dtype=bool), np.zeros(rows.n_rows, dtype=bool)
            held_out[test], learned[train] = True, True
            if (numbers[held_out] >= 0).any() or (held_out == learned).any():
                raise ParameterError(
                    f"{type(self.cv).__name__} holds a row out twice, or does not train on all rows that it does not "
                    f"hold out: only the folds of a partition can be subtracted from the total. Use KFold, "
                    f"StratifiedKFold, GroupKFold or PredefinedSplit, or GridSearchCV(MergeSVC()) for other splits."
                )
            numbers[held_out] = fold
        return numbers

    @property
    def model_(self) -> LinearModel | PairwiseModel:
        """The model of all rows with the chosen parameters."""
        return self._fitted._model

    @property
    def knowledge_(self) -> Knowledge:
        """Knowledge of all rows."""
        return self._fitted.folds_.total

    @property
    def C_(self) -> float:  # noqa: N802 - scikit-learn's name
        """The chosen C."""
        return self._fitted.validation_.best.C

    @property
    def class_weight_(self) -> Any:
        """The chosen class weights."""
        return self._fitted.validation_.best.class_weight

    @property
    def multiclass_(self) -> str:
        """The chosen multi-class scheme."""
        return self._fitted.validation_.best.multiclass

    @property
    def best_index_(self) -> int:
        """Index of the best candidate in ``cv_results_``."""
        return self._fitted.validation_.best_index

    @property
    def best_score_(self) -> float:
        """Mean score of the best candidate on held-out rows."""
        return self._fitted.validation_.best_score

    @property
    def best_params_(self) -> dict[str, Any]:
        """The chosen parameters as a dict."""
        return {name: getattr(self, f"{name}_") for name in CHOSEN}

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Scores of all candidates, as in ``GridSearchCV``."""
        validation = self._fitted.validation_
        scores, means = validation.scores[validation.scoring[0]], validation.mean()
        params = [{name: getattr(options, name) for name in CHOSEN} for options in validation.grid]
        columns = {f"param_{name}": _column([each[name] for each in params]) for name in CHOSEN}
        splits = {f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])}
        order = np.where(np.isnan(means), -np.inf, means)
        return {
            **columns,
            "params": params,
            **splits,
            "mean_test_score": means,
            "std_test_score": np.array([np.nanstd(row) if not np.isnan(row).all() else np.nan for row in scores]),
            "rank_test_score": np.array([1 + int((order > value).sum()) for value in order]),
        }


def _column(values: list[Any]) -> np.ma.MaskedArray[Any, Any]:
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return np.ma.MaskedArray(objects, mask=False)
