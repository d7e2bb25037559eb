"""RecursiveSVC: no intercept, declared classes, and options and weights that could not be saved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier

import mergesvm as ms
from mergesvm import RecursiveSVC
from mergesvm.errors import DataError, KnowledgeError, ParameterError
from reference import blobs


@pytest.fixture
def data():
    return blobs(seed=20, n=300, d=5, classes=3, offset=20.0)


def one_by_one(estimator, X, y, weights=None):
    for index, (row, label) in enumerate(zip(X, y.tolist(), strict=True)):
        estimator.learn_one(row, label, 1.0 if weights is None else weights[index])
    return estimator


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_without_an_intercept_scores_are_those_of_the_closed_form(data, C):
    X, y = data
    targets = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    expected = np.linalg.solve(np.eye(5) / C + X.T @ X, X.T @ targets).T
    left = np.linalg.solve(np.eye(5) / C + X[40:].T @ X[40:], X[40:].T @ targets[40:]).T
    for penalize_intercept in (True, False):
        options = {"C": C, "fit_intercept": False, "penalize_intercept": penalize_intercept}
        for estimator in (RecursiveSVC(**options).fit(X, y), one_by_one(RecursiveSVC(**options), X, y)):
            np.testing.assert_allclose(estimator.coef_, expected, atol=1e-9 * np.abs(expected).max())
            assert not estimator.intercept_.any()
            np.testing.assert_allclose(estimator.decision_function(X), X @ expected.T, atol=1e-9)
            assert [estimator.predict_one(row) for row in X[:50]] == estimator.predict(X[:50]).tolist()
            np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1.0)
            estimator.forget(X[:40], y[:40])
            np.testing.assert_allclose(estimator.coef_, left, atol=1e-9 * np.abs(expected).max())


def test_model_without_an_intercept_can_be_saved(data, tmp_path):
    X, y = data
    estimator = RecursiveSVC(fit_intercept=False).fit(X, y)
    estimator.model_.save(tmp_path / "now.msvm")
    loaded = ms.load_model(tmp_path / "now.msvm")
    np.testing.assert_array_equal(loaded.decision_function(X), estimator.decision_function(X))
    assert not loaded.intercept_.any()


def test_nonsense_flags_are_refused_by_name(data):
    X, y = data
    for name in ("fit_intercept", "penalize_intercept", "per_class"):
        with pytest.raises(ParameterError, match=f"'{name}' parameter of RecursiveSVC must be .* Got 'nonsense'"):
            RecursiveSVC(**{name: "nonsense"}).fit(X, y)
    with pytest.raises(ParameterError, match=r"'forgetting' .* Got True"):
        RecursiveSVC(forgetting=True).fit(X, y)
    estimator = RecursiveSVC().partial_fit(X, y)
    estimator.penalize_intercept = "nonsense"  # changed parameters are validated again
    for _ in range(2):
        with pytest.raises(ParameterError, match=r"'penalize_intercept' .* Got 'nonsense'"):
            estimator.partial_fit(X, y)


def test_a_label_that_was_not_declared_is_refused(data, tmp_path):
    X, y = data
    estimator = RecursiveSVC().partial_fit(X[:1], y[:1], classes=[0, 1, 2, 3])
    assert estimator.classes_.tolist() == [0, 1, 2, 3]
    assert estimator.decision_function(X).shape == estimator.predict_proba(X).shape == (len(X), 4)
    one_by_one(estimator, X[1:], y[1:])
    with pytest.raises(ParameterError, match="Class 7 in y is not among"):
        estimator.learn_one(X[0], 7)
    pd.DataFrame(X, columns=list("abcde")).assign(y=y + 5).to_csv(tmp_path / "x.csv", index=False)
    scan = ms.scan(tmp_path / "x.csv", label="y")
    with pytest.raises(ParameterError, match="is not among the classes given"):
        RecursiveSVC().partial_fit(scan, classes=[0, 1])
    assert RecursiveSVC().partial_fit(scan, classes=[5, 6, 7, 8]).classes_.tolist() == [5, 6, 7, 8]
    assert estimator.to_knowledge().rows.sum() == len(X)


def test_a_class_that_was_never_seen_is_not_predicted_inside_other_estimators():
    X, y = load_iris(return_X_y=True)
    wrapped = OneVsRestClassifier(RecursiveSVC()).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert set(wrapped.predict(X)) == {0, 1}
    assert (wrapped.decision_function(X)[:, 2] < 0).all()
    assert wrapped.partial_fit(X[100:], y[100:]).score(X, y) > 0.8
    pairs = OneVsOneClassifier(RecursiveSVC())
    for start in range(10):
        pairs.partial_fit(X[start::10], y[start::10], classes=[0, 1, 2])
    assert pairs.score(X, y) > 0.95


def saved_or_refused(tmp_path, make):
    """Whether what was learned could be saved; if not, the error says so before anything is learned."""
    try:
        estimator = make()
    except (DataError, ParameterError):
        return False
    for name, content in (("model", estimator.model_), ("knowledge", estimator.to_knowledge())):
        content.save(tmp_path / name)
        ms.load(tmp_path / name)
        (tmp_path / name).unlink()
    return True


@pytest.mark.filterwarnings("ignore:The system is singular")
@pytest.mark.parametrize("size", [1e150, 1e99, 1e60, 1e-60, 1e-99, 1e-101, 1e-150])
def test_no_state_is_reached_that_cannot_be_saved(data, tmp_path, size):
    X, y = data
    X, y = X[:40], y[:40]
    saved = [
        saved_or_refused(tmp_path, make)
        for make in (
            lambda: RecursiveSVC(C=size).fit(X, y),
            lambda: RecursiveSVC().fit(X, y, np.full(len(X), size)),
            lambda: RecursiveSVC().partial_fit(X[:5], y[:5], sample_weight=np.full(5, size)),
            lambda: one_by_one(RecursiveSVC(), X, y, np.full(len(X), size)),
            lambda: RecursiveSVC(class_weight={0: size}).fit(X, y),
            lambda: RecursiveSVC(class_weight={0: size}, per_class=False).fit(X, y),
        )
    ]
    assert all(saved) or not 1e-61 < size < 1e61


@pytest.mark.parametrize(("forgetting", "n_rows"), [(0.5, 320), (0.5, 333), (0.1, 99), (0.1, 101), (1e-300, 2)])
@pytest.mark.parametrize("step", [1, 20])
def test_a_class_whose_weight_has_decayed_is_saved_or_gone(data, tmp_path, forgetting, n_rows, step):
    X, y = data
    X, y = np.vstack([X, X])[:n_rows], (np.r_[y, y] % 2)[:n_rows]

    def make():
        estimator = RecursiveSVC(forgetting=forgetting).learn_one(X[0], 9)
        for start in range(0, n_rows, step):
            estimator.partial_fit(X[start : start + step], y[start : start + step])
        return estimator

    assert saved_or_refused(tmp_path, make)


def test_counts_do_not_overflow(data):
    X, y = data
    knowledge = ms.learn(X, y)
    with pytest.raises(KnowledgeError, match="cannot be counted"):
        RecursiveSVC.from_knowledge(replace(knowledge, rows=np.array([2**62, 2**62, 5])))
