"""ParallelKernelSVC without beta solves the problem of SVC."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.svm import SVC

import mergesvm as ms
from kernel_reference import assert_same_as_svc, pair_objectives
from mergesvm import ParallelKernelSVC
from reference import blobs


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"gamma": "auto"},
        {"gamma": 0.3, "C": 20.0},
        {"kernel": "linear", "C": 0.1},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
    ],
    ids=str,
)
def test_without_beta_the_model_is_that_of_svc(parameters, classes):
    X, y = blobs(seed=1, n=150, d=4, classes=classes)
    svc = SVC(tol=1e-7, **parameters).fit(X, y)
    assert_same_as_svc(ParallelKernelSVC(tol=1e-6, **parameters).fit(X, y), svc, X)
    assert_same_as_svc(ParallelKernelSVC(tol=1e-6, units=2, **parameters).fit(X, y), svc, X)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "convert",
    [
        sparse.csr_array,
        lambda X: sparse.csr_matrix(X),
        lambda X: X.astype(np.float32),
        lambda X: np.asfortranarray(X),
        lambda X: np.clip(8 * X + 60, 0, 255).astype(np.uint8),
        lambda X: pd.DataFrame(X, columns=list("abcd")),
    ],
    ids=["csr_array", "csr_matrix", "float32", "fortran", "uint8", "frame"],
)
def test_rows_of_any_type_give_the_model_of_svc(convert, classes):
    X, y = blobs(seed=2, n=120, d=4, classes=classes)
    X, labels = convert(np.where(np.abs(X) < 0.5, 0, X)), np.array(["spam", "eggs", "ham"])[y]
    svc = SVC(tol=1e-7, C=2.0).fit(X.astype(np.float64) if isinstance(X, np.ndarray) else X, labels)
    classifier = ParallelKernelSVC(tol=1e-6, C=2.0, units=2).fit(X, labels)
    if isinstance(X, pd.DataFrame):
        assert classifier.feature_names_in_.tolist() == list("abcd")
        with pytest.raises(ValueError, match="feature names"):
            classifier.predict(X[list("bacd")])
        X, svc = X.to_numpy(), SVC(tol=1e-7, C=2.0).fit(X.to_numpy(), labels)
        classifier = ParallelKernelSVC(tol=1e-6, C=2.0, units=2).fit(X, labels)
    assert_same_as_svc(classifier, svc, X)


def test_very_sparse_rows_stay_sparse():
    X = sparse.random_array((150, 4000), density=0.004, rng=np.random.default_rng(0), format="csr")
    y = np.asarray(X.sum(axis=1)).ravel() > np.median(np.asarray(X.sum(axis=1)))
    for kernel in ("rbf", "linear", "poly"):
        svc = SVC(kernel=kernel, tol=1e-7, C=5.0, coef0=1.0).fit(X, y)
        classifier = ParallelKernelSVC(kernel, tol=1e-6, C=5.0, coef0=1.0, units=2).fit(X, y)
        assert sparse.issparse(classifier.support_vectors_)
        assert_same_as_svc(classifier, svc, X)
        np.testing.assert_allclose(
            classifier.decision_function(X.toarray()), classifier.decision_function(X), atol=1e-9
        )


@pytest.mark.parametrize(
    ("class_weight", "weighted"),
    [({"no": 0.3, "yes": 4.0}, False), ({"no": 0.3, "yes": 4.0}, True), ("balanced", False), (None, True)],
    ids=str,
)
def test_weights_act_as_in_svc(class_weight, weighted):
    generator = np.random.default_rng(3)
    X, y = blobs(seed=3, n=120, d=3, classes=2)
    y, weights = np.array(["no", "yes"])[y], generator.uniform(0.1, 3.0, 120) if weighted else None
    parameters = {"class_weight": class_weight, "gamma": 0.4}
    svc = SVC(tol=1e-7, **parameters).fit(X, y, weights)
    for units in (1, 3):
        assert_same_as_svc(ParallelKernelSVC(tol=1e-6, units=units, **parameters).fit(X, y, weights), svc, X)


def test_rows_of_zero_weight_are_ignored():
    X, y = blobs(seed=4, n=120, d=3, classes=3)
    weights = np.random.default_rng(4).choice([0.0, 1.0, 2.0], 120)
    there = weights > 0
    for beta in (None, 1.0):
        classifier = ParallelKernelSVC(tol=1e-6, beta=beta).fit(X, y, weights)
        other = ParallelKernelSVC(tol=1e-6, beta=beta).fit(X[there], y[there], weights[there])
        np.testing.assert_allclose(classifier.objective_, other.objective_, rtol=1e-9)
        np.testing.assert_allclose(classifier.model_.scores(X), other.model_.scores(X), atol=1e-6)
    with pytest.raises(ms.errors.DataError, match="zero weight"):
        ParallelKernelSVC().fit(X, y, np.zeros(120))


def test_breast_cancer_gives_the_model_of_svc():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    assert_same_as_svc(ParallelKernelSVC(tol=1e-6, C=10.0, units=4).fit(X, y), SVC(tol=1e-7, C=10.0).fit(X, y), X)


def test_float32_is_precise_enough_for_digits():
    X, y = load_digits(return_X_y=True)
    single = ParallelKernelSVC(C=10.0, tol=1e-4, precision="float32").fit(X[:1500], y[:1500])
    svc = SVC(C=10.0, tol=1e-6).fit(X[:1500], y[:1500])
    np.testing.assert_allclose(single.objective_, pair_objectives(svc), rtol=1e-5)
    scores = -svc.set_params(decision_function_shape="ovo").decision_function(X)
    np.testing.assert_allclose(single.model_.scores(X), scores, atol=1e-3)
    assert (single.predict(X) == svc.predict(X)).mean() > 0.998  # except for ties


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y > 0,
        lambda y: y.astype(np.float64),
        lambda y: y.astype(np.int8) - 5,
        lambda y: np.array(["a", "b"], dtype=object)[y],
        lambda y: pd.Series(y).map({0: "x", 1: "y"}),
        lambda y: y.tolist(),
    ],
)
def test_labels_of_any_type_are_predicted(labels):
    X, y = blobs(seed=15, n=60, d=2, classes=2)
    given = labels(y)
    classifier = ParallelKernelSVC(units=2).fit(X, given)
    svc = SVC().fit(X, np.asarray(given))
    np.testing.assert_array_equal(classifier.predict(X), svc.predict(X))
    np.testing.assert_allclose(classifier.decision_function(X), svc.decision_function(X), atol=5e-3)


def test_many_classes_of_two_rows_each():
    X = np.random.default_rng(16).normal(size=(60, 2)) * 3
    y = np.repeat(np.arange(30), 2)
    svc = SVC(tol=1e-7, C=100.0).fit(X, y)
    classifier = ParallelKernelSVC(tol=1e-6, C=100.0).fit(X, y)
    np.testing.assert_allclose(classifier.objective_, pair_objectives(svc), rtol=1e-6)
    scores = svc.set_params(decision_function_shape="ovo").decision_function(X)
    np.testing.assert_allclose(classifier.model_.scores(X), -scores, atol=1e-4)


@pytest.mark.parametrize("C", [1e-8, 1e8])
@pytest.mark.parametrize("gamma", ["scale", 1e4])
def test_extreme_parameters_give_the_model_of_svc(C, gamma):
    X, y = blobs(seed=17, n=60, d=3, classes=2)
    svc = SVC(tol=1e-9, C=C, gamma=gamma).fit(X, y)
    for units in (1, 3):
        classifier = ParallelKernelSVC(tol=1e-6, C=C, gamma=gamma, units=units).fit(X, y)
        np.testing.assert_allclose(classifier.objective_, pair_objectives(svc), rtol=1e-6)
        scores = svc.decision_function(X)
        np.testing.assert_allclose(classifier.decision_function(X), scores, atol=1e-4 * max(1.0, np.abs(scores).max()))


def test_constant_features_predict_the_larger_class():
    y = np.arange(20) % 3 == 0
    for X in (np.ones((20, 3)), np.zeros((20, 3)), np.full((20, 1), 1e6)):
        for kernel in ("rbf", "linear"):
            classifier = ParallelKernelSVC(kernel, units=2).fit(X, y)
            svc = SVC(kernel=kernel).fit(X, y)
            np.testing.assert_array_equal(classifier.predict(X), svc.predict(X))
            np.testing.assert_allclose(classifier.decision_function(X), -1.0, atol=1e-6)


def test_weights_may_sum_to_one():
    X, y = blobs(seed=7, n=60, d=2, classes=2)
    whole = ParallelKernelSVC(gamma=0.5, tol=1e-8).fit(X, y)
    scaled = ParallelKernelSVC(gamma=0.5, tol=1e-8, C=60.0).fit(X, y, np.full(60, 1 / 60))
    np.testing.assert_allclose(scaled.predict_proba(X), whole.predict_proba(X), atol=1e-6)


def test_a_kernel_function_receives_float64():
    X = np.random.default_rng(1).integers(0, 255, (60, 5)).astype(np.uint8)
    y = X[:, 0] > 127
    given = ParallelKernelSVC(lambda a, b: a @ b.T / 1e4).fit(X, y)
    wide = ParallelKernelSVC(lambda a, b: a @ b.T / 1e4).fit(X.astype(float), y)
    np.testing.assert_allclose(given.decision_function(X), wide.decision_function(X), rtol=1e-9)
    thin = ParallelKernelSVC(lambda a, b: a @ b.T / 1e4, units=2).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.decision_function(sparse.csr_array(X)), wide.decision_function(X), atol=1e-5)
