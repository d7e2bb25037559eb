"""ParallelKernelSVC keeps the conventions of SVC: attributes, signs, shapes, ties, weights and precomputed kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import mergesvm as ms
from mergesvm import ParallelKernelSVC
from reference import blobs

X, Y = load_iris(return_X_y=True)
ATTRIBUTES = ["dual_coef_", "intercept_", "support_", "n_support_", "support_vectors_", "class_weight_", "shape_fit_"]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "parameters",
    [
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2},
        {"kernel": "sigmoid", "gamma": 0.01},
        {"kernel": "precomputed"},
        {"class_weight": {0: 2.0, 1: 0.5}},
    ],
    ids=str,
)
def test_no_attribute_differs_from_svc(parameters, classes):
    rows, labels = X[classes > Y], Y[classes > Y]
    rows = rows @ rows.T if parameters.get("kernel") == "precomputed" else rows
    svc = SVC(tol=1e-7, decision_function_shape="ovo", **parameters).fit(rows, labels)
    classifier = ParallelKernelSVC(tol=1e-7, decision_function_shape="ovo", **parameters).fit(rows, labels)
    names = [*ATTRIBUTES, "fit_status_", *(["coef_"] if parameters.get("kernel") == "linear" else [])]
    for name in names:
        theirs, ours = np.asarray(getattr(svc, name)), np.asarray(getattr(classifier, name))
        assert ours.shape == theirs.shape, name
        np.testing.assert_allclose(ours, theirs, atol=1e-3, err_msg=name)
    np.testing.assert_allclose(classifier.decision_function(rows), svc.decision_function(rows), atol=1e-3)
    np.testing.assert_array_equal(classifier.predict(rows), svc.predict(rows))


def test_coef_is_not_there_for_other_kernels_nor_before_fit_and_cannot_be_written():
    classifier = ParallelKernelSVC("linear")
    names = ["coef_", "objective_", "violation_", "dual_coef_", "intercept_", "support_", "n_iter_", "class_weight_"]
    assert not any(hasattr(classifier, name) for name in names)
    classifier.fit(X, Y)
    np.testing.assert_allclose(
        X @ classifier.coef_.T + classifier.intercept_, -classifier.model_.scores(X), rtol=1e-9, atol=1e-9
    )
    for name in ("coef_", "dual_coef_", "intercept_"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(classifier, name)[0] = 1.0
    with pytest.raises(AttributeError, match="only for kernel='linear'"):
        _ = ParallelKernelSVC().fit(X, Y).coef_
    thin = sparse.random_array((150, 4000), density=0.004, rng=np.random.default_rng(0), format="csr")
    assert sparse.issparse(ParallelKernelSVC("linear").fit(thin, Y).coef_)


@pytest.fixture(scope="module")
def tied():
    """Rows with ties between classes, and an SVC."""
    rows, labels = blobs(seed=7, n=150, d=2, classes=4)
    new = np.random.default_rng(0).uniform(rows.min(), rows.max(), (5000, 2))
    return rows, labels, new


@pytest.mark.parametrize("break_ties", [False, True])
def test_ties_are_not_broken_differently_from_svc_if_so_chosen(tied, break_ties):
    rows, labels, new = tied
    svc = SVC(tol=1e-8, gamma=0.5, break_ties=break_ties).fit(rows, labels)
    classifier = ParallelKernelSVC(tol=1e-8, gamma=0.5, ties="first", break_ties=break_ties).fit(rows, labels)
    votes = np.sort(classifier.model_.votes(new), axis=1)
    assert (votes[:, -1] == votes[:, -2]).sum() > 5
    np.testing.assert_array_equal(classifier.predict(new), svc.predict(new))
    np.testing.assert_array_equal(classifier.decision_function(new).argmax(axis=1), classifier.predict(new))
    if break_ties:
        np.testing.assert_allclose(classifier.decision_function(new), svc.decision_function(new), atol=1e-4)


def test_an_unseen_class_does_not_shift_the_columns_of_pairs():
    classifier = ParallelKernelSVC(decision_function_shape="ovo").partial_fit(X[Y > 0], Y[Y > 0], classes=[0, 1, 2])
    scores = classifier.decision_function(X)
    assert scores.shape == (150, 3)
    np.testing.assert_allclose(scores[:, 2], -classifier.model_.scores(X)[:, 0])


def test_weights_do_not_change_gamma():
    weights = np.random.default_rng(0).uniform(0.1, 5, len(Y))
    weights[::7] = 0
    for rows in (X, sparse.csr_array(X)):
        for units in (1, 3):
            classifier = ParallelKernelSVC(units=units).fit(rows, Y, weights)
            expected = 1 / (4 * X[weights > 0].var())
            np.testing.assert_allclose(classifier.model_.expansion.kernel.gamma, expected, rtol=1e-9)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 1.0, 2: 0.5}], ids=str)
def test_a_weight_is_not_different_from_copies_or_from_absence(class_weight):
    weights = np.random.default_rng(1).integers(0, 4, len(Y))
    parameters = {"gamma": 0.3, "tol": 1e-8, "class_weight": class_weight}
    weighted = ParallelKernelSVC(**parameters).fit(X, Y, weights)
    repeated = ParallelKernelSVC(**parameters).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    np.testing.assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-7)
    np.testing.assert_allclose(weighted.model_.scores(X), repeated.model_.scores(X), atol=1e-4)
    np.testing.assert_allclose(weighted.class_weight_, repeated.class_weight_, rtol=1e-12)


def test_labels_do_not_change_their_type():
    for labels in (Y.astype(np.int32), Y.astype(np.uint8), Y.astype(bytes), Y.astype(str)):
        classifier = ParallelKernelSVC(kernel="sigmoid", gamma=0.01).fit(X, labels)
        assert classifier.classes_.dtype == classifier.predict(X).dtype == labels.dtype
        assert classifier.score(X, labels) > 0.3


@pytest.mark.parametrize("units", [1, 3])
def test_a_precomputed_kernel_is_not_another_model(units):
    parameters = {"C": 2.0, "tol": 1e-6, "units": units}
    known = ParallelKernelSVC("linear", **parameters).fit(X[::2], Y[::2])
    weights = np.where(np.arange(75) % 5, 1.0, 0.0)
    for given in (None, weights):
        known.fit(X[::2], Y[::2], given)
        classifier = ParallelKernelSVC("precomputed", **parameters).fit(X[::2] @ X[::2].T, Y[::2], given)
        np.testing.assert_allclose(classifier.model_.scores(X @ X[::2].T), known.model_.scores(X), atol=1e-4)
        np.testing.assert_array_equal(classifier.support_, known.support_)
    assert classifier.n_features_in_ == 75
    scores = cross_val_score(ParallelKernelSVC("precomputed"), X @ X.T, Y, cv=3)
    np.testing.assert_allclose(scores, cross_val_score(ParallelKernelSVC("linear"), X, Y, cv=3), atol=0.03)


def test_what_a_precomputed_kernel_cannot_do_is_refused(tmp_path):
    K = X @ X.T
    classifier = ParallelKernelSVC("precomputed").fit(K, Y)
    with pytest.raises(ms.errors.DataError, match=r"square matrix .* not 100 x 150"):
        ParallelKernelSVC("precomputed").fit(K[:100], Y[:100])
    for change in (classifier.partial_fit, classifier.forget):
        with pytest.raises(ms.errors.ParameterError, match="cannot be added or removed"):
            change(K[:5], Y[:5])
    with pytest.raises(ms.errors.ParameterError, match="cannot be stored"):
        classifier.model_.save(tmp_path / "model.msvm")
    with pytest.raises(ValueError, match="features"):
        classifier.predict(K[:, :-1])


def test_the_sigmoid_kernel_does_not_end_away_from_a_stationary_point():
    for parameters in (
        {"gamma": 0.5, "coef0": -1.0},
        {"gamma": 0.5, "beta": 0.3, "units": 2},
        {"gamma": 2.0, "C": 50.0},
    ):
        classifier = ParallelKernelSVC("sigmoid", **parameters).fit(X - X.mean(axis=0), Y)
        assert classifier.violation_ <= 1e-3
        assert classifier.fit_status_ == 0
