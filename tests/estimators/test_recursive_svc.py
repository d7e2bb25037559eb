from __future__ import annotations

import pickle
from copy import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mergesvm as ms
from mergesvm import MergeSVC, RecursiveSVC
from mergesvm.errors import DataError, FeatureMapError, FormError, KnowledgeError, ParameterError, SubtractionError
from reference import blobs


@pytest.fixture
def data():
    return blobs(seed=20, n=600, d=5, classes=3, offset=20.0)


def one_by_one(machine, X, y):
    for row, label in zip(X, y.tolist(), strict=True):
        machine.learn_one(row, label)
    return machine


def assert_same(live, expected, X, tolerance=1e-9):
    np.testing.assert_array_equal(live.classes_, expected.classes_)
    scale = np.abs(expected.coef_).max()
    np.testing.assert_allclose(live.coef_, expected.coef_, atol=tolerance * scale)
    np.testing.assert_allclose(live.decision_function(X), expected.decision_function(X), atol=1e-8)
    np.testing.assert_allclose(live.predict_proba(X), expected.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"C": 50.0, "penalize_intercept": False}, {"class_weight": {0: 3.0, 2: 0.2}}])
def test_single_rows_and_batches_match_the_closed_form(data, options):
    X, y = data
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    expected = MergeSVC(**options).fit(X, y)
    assert_same(RecursiveSVC(**options).fit(X, y), expected, X)
    assert_same(one_by_one(RecursiveSVC(**options), X, y), expected, X)
    for step in (1, 3, 20, 250):
        live = RecursiveSVC(**options)
        for start in range(0, len(X), step):
            live.partial_fit(X[start : start + step], y[start : start + step])
        assert_same(live, expected, X)
    mixed = one_by_one(RecursiveSVC(**options).partial_fit(X[:100], y[:100]), X[100:400], y[100:400])
    assert_same(mixed.partial_fit(X[400:], y[400:]), expected, X)


def test_a_copy_learns_by_itself(data):
    X, y = data
    svc = RecursiveSVC().fit(X[:300], y[:300])
    copied = copy(svc).partial_fit(X[300:], y[300:])
    assert_same(svc, RecursiveSVC().fit(X[:300], y[:300]), X)
    assert_same(copied, RecursiveSVC().fit(X, y), X)
    assert copy(RecursiveSVC(C=3.0)).C == 3.0


def test_matches_ridge_classifier_on_two_classes(data):
    X, y = data
    X, y = X[y < 2], y[y < 2]
    ridge = RidgeClassifier(alpha=1 / 3.0).fit(X, y)
    live = one_by_one(RecursiveSVC(C=3.0, penalize_intercept=False), X, y)
    np.testing.assert_allclose(live.coef_[0], np.ravel(ridge.coef_), rtol=1e-9)
    np.testing.assert_allclose(live.intercept_, ridge.intercept_, rtol=1e-9)


def test_c_of_the_paper_is_half_of_ours(data):
    # Equation 10 of the paper: 1/2 |w|^2 + C sum (w.u + theta - d)^2, with theta free.
    X, y = data
    X, d, C = X[y < 2], np.where(y[y < 2] == 1, 1.0, -1.0), 0.7
    near = X - X.mean(axis=0)
    w = np.linalg.solve(np.eye(5) + 2 * C * near.T @ near, 2 * C * near.T @ d)
    live = one_by_one(RecursiveSVC(C=2 * C, penalize_intercept=False), X, d)
    np.testing.assert_allclose(live.coef_[0], w, rtol=1e-9)
    np.testing.assert_allclose(live.intercept_, d.mean() - w @ X.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("step", [1, 4, 40, 300])
def test_window_matches_the_model_of_its_rows(data, step):
    X, y = data
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(X))
    live = RecursiveSVC(window=150)
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        live.partial_fit(X[part], y[part], sample_weight=weights[part])
    assert_same(live, MergeSVC().fit(X[-150:], y[-150:], weights[-150:]), X)
    assert live.to_knowledge().rows.sum() == 150
    live.forget(X[-20:-10], y[-20:-10], weights[-20:-10])
    left = np.r_[-150:-20, -10:0]
    assert_same(live, MergeSVC().fit(X[left], y[left], weights[left]), X)
    with pytest.raises(SubtractionError, match="is not among the 140 rows in the window"):
        live.forget(X[:1], y[:1], weights[:1])
    assert_same(live, MergeSVC().fit(X[left], y[left], weights[left]), X)
    for row, label, weight in zip(X[:200], y[:200], weights[:200], strict=True):
        live.learn_one(row, label, weight)
    assert_same(live, MergeSVC().fit(X[50:200], y[50:200], weights[50:200]), X)


def test_class_leaves_the_window_and_returns(data):
    X, y = data
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    live = one_by_one(RecursiveSVC(window=100), X, y)
    assert live.classes_.tolist() == [2]
    assert set(live.predict(X)) == {2}
    assert_same(live.partial_fit(X[:60], y[:60]), MergeSVC().fit(np.r_[X[-40:], X[:60]], np.r_[y[-40:], y[:60]]), X)


def faded_solution(X, y, weights, ridge):
    """The problem whose penalty differs by coordinate, and whose intercept is free, straight from its definition."""
    mean = weights @ X / weights.sum()
    targets = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    near = X - mean
    return np.linalg.solve(np.diag(ridge) + (near.T * weights) @ near, (near.T * weights) @ targets).T


@pytest.mark.parametrize("forgetting", [0.999, 0.97, 0.5])
@pytest.mark.parametrize("step", [1, 5, 60])
def test_forgetting_factor_matches_sample_weights(data, forgetting, step):
    X, y = data
    live = RecursiveSVC(C=2.0, forgetting=forgetting, penalize_intercept=False)
    for start in range(0, len(X), step):
        live.partial_fit(X[start : start + step], y[start : start + step])
    weights = forgetting ** np.arange(len(X) - 1, -1, -1.0)
    ridge = live.live_._state._rls.state.ridge
    assert (ridge <= 0.5).all()
    assert (ridge > 0.5 * np.exp(-1) * 0.4).all()
    expected = faded_solution(X, y, weights, ridge)
    np.testing.assert_allclose(live.coef_, expected, atol=1e-9 * np.abs(expected).max())
    np.testing.assert_allclose(live.to_knowledge().counts.sum(), weights.sum(), rtol=1e-12)
    with pytest.raises(FormError, match="depends on its age"):
        live.forget(X[:1], y[:1])


def test_inverse_stays_bounded_if_features_no_longer_vary():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(3000, 4)), generator.integers(0, 2, 3000)
    X[1000:, 2] = 7.0
    live = one_by_one(RecursiveSVC(forgetting=0.9), X, y)
    assert np.isfinite(live.coef_).all()
    assert np.abs(live.live_._state._rls.state.inverse).max() < 1e3
    assert live.drift_ < 1e-8


@pytest.mark.parametrize("taken", [1, 5, 100, 450])
def test_forget_matches_the_model_of_the_remaining_rows(data, taken):
    X, y = data
    live = one_by_one(RecursiveSVC(C=5.0), X, y).forget(X[:taken], y[:taken])
    assert_same(live, MergeSVC(C=5.0).fit(X[taken:], y[taken:]), X)
    live.partial_fit(X[:taken], y[:taken])
    assert_same(live, MergeSVC(C=5.0).fit(X, y), X)


def test_all_rows_can_be_forgotten_and_learned_again(data):
    X, y = data
    live = RecursiveSVC().fit(X, y).forget(X[y == 1], y[y == 1])
    assert live.classes_.tolist() == [0, 2]
    assert_same(live, MergeSVC().fit(X[y != 1], y[y != 1]), X)
    live.forget(X[y != 1], y[y != 1])
    with pytest.raises(KnowledgeError, match="no model to predict with"):
        live.predict(X)
    assert live.predict_one(X[0]) is None
    assert_same(one_by_one(live, X, y), MergeSVC().fit(X, y), X)


def test_from_knowledge_and_to_knowledge(data):
    X, y = data
    live = RecursiveSVC.from_knowledge(ms.learn(X[:300], y[:300]), C=2.0)
    assert_same(one_by_one(live, X[300:], y[300:]), MergeSVC(C=2.0).fit(X, y), X)
    halves = [one_by_one(RecursiveSVC(), X[i::2], y[i::2]).to_knowledge() for i in range(2)]
    assert_same(MergeSVC(C=2.0).merge(halves[0] + halves[1]), MergeSVC(C=2.0).fit(X, y), X)
    assert_same(MergeSVC(multiclass="ovo").merge(live.to_knowledge()), MergeSVC(multiclass="ovo").fit(X, y), X)
    with pytest.raises(ParameterError, match="knowledge holds sums only"):
        RecursiveSVC.from_knowledge(halves[0], window=5)
    with pytest.raises(TypeError, match="not ndarray"):
        RecursiveSVC.from_knowledge(X)
    pooled = RecursiveSVC.from_knowledge(ms.learn(X, y, per_class=False))
    assert_same(pooled.forget(X[:50], y[:50]), MergeSVC(per_class=False).fit(X[50:], y[50:]), X)
    weights = {0: 1.0, 1: 2.0, 2: 3.0}
    weighted = ms.learn(X[:300], y[:300], per_class=False, class_weight=weights)
    with pytest.raises(FormError, match="class weights are fixed"):
        RecursiveSVC.from_knowledge(weighted)
    live = one_by_one(RecursiveSVC.from_knowledge(weighted, class_weight=weights), X[300:], y[300:])
    expected = MergeSVC(per_class=False, class_weight=weights).fit(X, y)
    assert_same(live, expected, X)
    assert_same(RecursiveSVC(per_class=False, class_weight=weights).fit(X, y), expected, X)
    assert_same(MergeSVC(per_class=False, class_weight=weights).merge(live.to_knowledge()), expected, X)


def test_with_a_feature_map(data):
    X, y = data
    plan = ms.features.Fourier(30, precision="float64").freeze(X)
    expected = MergeSVC(features=plan).fit(X, y)
    live = one_by_one(RecursiveSVC(features=plan), X, y)
    assert live.features_ == plan
    assert_same(live, expected, X)
    assert live.to_knowledge().features == plan
    assert_same(
        RecursiveSVC.from_knowledge(live.to_knowledge()).forget(X[:9], y[:9]).partial_fit(X[:9], y[:9]), expected, X
    )
    assert [live.predict_one(row) for row in X[:50]] == expected.predict(X[:50]).tolist()
    with pytest.raises(FeatureMapError, match="one row is not enough"):
        RecursiveSVC(features="fourier:5").learn_one(X[0], 0)
    named = RecursiveSVC(features="fourier:20", random_state=1).partial_fit(X[:50], y[:50])
    assert named.features_ == ms.features.Fourier(20, seed=1).freeze(X[:50])


def test_accepts_tables_sparse_arrays_lists_and_dicts(data):
    X, y = data
    names = list("abcde")
    expected = MergeSVC().fit(X, y)
    for table in (
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
        pa.table(dict(zip(names, X.T, strict=True))),
    ):
        live = RecursiveSVC().fit(table, y)
        np.testing.assert_allclose(live.coef_, expected.coef_, atol=1e-10)
        assert live.to_knowledge().signature.names == tuple(names)
    live = RecursiveSVC().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(live.coef_, expected.coef_, atol=1e-9)
    live = RecursiveSVC()
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        assert live.predict_one(dict(zip(names, row, strict=True))) in (None, 0, 1, 2)
        live.learn_one(dict(zip(reversed(names), reversed(row), strict=True)), label)
    order = [names.index(name) for name in live.feature_names_in_]
    np.testing.assert_allclose(live.coef_, expected.coef_[:, order], atol=1e-10)
    with pytest.raises(DataError, match="lacks feature 'a'"):
        live.learn_one(dict.fromkeys("bcde", 1.0), 0)
    with pytest.raises(DataError, match="has feature 'z'"):
        live.learn_one(dict.fromkeys("abcdez", 1.0), 0)
    with pytest.raises(DataError, match="has 4 features, but 5"):
        live.predict_one([1.0] * 4)
    with pytest.raises(DataError, match="earlier rows did not"):
        RecursiveSVC().learn_one([1.0], 0).learn_one({"a": 1.0}, 1)


def test_a_failure_changes_nothing(data):
    X, y = data
    live = one_by_one(RecursiveSVC(), X, y)
    before = live.coef_
    bad = X.copy()
    bad[500, 3] = np.nan
    with pytest.raises(DataError, match="row 500, column 3"):
        live.partial_fit(bad, y)
    with pytest.raises(DataError, match="NaN, infinity"):
        live.learn_one(bad[500], 1)
    with pytest.raises(DataError, match="too large"):
        live.partial_fit(np.full((20, 5), 1e200), np.zeros(20, dtype=int))
    with pytest.raises(ms.errors.SignatureError, match="text labels after rows of whole number"):
        live.learn_one(X[0], "zero")
    with pytest.raises(DataError, match="must be a number from 0 to"):
        live.learn_one(X[0], 0, weight=-1)
    with pytest.raises(SubtractionError, match="Class 7 was never learned"):
        live.forget(X[:5], [7] * 5)
    with pytest.raises(SubtractionError):
        live.forget(np.vstack([X, X]), np.r_[y, y])
    with pytest.raises(ParameterError, match="Class 2 in y is not among"):
        live.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="4 features"):
        live.partial_fit(X[:, :4], y)
    np.testing.assert_allclose(live.coef_, before, atol=1e-12)
    assert live.to_knowledge().rows.sum() == len(X)


def test_an_interrupt_changes_nothing(data, monkeypatch):
    X, y = data
    for machine in (RecursiveSVC(), RecursiveSVC(window=100)):
        live = one_by_one(machine, X[:300], y[:300])
        before = live.coef_

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(live.live_._state, "_count", interrupted)
            with pytest.raises(KeyboardInterrupt):
                live.partial_fit(X[300:], y[300:])
        np.testing.assert_allclose(live.coef_, before, atol=1e-12)


def test_invalid_parameters_are_named(data):
    X, y = data
    for parameters, match in [
        ({"C": -1}, "The 'C' parameter of RecursiveSVC must be a float in the range .* Got -1 instead"),
        ({"forgetting": 0.0}, r"'forgetting' .* must be a float in the range \(0.0, 1.0\]"),
        ({"forgetting": 1.5}, "Got 1.5"),
        ({"window": 0}, r"'window' .* must be an int in the range \[1, inf\) or None. Got 0"),
        ({"check_every": 2.5}, "'check_every' .* must be an int in the range .* Got 2.5"),
        ({"class_weight": "inverse"}, "must be a str among {'balanced'}"),
        ({"window": True}, "Got True instead"),
        ({"class_weight": {0: -1.0}}, "non-negative"),
    ]:
        for use in (lambda machine: machine.fit(X, y), lambda machine: machine.learn_one(X[0], 0)):
            machine = RecursiveSVC(**parameters)
            with pytest.raises(ParameterError, match=match):
                use(machine)
            assert not hasattr(machine, "live_")
            assert not hasattr(machine, "n_features_in_")
    with pytest.raises(ParameterError, match="'balanced' depends on the number of rows"):
        RecursiveSVC(class_weight="balanced").partial_fit(X, y)


def test_balanced_weights_are_those_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    live = RecursiveSVC(class_weight="balanced", penalize_intercept=False).fit(X, y)
    expected = RidgeClassifier(class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(live.coef_[0], np.ravel(expected.coef_), rtol=1e-8)


def test_fit_and_partial_fit_of_a_scan(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcde")).assign(y=y)
    frame[:350].to_csv(tmp_path / "1.csv", index=False)
    frame[350:].to_csv(tmp_path / "2.csv", index=False)
    rows = ms.scan(str(tmp_path / "*.csv"), label="y", batch_rows=64)
    live = RecursiveSVC().fit(rows)
    assert_same(live, MergeSVC().fit(frame[list("abcde")], y), frame[list("abcde")])
    assert [origin.rows for origin in live.to_knowledge().provenance] == [350, 250]
    with pytest.raises(ParameterError, match="leave out y and sample_weight"):
        live.partial_fit(rows, y)
    with pytest.raises(DataError, match="columns differ"):
        live.partial_fit(ms.scan(tmp_path / "1.csv", label="y", features=["a", "b"]))


def test_pipelines_and_searches_of_scikit_learn():
    X, y = load_iris(return_X_y=True, as_frame=True)
    assert cross_val_score(RecursiveSVC(), X, y).mean() > 0.8
    piped = make_pipeline(StandardScaler(), RecursiveSVC())
    search = GridSearchCV(piped, {"recursivesvc__C": [0.001, 1.0]}).fit(X, y)
    assert search.best_score_ > 0.8
    live = RecursiveSVC().fit(X, y)
    assert not hasattr(clone(live), "live_")
    again = pickle.loads(pickle.dumps(live))
    np.testing.assert_array_equal(again.predict_proba(X), live.predict_proba(X))
    one_by_one(again, X.to_numpy(), y)
    assert_same(again, MergeSVC().fit(pd.concat([X, X]), np.r_[y, y]), X)


def test_current_model_can_be_saved(data, tmp_path):
    X, y = data
    live = one_by_one(RecursiveSVC(class_weight={1: 2.0}), X, y)
    live.model_.save(tmp_path / "now.msvm")
    loaded = ms.load_model(tmp_path / "now.msvm")
    assert loaded.solver_ == "recursive"
    np.testing.assert_array_equal(loaded.predict_proba(X), live.predict_proba(X))
    live.to_knowledge().save(tmp_path / "now.knowledge")
    assert ms.Knowledge.load(tmp_path / "now.knowledge").rows.sum() == len(X)


def test_not_fitted_error_before_fit():
    for ask in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(RecursiveSVC(), ask)([[1.0]])
    for ask in ("coef_", "intercept_", "classes_", "model_", "checks_", "drift_"):
        with pytest.raises(NotFittedError):
            getattr(RecursiveSVC(), ask)
    assert RecursiveSVC().predict_one([1.0]) is None
    with pytest.raises(NotFittedError):
        RecursiveSVC().to_knowledge()
