"""MergeSVC with feature maps."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mergesvm as ms
from mergesvm import MergeSVC
from reference import blobs


@pytest.fixture
def data():
    return blobs(seed=20, n=600, d=5, classes=3, offset=20.0)


def assert_same_model(one, other, X):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_allclose(one.model_.scores(X), other.model_.scores(X), atol=1e-10)


SPECS = ["hidden:30", "fourier:30", "nystroem:30", "hidden:20+nystroem:15"]


each_spec = pytest.mark.parametrize(
    "spec", [f"{s.replace('+', ',precision=float64+')},precision=float64" for s in SPECS]
)


@each_spec
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_partial_fit_forget_and_merge(data, spec, multiclass):
    X, y = data
    plan = ms.features.as_map(spec, seed=3).freeze(X, y)
    whole = MergeSVC(multiclass=multiclass, features=plan).fit(X, y)
    assert whole.features_ == plan
    assert whole.n_features_in_ == 5
    assert whole.coef_.shape[1] == plan.width
    assert_same_model(whole, MergeSVC(multiclass=multiclass, features=spec, random_state=3).fit(X, y), X)
    sliced = MergeSVC(multiclass=multiclass, features=plan)
    for part in np.array_split(np.argsort(y), 7):
        sliced.partial_fit(X[part], y[part])
    assert_same_model(sliced, whole, X)
    halves = [MergeSVC(multiclass=multiclass, features=plan).fit(X[i::2], y[i::2]) for i in range(2)]
    assert_same_model(halves[0] + halves[1], whole, X)
    assert_same_model(sum(halves), whole, X)
    assert_same_model(whole.forget(X[1::2], y[1::2]), halves[0], X)
    assert_same_model(whole.merge(halves[1].knowledge_), sliced, X)


@each_spec
def test_map_is_frozen_on_the_first_rows_without_a_warning_and_kept(data, spec):
    X, y = data
    machine = MergeSVC(features=spec, random_state=1).partial_fit(X[:200], y[:200])
    plan = machine.features_
    assert plan == ms.features.as_map(spec, seed=1).freeze(X[:200], y[:200])
    assert machine.partial_fit(X[200:] + 50, y[200:]).features_ == plan
    machine.forget(X[200:] + 50, y[200:]).forget(X[:200], y[:200])
    assert machine.features_ == plan
    assert_same_model(machine.partial_fit(X, y), MergeSVC(features=plan).fit(X, y), X)
    assert machine.fit(X[300:], y[300:]).features_ != plan


@each_spec
def test_clone_pickle_and_resolve(data, spec):
    X, y = data
    plan = ms.features.as_map(spec).freeze(X, y)
    for features in (spec, plan):
        machine = MergeSVC(features=features, random_state=2).fit(X, y)
        again = pickle.loads(pickle.dumps(machine))
        np.testing.assert_array_equal(again.decision_function(X), machine.decision_function(X))
        assert again.features_ == machine.features_
        copied = clone(machine)
        assert not hasattr(copied, "knowledge_")
        assert copied.get_params() == machine.get_params()
        assert_same_model(copied.fit(X, y), machine, X)
        assert_same_model(again.resolve(C=9.0), MergeSVC(C=9.0, features=machine.features_).fit(X, y), X)
        with pytest.raises(ms.errors.ParameterError, match="'features' cannot be changed without data"):
            machine.resolve(features=None)


def test_merge_with_another_map_is_an_error_that_names_both(data):
    X, y = data
    found = [
        MergeSVC(features=features, n_features=20, random_state=seed).fit(X, y)
        for features, seed in (("hidden", 0), ("hidden", 1), ("fourier", 0), (None, None))
    ]
    for place, one in enumerate(found):
        before = one.decision_function(X)
        for other in found[:place] + found[place + 1 :]:
            for use in (lambda one=one, other=other: one + other, lambda one=one, other=other: one.merge(other)):
                with pytest.raises(ms.errors.SignatureError) as caught:
                    use()
                assert str(one.features_) in str(caught.value)
                assert str(other.features_) in str(caught.value)
        np.testing.assert_array_equal(one.decision_function(X), before)


def test_size_of_the_map_in_a_grid_search(data):
    X, _ = data
    rings = (np.hypot(*(X[:, :2] - X[:, :2].mean(axis=0)).T) > 2).astype(int)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MergeSVC(features="fourier", random_state=0)),
        {"mergesvc__n_features": [2, 100], "mergesvc__features": ["fourier", "hidden"]},
        cv=3,
    ).fit(X, rings)
    assert search.best_params_["mergesvc__n_features"] == 100
    assert search.best_score_ > cross_val_score(MergeSVC(standardize=True), X, rings, cv=3).mean() + 0.1
    assert search.best_estimator_[-1].coef_.shape == (1, 100)


def test_random_state_of_any_kind(data):
    X, y = data
    one = MergeSVC(features="fourier", n_features=10, random_state=np.random.RandomState(4)).fit(X, y)
    other = MergeSVC(features="fourier", n_features=10, random_state=np.random.RandomState(4)).fit(X, y)
    assert one.features_ == other.features_
    assert MergeSVC(features="fourier", n_features=10).fit(X, y).features_ != one.features_
    assert MergeSVC(features="fourier:10,seed=7", random_state=3).fit(X, y).features_.seed == 7
    for bad in ("fourrier", "fourier:0", 3, ["fourier"]):
        with pytest.raises(ms.errors.ParameterError):
            MergeSVC(features=bad).fit(X, y)


def test_feature_names_are_checked_against_those_of_the_map(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    plan = ms.features.Fourier(20).freeze(frame)
    machine = MergeSVC(features=plan).fit(frame, y)
    assert machine.knowledge_.signature.names == tuple("abcde")
    assert_same_model(machine, MergeSVC().merge(ms.learn(frame, y, features=plan)), frame)
    with pytest.raises(ms.errors.DataError, match=r"Column 0 of X is named 'b', but .* was frozen with 'a' there"):
        MergeSVC(features=plan).fit(frame[list("bacde")], y)
    assert_same_model(MergeSVC(features=plan).fit(X, y), MergeSVC(features=plan).fit(pd.DataFrame(X), y), X)


def test_failure_changes_nothing(data):
    X, y = data
    machine = MergeSVC(features="hidden", n_features=20, random_state=0).fit(X, y)
    before = machine.decision_function(X)
    bad = X[:9].copy()
    bad[4, 2] = np.inf
    for use in (
        lambda: machine.partial_fit(bad, y[:9]),
        lambda: machine.forget(bad, y[:9]),
        lambda: machine.fit(bad, y[:9]),
    ):
        with pytest.raises(ms.errors.DataError, match="contains infinity: row 4, column 2"):
            use()
    with pytest.raises(ms.errors.DataError, match="contains infinity: row 4, column 2"):
        machine.predict(bad)
    with pytest.raises(ValueError, match="4 features"):
        machine.partial_fit(X[:, :4], y)
    np.testing.assert_array_equal(machine.decision_function(X), before)
