"""The solution against 50-digit arithmetic, QR least squares, and scikit-learn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mergesvm as ms
from reference import blobs, hyperplane_by_qr, scores_by_mpmath, side_weights

SCHEMES = [None, "inverse", "complement", "balanced"]


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("penalize_intercept", [True, False])
def test_scores_agree_with_50_digits_at_any_offset(offset, scheme, penalize_intercept):
    X, y = blobs(seed=1, n=40, d=3, classes=2, offset=offset)
    y[:4] = [0, 1, 1, 1]
    sides = side_weights(scheme, float((y == 1).sum()), float((y == 0).sum()))
    expected = scores_by_mpmath(X, 2 * y - 1, np.where(y == 1, *sides), 2.5, X, penalize_intercept)
    model = ms.solve(ms.learn(X, y), C=2.5, class_weight=scheme, penalize_intercept=penalize_intercept)
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-12)
    pieces = ms.merge([ms.learn(X[i::3], y[i::3]) for i in range(3)])
    merged = ms.solve(pieces, C=2.5, class_weight=scheme, penalize_intercept=penalize_intercept)
    np.testing.assert_allclose(merged.decision_function(X), expected, atol=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_one_vs_rest_agrees_with_qr_on_the_stacked_rows(scheme, C):
    X, y = blobs(seed=2, n=4_000, d=20, classes=4)
    weights = np.random.default_rng(0).choice([0.5, 1.0, 2.0], len(y))
    model = ms.solve(ms.learn(X, y, weights), C=C, class_weight=scheme)
    for label in range(4):
        inside = y == label
        sides = side_weights(scheme, weights[inside].sum(), weights[~inside].sum())
        w, b = hyperplane_by_qr(X, np.where(inside, 1, -1), weights * np.where(inside, *sides), C)
        np.testing.assert_allclose(model.coef_[label], w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.intercept_[label], b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_vs_one_agrees_with_qr_on_the_rows_of_each_pair(scheme):
    X, y = blobs(seed=3, n=3_000, d=10, classes=4)
    model = ms.solve(ms.learn(X, y), C=0.7, class_weight=scheme, multiclass="ovo")
    for p, (i, j) in enumerate(itertools.combinations(range(4), 2)):
        pair = (y == i) | (y == j)
        sides = side_weights(scheme, float((y == j).sum()), float((y == i).sum()))
        w, b = hyperplane_by_qr(X[pair], np.where(y[pair] == j, 1, -1), np.where(y[pair] == j, *sides), 0.7)
        np.testing.assert_allclose(model.coef_[p], w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.intercept_[p], b, rtol=1e-9, atol=1e-12)


def test_weights_of_a_mapping_are_used_as_given():
    X, y = blobs(seed=4, n=500, d=5, classes=3)
    model = ms.solve(ms.learn(X, y), class_weight={0: 2.0, 1: 0.5, 2: 7.0})
    omega = np.array([2.0, 0.5, 7.0])[y]
    for label in range(3):
        w, b = hyperplane_by_qr(X, np.where(y == label, 1, -1), omega, 1.0)
        np.testing.assert_allclose(np.append(model.coef_[label], model.intercept_[label]), np.append(w, b), rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_without_penalty_on_the_intercept_it_is_the_ridge_classifier(classes, C):
    X, y = blobs(seed=5, n=2_000, d=15, classes=classes, offset=3.0)
    ridge = RidgeClassifier(alpha=1 / C, solver="cholesky").fit(X, y)
    model = ms.solve(ms.learn(X, y), C=C, penalize_intercept=False)
    np.testing.assert_allclose(model.coef_, np.atleast_2d(ridge.coef_), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, ridge.intercept_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), ridge.predict(X))


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("penalize_intercept", [True, False])
def test_standardising_is_a_scaler_before_the_same_machine(multiclass, penalize_intercept):
    X, y = blobs(seed=6, n=1_000, d=6, classes=3, offset=50.0)
    X *= 10.0 ** np.arange(-3, 3)
    X[:, 2] = 4.0
    terms = {"multiclass": multiclass, "penalize_intercept": penalize_intercept, "class_weight": "balanced"}
    piped = make_pipeline(StandardScaler(), ms.MergeSVC(**terms)).fit(X, y)
    whole = ms.MergeSVC(standardize=True, **terms).fit(X, y)
    np.testing.assert_allclose(whole.model_.scores(X), piped[-1].model_.scores(piped[0].transform(X)), atol=1e-10)


def test_the_pooled_form_has_the_same_solution():
    X, y = blobs(seed=7, n=800, d=7, classes=4, offset=10.0)
    weights = {0: 1.0, 1: 4.0, 2: 0.5, 3: 2.0}
    pooled = ms.solve(ms.learn(X, y, per_class=False, class_weight=weights), C=3.0)
    whole = ms.solve(ms.learn(X, y), C=3.0, class_weight=weights)
    np.testing.assert_allclose(pooled.scores(X), whole.scores(X), atol=1e-11)
    assert np.abs(pooled.predict_proba(X).sum(axis=1) - 1).max() < 1e-12


def test_inverse_complement_and_balanced_differ_in_the_scale_of_c_only():
    X, y = blobs(seed=8, n=300, d=4, classes=2)
    k = ms.learn(X, y)
    negative, positive = k.counts
    total = k.counts.sum()
    inverse = ms.solve(k, C=5.0, class_weight="inverse").scores(X)
    complement = ms.solve(k, C=5.0 * total / (positive * negative), class_weight="complement").scores(X)
    balanced = ms.solve(k, C=5.0 * 2 / total, class_weight="balanced").scores(X)
    np.testing.assert_allclose(complement, inverse, atol=1e-12)
    np.testing.assert_allclose(balanced, inverse, atol=1e-12)


def test_more_features_than_rows():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(20, 50)), np.arange(20) % 2
    w, b = hyperplane_by_qr(X, 2 * y - 1, np.ones(20), 10.0)
    model = ms.solve(ms.learn(X, y), C=10.0)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), np.append(w, b), rtol=1e-9)


def test_a_singular_system_is_solved_by_eigenvectors_and_says_so():
    X, y = blobs(seed=9, n=200, d=3, classes=2)
    X = np.hstack([X, X[:, :1]])
    with pytest.warns(ms.errors.SolverWarning, match="solved by 'eigh'"):
        model = ms.solve(ms.learn(X, y), C=1e18)
    assert model.solver_ == "eigh"
    w, b = hyperplane_by_qr(X[:, :3], 2 * y - 1, np.ones(200), 1e18)
    np.testing.assert_allclose(model.decision_function(X), X[:, :3] @ w + b, atol=1e-8)


def test_small_features_are_not_mistaken_for_singular_ones():
    X, y = blobs(seed=10, n=400, d=4, classes=2)
    X *= np.array([1e-7, 1.0, 1e4, 1e7])
    model = ms.solve(ms.learn(X, y), C=1e14)
    assert model.solver_ == "cholesky"
    w, b = hyperplane_by_qr(X, 2 * y - 1, np.ones(400), 1e14)
    np.testing.assert_allclose(model.decision_function(X), X @ w + b, atol=1e-7)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"C": 0}, "C must be a positive number, not 0"),
        ({"C": float("nan")}, "not nan"),
        ({"C": "1"}, "not '1'"),
        ({"multiclass": "crammer"}, "'ovr'.*'ovo'.*not 'crammer'"),
        ({"ties": "coin"}, "not 'coin'"),
        ({"class_weight": "heavy"}, "not 'heavy'"),
        ({"class_weight": {9: 1.0}}, "unknown class 9 and leaves out 0"),
        ({"class_weight": {0: -1.0}}, "class 0 must be finite and non-negative, not -1"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, "have weight zero"),
    ],
)
def test_terms_that_make_no_sense_are_refused(terms, message):
    X, y = blobs(n=30, classes=2)
    with pytest.raises(ms.errors.MergeSVMError, match=message):
        ms.solve(ms.learn(X, y), **terms)
