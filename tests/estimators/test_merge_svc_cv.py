from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mergesvm as ms
from mergesvm import MergeSVC, MergeSVCCV
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import KnowledgeError, ParameterError
from mergesvm.models.calibration import Calibration
from reference import blobs

CS = [0.01, 1.0, 100.0]


@pytest.fixture(scope="module")
def data():
    return blobs(seed=20, n=600, d=5, classes=3, offset=2.0)


@pytest.mark.parametrize("scoring", ["accuracy", "balanced_accuracy", "neg_log_loss"])
def test_matches_grid_search(data, scoring):
    X, y = data
    splitter = StratifiedKFold(4, shuffle=True, random_state=1)
    machine = MergeSVCCV(CS, [None, "balanced"], ["ovr", "ovo"], cv=splitter, scoring=scoring).fit(X, y)
    grid = {"multiclass": ["ovr", "ovo"], "class_weight": [None, "balanced"], "C": CS}
    search = GridSearchCV(MergeSVC(), [grid], cv=splitter, scoring=scoring).fit(X, y)
    by_params = {
        tuple(sorted((name, str(value)) for name, value in params.items())): at
        for at, params in enumerate(search.cv_results_["params"])
    }
    order = [
        by_params[tuple(sorted((name, str(value)) for name, value in params.items()))]
        for params in machine.cv_results_["params"]
    ]
    for name in ("mean_test_score", "std_test_score", "split2_test_score"):
        np.testing.assert_allclose(machine.cv_results_[name], search.cv_results_[name][order], rtol=1e-8, atol=1e-12)
    assert machine.best_score_ == pytest.approx(search.best_score_)
    assert machine.cv_results_["rank_test_score"][machine.best_index_] == 1
    chosen = MergeSVC(**machine.best_params_).fit(X, y)
    np.testing.assert_allclose(machine.coef_, chosen.coef_, rtol=1e-9)
    np.testing.assert_array_equal(machine.predict(X), chosen.predict(X))


def mean_margin(estimator, X, y):
    """A scorer that is not known by name."""
    return float(np.mean(estimator.decision_function(X)[np.arange(len(y)), np.searchsorted(estimator.classes_, y)]))


@pytest.mark.parametrize("scoring", ["f1_macro", "roc_auc_ovr", "matthews_corrcoef", mean_margin])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, lambda X: pd.DataFrame(X, columns=list("abcde"))])
def test_scorers_of_scikit_learn_are_called_on_the_held_out_rows(data, scoring, convert):
    X, y = convert(data[0]), np.array([b"x", b"y", b"z"])[data[1]] if scoring is mean_margin else data[1]
    splitter = KFold(4, shuffle=True, random_state=1)
    machine = MergeSVCCV(CS, [None, "balanced"], cv=splitter, scoring=scoring).fit(X, y)
    for class_weight in (None, "balanced"):
        search = GridSearchCV(MergeSVC(class_weight=class_weight), {"C": CS}, cv=splitter, scoring=scoring)
        some = [params["class_weight"] == class_weight for params in machine.cv_results_["params"]]
        expected = search.fit(X, y).cv_results_
        for name in ("mean_test_score", "split2_test_score"):
            np.testing.assert_allclose(machine.cv_results_[name][some], expected[name], rtol=1e-8)
    assert machine.best_score_ == machine.cv_results_["mean_test_score"].max()


def test_scorers_by_name_get_the_sample_weights(data):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    weighted = MergeSVCCV(CS, scoring="f1_macro").fit(X, y, weights)
    plain = MergeSVCCV(CS, scoring="f1_macro").fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])


def test_scorers_that_need_rows_are_refused_without_them(data):
    X, y = data
    for scoring in ("f1_macro", mean_margin):
        with pytest.raises(ParameterError, match="needs the held-out rows"):
            MergeSVCCV(CS, scoring=scoring, measure=False).fit(X, y)
    with pytest.raises(ParameterError, match=r"Scorers of scikit-learn need the rows: use MergeSVCCV"):
        ms.validate(ms.learn(X, y, folds=3), scoring=mean_margin)


def test_rows_of_a_group_are_held_out_together(data):
    X, y = data
    groups = np.arange(len(y)) // 7
    machine = MergeSVCCV(CS, cv=4).fit(X, y, groups=groups)
    numbers = machine.folds_.assignment.numbers(as_rows(X), groups)
    assert all(len(np.unique(numbers[groups == group])) == 1 for group in np.unique(groups))
    held_out = MergeSVC(C=machine.C_).fit(X[numbers != 0], y[numbers != 0]).score(X[numbers == 0], y[numbers == 0])
    assert machine.cv_results_["split0_test_score"][machine.best_index_] == pytest.approx(held_out)
    splitter = MergeSVCCV(CS, cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert len(splitter.folds_) == 4


def test_accepts_tables_sparse_arrays_and_weights(data):
    X, y = data
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    plain = MergeSVCCV(CS).fit(X, y, weights)
    table = MergeSVCCV(CS).fit(pd.DataFrame(X, columns=list("abcde")), pd.Series(y), weights)
    stored = MergeSVCCV(CS).fit(sparse.csr_array(X), y, weights)
    for other in (table, stored):
        np.testing.assert_allclose(
            other.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"], rtol=1e-12
        )
    assert table.feature_names_in_.tolist() == list("abcde")


def test_without_a_second_pass_losses_are_exact_and_other_scores_estimated(data):
    X, y = data
    exact = MergeSVCCV(scoring="neg_squared_loss").fit(X, y)
    blind = MergeSVCCV(scoring="neg_squared_loss", measure=False).fit(X, y)
    np.testing.assert_array_equal(blind.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"])
    measured, guessed = MergeSVCCV(CS).fit(X, y), MergeSVCCV(CS, measure=False).fit(X, y)
    np.testing.assert_allclose(
        guessed.cv_results_["mean_test_score"], measured.cv_results_["mean_test_score"], atol=0.03
    )


def test_some_rows_may_never_be_held_out(data):
    X, y = data
    numbers = np.where(np.arange(len(y)) < 100, -1, np.arange(len(y)) % 3)
    machine = MergeSVCCV(CS, cv=PredefinedSplit(numbers)).fit(X, y)
    train = MergeSVC(C=CS[0]).fit(X[numbers != 1], y[numbers != 1])
    expected = train.score(X[numbers == 1], y[numbers == 1])
    assert machine.cv_results_["split1_test_score"][0] == pytest.approx(expected)
    assert machine.knowledge_.rows.sum() == len(y)


@pytest.mark.parametrize("cv", [ShuffleSplit(3, random_state=0), RepeatedKFold(random_state=0), TimeSeriesSplit(3)])
def test_splits_that_are_not_a_partition_are_an_error(data, cv):
    X, y = data
    with pytest.raises(ParameterError, match="GridSearchCV"):
        MergeSVCCV(CS, cv=cv).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"cv": 1}, "'cv' parameter"), ({"scoring": ["accuracy"]}, "must be a str among"), ({"Cs": [-1.0]}, "positive")],
)
def test_invalid_parameters_are_named(data, parameters, message):
    X, y = data
    with pytest.raises(ParameterError, match=message):
        MergeSVCCV(**parameters).fit(X, y)


def test_pipeline_and_clone():
    X, y = load_breast_cancer(return_X_y=True)
    machine = make_pipeline(StandardScaler(), MergeSVCCV(cv=KFold(5, shuffle=True, random_state=0))).fit(X, y)
    assert machine.score(X, y) > 0.95
    assert clone(machine[-1]).get_params()["cv"] is not None
    with pytest.raises(NotFittedError):
        _ = clone(machine[-1]).C_


def test_map_is_frozen_once_for_all_folds(data):
    X, y = data
    machine = MergeSVCCV(CS, features="fourier:20,precision=float64", random_state=0).fit(X, y)
    assert machine.features_.frozen
    assert machine.best_score_ > 0.5


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_probabilities_are_calibrated_on_held_out_scores(data, method):
    X, y = data
    splitter = StratifiedKFold(4, shuffle=True, random_state=1)
    machine = MergeSVCCV(CS, cv=splitter, calibration=method).fit(X, y)
    decisions = np.empty((len(y), 3))
    for train, test in splitter.split(X, y):
        decisions[test] = MergeSVC(C=machine.C_).fit(X[train], y[train]).decision_function(X[test])
    layer = Calibration.fit(decisions, y, np.ones(len(y)), method, 3)
    expected = layer.probabilities(machine.decision_function(X))
    np.testing.assert_allclose(machine.predict_proba(X), expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(machine.predict(X), MergeSVC(C=machine.C_).fit(X, y).predict(X))


@pytest.mark.filterwarnings("ignore::mergesvm.errors.FoldWarning")
def test_class_in_a_single_fold_cannot_be_calibrated(data):
    X, y = data
    numbers = np.where(y == 2, 0, np.arange(len(y)) % 3)
    with pytest.raises(KnowledgeError, match="are in fold 0"):
        MergeSVCCV(CS, cv=PredefinedSplit(numbers), calibration="platt").fit(X, y)


class BySize:
    """Splits that look at the rows."""

    def split(self, X, y=None, groups=None):
        order = np.argsort(np.asarray(X)[:, 0])
        for part in np.array_split(order, 3):
            yield np.setdiff1d(order, part), part

    def get_n_splits(self, X=None, y=None, groups=None):
        return 3


def test_splitters_get_the_rows(data):
    X, y = data
    machine = MergeSVCCV([1.0], cv=BySize()).fit(X, y)
    search = GridSearchCV(MergeSVC(), {"C": [1.0]}, cv=BySize()).fit(X, y)
    assert machine.best_score_ == pytest.approx(search.best_score_)


def test_splits_that_train_on_test_rows_are_an_error(data):
    X, y = data
    half = np.arange(len(y)) < 300
    same = [(part, part) for part in (np.flatnonzero(half), np.flatnonzero(~half))]
    with pytest.raises(ParameterError, match="not hold out"):
        MergeSVCCV(CS, cv=same).fit(X, y)
    masks = MergeSVCCV(CS, cv=[(~half, half), (half, ~half)]).fit(X, y)
    assert len(masks.folds_) == 2


def test_invalid_parameters_are_found_before_learning(data):
    X, _ = data
    for wrong in ({"Cs": [-1.0]}, {"scoring": "magic"}, {"class_weights": "heavy"}, {"calibration": "magic"}):
        with pytest.raises(ParameterError):
            MergeSVCCV(**wrong).fit(X, None)
