"""ParallelKernelSVC.partial_fit and forget end at the optimum of the current rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

import mergesvm as ms
from mergesvm import ParallelKernelSVC
from reference import blobs

ONLINE = [
    {"units": 1},
    {"units": 3},
    {"units": 1, "beta": 0.5},
    {"units": 3, "beta": 0.5},
    {"units": 3, "method": "active-set"},
    {"units": 2, "kernel": "linear"},
    {"units": 3, "beta": 0.5, "class_weight": "balanced"},
    {"units": 1, "class_weight": "balanced"},
    {"units": 2, "class_weight": "inverse", "C": 100.0},
    {"units": 1, "beta": 0.01, "method": "gradient", "accelerated": True, "C": 0.2, "tol": 1e-5},
]


def assert_same_model(one, other, X):
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-6)
    np.testing.assert_allclose(one.model_.scores(X), other.model_.scores(X), atol=1e-4)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-3)
    rows = [_sorted(classifier.support_vectors_, classifier.dual_coef_) for classifier in (one, other)]
    np.testing.assert_array_equal(*rows)


def _sorted(vectors, coefs):
    vectors = vectors[np.abs(coefs).max(axis=0) > 1e-6]
    return np.unique(np.round(vectors, 9), axis=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parameters", ONLINE, ids=str)
def test_rows_are_added_and_removed(parameters, weighted):
    X, y = blobs(seed=5, n=150, d=3, classes=3)
    weights = np.random.default_rng(5).uniform(0.2, 2.0, 150) if weighted else None

    def part(rows):
        return (X[rows], y[rows], None if weights is None else weights[rows])

    parameters = {"gamma": 0.3, "tol": 1e-6, "C": 3.0} | parameters
    classifier, whole = ParallelKernelSVC(**parameters), ParallelKernelSVC(**parameters).fit(*part(slice(None)))
    for rows in np.array_split(np.arange(150), 3):
        chosen = part(rows)
        classifier.partial_fit(*chosen[:2], sample_weight=chosen[2])
    assert_same_model(classifier, whole, X)
    np.testing.assert_array_equal(np.sort(classifier.support_), np.sort(whole.support_))
    gone = np.random.default_rng(6).choice(150, 60, replace=False)
    stay = np.setdiff1d(np.arange(150), gone)
    for rows in np.array_split(gone, 2):
        classifier.forget(*part(rows))
    rest = ParallelKernelSVC(**parameters).fit(*part(stay))
    assert_same_model(classifier, rest, X)
    chosen = part(gone)
    classifier.partial_fit(*chosen[:2], sample_weight=chosen[2])
    assert_same_model(classifier, whole, X)


@pytest.mark.parametrize("beta", [None, 0.5])
@pytest.mark.parametrize("units", [1, 3])
def test_classes_are_added_and_removed(units, beta):
    X, y = blobs(seed=6, n=120, d=3, classes=4)
    parameters = {"gamma": 0.3, "tol": 1e-6, "units": units, "beta": beta}
    classifier = ParallelKernelSVC(**parameters)
    for label in (2, 0, 3, 1):
        classifier.partial_fit(X[y == label], y[y == label])
    assert classifier.classes_.tolist() == [0, 1, 2, 3]
    assert_same_model(classifier, ParallelKernelSVC(**parameters).fit(X, y), X)
    classifier.forget(X[y == 2], y[y == 2])
    assert classifier.classes_.tolist() == [0, 1, 3]
    assert_same_model(classifier, ParallelKernelSVC(**parameters).fit(X[y != 2], y[y != 2]), X)
    classifier.partial_fit(X[y == 2], y[y == 2])
    assert_same_model(classifier, ParallelKernelSVC(**parameters).fit(X, y), X)
    for label in (0, 1, 2):
        classifier.forget(X[y == label], y[y == label])
    assert classifier.classes_.tolist() == [3]
    assert set(classifier.predict(X)) == {3}


@pytest.mark.parametrize("beta", [None, 0.5])
@pytest.mark.parametrize("units", [1, 3])
def test_a_failed_forget_changes_nothing(units, beta):
    X, y = blobs(seed=7, n=80, d=3, classes=2)
    parameters = {"gamma": 0.3, "tol": 1e-6, "units": units, "beta": beta}
    classifier = ParallelKernelSVC(**parameters).fit(X, y, np.where(np.arange(80) < 40, 1.0, 2.0))
    before = classifier.decision_function(X)
    for rows, labels, weights in [
        (X[:1] + 1e-9, y[:1], None),  # never learned
        (X[:1], 1 - y[:1], None),  # another class
        (X[[0, 1, 0]], y[[0, 1, 0]], None),  # too often
        (X[:1], y[:1], [2.0]),  # another weight
        (X[:1], [9], None),  # an unknown class
    ]:
        with pytest.raises(ms.errors.SubtractionError, match="not among the rows"):
            classifier.forget(rows, labels, weights)
    with pytest.raises(ms.errors.SubtractionError, match="all the rows"):
        classifier.forget(X, y, np.where(np.arange(80) < 40, 1.0, 2.0))
    np.testing.assert_array_equal(classifier.decision_function(X), before)
    classifier.forget(X[:10], y[:10]).partial_fit(X[:10], y[:10])
    np.testing.assert_allclose(classifier.decision_function(X), before, atol=1e-4)


def test_forgetting_a_row_removes_one_of_its_duplicates():
    X, y = blobs(seed=8, n=40, d=2, classes=2)
    parameters = {"gamma": 0.3, "tol": 1e-6, "units": 3}
    thrice = ParallelKernelSVC(**parameters).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    twice = ParallelKernelSVC(**parameters).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    thrice.forget(X, y)
    np.testing.assert_allclose(thrice.objective_, twice.objective_, rtol=1e-6)
    np.testing.assert_allclose(thrice.decision_function(X), twice.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("units", [1, 3])
def test_too_large_values_in_partial_fit_change_nothing(units):
    X, y = blobs(seed=11, n=30, classes=2)
    for kernel, precision, size in [("rbf", None, 1e200), ("linear", None, 1e200), ("rbf", "float32", 1e30)]:
        classifier = ParallelKernelSVC(kernel, units=units, precision=precision).fit(X, y)
        before = classifier.decision_function(X)
        with pytest.raises(ms.errors.DataError, match="too large"):
            classifier.partial_fit(X * size, y)
        np.testing.assert_array_equal(classifier.decision_function(X), before)
        classifier.partial_fit(X[:5], y[:5]).forget(X[:5], y[:5])
        np.testing.assert_allclose(classifier.decision_function(X), before, atol=1e-2)


def test_partial_fit_rejects_labels_that_are_not_among_classes():
    X, y = load_iris(return_X_y=True)
    classifier = ParallelKernelSVC().partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    with pytest.raises(ms.errors.ParameterError, match="Class 2 in y is not among the classes given"):
        classifier.partial_fit(X, y, classes=[0, 1])
    classifier.partial_fit(X[y == 2], y[y == 2], classes=[0, 1, 2])
    assert classifier.classes_.tolist() == [0, 1, 2]


def test_partial_fit_accepts_new_training_options_but_not_another_model():
    X, y = blobs(seed=5, n=60, d=2, classes=2)
    classifier = ParallelKernelSVC(C=2.0, gamma=0.5).fit(X[:40], y[:40])
    with pytest.raises(ms.errors.ParameterError, match=r"C was 2.0 in fit and cannot change to 3.0"):
        classifier.set_params(C=3.0).partial_fit(X[40:], y[40:])
    with pytest.raises(ms.errors.ParameterError, match="kernel was"):
        classifier.set_params(C=2.0, gamma=0.7).forget(X[:1], y[:1])
    classifier.set_params(gamma=0.5, tol=1e-6).partial_fit(X[40:], y[40:])
    assert classifier.violation_ <= 1e-6
    np.testing.assert_allclose(
        classifier.objective_, ParallelKernelSVC(C=2.0, gamma=0.5, tol=1e-6).fit(X, y).objective_, rtol=1e-9
    )


def test_rows_are_copied():
    X, y = blobs(seed=6, n=80, d=2, classes=2)
    given, weights = X[:50].copy(), np.ones(50)
    classifier = ParallelKernelSVC(gamma=0.5, units=2).fit(given, y[:50], weights)
    given[:], weights[:] = 7.0, 0.0
    classifier.partial_fit(X[50:], y[50:]).forget(X[:10], y[:10])
    expected = ParallelKernelSVC(gamma=0.5).fit(X[10:], y[10:])
    np.testing.assert_allclose(classifier.objective_, expected.objective_, rtol=1e-5)


@pytest.mark.parametrize("first", [np.asarray, sparse.csr_array])
def test_dense_and_sparse_rows_can_follow_each_other(first):
    second = sparse.csr_array if first is np.asarray else np.asarray
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 400)) * (generator.random((300, 400)) < 0.008)
    y = (X.sum(axis=1) > 0).astype(int)
    classifier = ParallelKernelSVC(gamma=0.3, units=2, tol=1e-6).fit(first(X[:200]), y[:200])
    classifier.partial_fit(second(X[200:]), y[200:])
    expected = ParallelKernelSVC(gamma=0.3, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(classifier.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_allclose(classifier.decision_function(X), expected.decision_function(X), atol=1e-4)


def test_rows_of_zero_weight_can_be_forgotten_but_not_remain_alone():
    X, y = blobs(seed=8, n=40, d=2, classes=2)
    weights = np.where(np.arange(40) % 4 == 0, 0.0, 1.0)
    classifier = ParallelKernelSVC(gamma=0.5).fit(X, y, weights)
    with pytest.raises(ms.errors.SubtractionError, match="all the rows"):
        classifier.forget(X[weights > 0], y[weights > 0], weights[weights > 0])
    classifier.forget(X[:20], y[:20], weights[:20])
    expected = ParallelKernelSVC(gamma=0.5).fit(X[20:], y[20:], weights[20:])
    np.testing.assert_allclose(classifier.objective_, expected.objective_, rtol=1e-6)


def test_a_class_that_returns_starts_afresh():
    X, y = blobs(seed=9, n=120, d=2, classes=3)
    labels = sorted(set(y.tolist()))
    gone = y == labels[1]
    parameters = {"gamma": 0.5, "beta": 1.0, "tol": 1e-6}
    classifier = ParallelKernelSVC(**parameters).fit(X, y).forget(X[gone], y[gone])
    some = np.flatnonzero(y == labels[0])[:10]
    classifier.forget(X[some], y[some]).partial_fit(X[gone], y[gone])
    left = np.setdiff1d(np.arange(len(y)), some)
    np.testing.assert_allclose(
        classifier.objective_, ParallelKernelSVC(**parameters).fit(X[left], y[left]).objective_, rtol=1e-6
    )


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_forgotten_rows_are_erased(rows):
    X, y = blobs(seed=10, n=300, d=2, classes=2)
    X = X + 5
    classifier = ParallelKernelSVC(gamma=0.5, units=2).fit(rows(X), y).forget(rows(X[:100]), y[:100])
    registry = classifier._training.trainer.registry
    kept = registry.raw.take(np.arange(len(registry.raw)))
    kept = kept if isinstance(kept, np.ndarray) else kept.toarray()
    secret = {row.tobytes() for row in X[:100]}
    assert 0 < len(kept) <= 200
    assert not any(row.tobytes() in secret for row in kept)


@pytest.mark.parametrize("parameters", [{}, {"units": 3}, {"units": 2, "method": "active-set"}, {"beta": 1.0}])
@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_a_sliding_window_needs_constant_memory_and_reaches_the_optimum_of_its_rows(parameters, rows):
    X, y = blobs(seed=11, n=600, d=3, classes=3)
    classifier = ParallelKernelSVC(gamma=0.5, tol=1e-6, **parameters).fit(rows(X[:100]), y[:100])
    for first in range(100, 600, 50):
        classifier.partial_fit(rows(X[first : first + 50]), y[first : first + 50])
        classifier.forget(rows(X[first - 100 : first - 50]), y[first - 100 : first - 50])
        registry = classifier._training.trainer.registry
        assert len(registry.raw) == len(registry.lifted) == len(registry.labels) <= 100
        assert registry.n_shared <= 100
    expected = ParallelKernelSVC(gamma=0.5, tol=1e-6, **parameters).fit(rows(X[500:]), y[500:])
    np.testing.assert_allclose(classifier.objective_, expected.objective_, rtol=1e-6)
    np.testing.assert_array_equal(classifier.predict(rows(X)), expected.predict(rows(X)))
