"""Predictions of kernel models, against the expansion written out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import norm
from sklearn.metrics import log_loss

import mergesvm as ms
from kernel_reference import kernel_matrix
from mergesvm.multiclass import votes
from mergesvm.multiclass.schemes import TIE_RULES
from reference import blobs


def written_out(model, X):
    """Scores pair by pair, from the support vectors and their multipliers."""
    vectors, ends = model.support_vectors_, np.cumsum(model.n_support_)
    vectors = vectors.toarray() if sparse.issparse(vectors) else vectors
    kernel = model.expansion.kernel
    K = kernel_matrix(kernel.kind, X, vectors, kernel.gamma, kernel.degree, kernel.coef0)
    scores, classes = [], range(len(ends))
    for i in classes:
        for j in classes[i + 1 :]:
            one, other = slice(ends[i] - model.n_support_[i], ends[i]), slice(ends[j] - model.n_support_[j], ends[j])
            score = K[:, one] @ model.dual_coef_[j - 1, one] + K[:, other] @ model.dual_coef_[i, other]
            scores.append(score + model.intercept_[len(scores)])
    sign = 1 if len(ends) == 2 else -1  # as in SVC
    return sign * np.array(scores).T


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_scores_are_the_expansion(kernel, classes, convert):
    X, y = blobs(seed=1, n=200, d=4, classes=classes)
    model = ms.ParallelKernelSVC(kernel, coef0=1.0).fit(convert(X[:100]), y[:100]).model_
    scores = written_out(model, X)
    for rows in (X, convert(X), X[:1]):
        np.testing.assert_allclose(model.scores(rows), scores[: rows.shape[0]], rtol=1e-9, atol=1e-9)
    assert model.pairs_ == [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    if classes == 2:
        np.testing.assert_array_equal(model.decision_function(X), model.scores(X)[:, 0])
        np.testing.assert_array_equal(model.predict(X), (scores[:, 0] > 0).astype(int))
    else:
        np.testing.assert_array_equal(model.votes(X), votes.count_votes(scores, classes))
        np.testing.assert_array_equal(model.predict(X), model.decision_function(X).argmax(axis=1))
        assert (model.votes(X).max(axis=1) == model.votes(X)[np.arange(200), model.predict(X)]).all()


def test_blocks_and_their_number_do_not_matter():
    X, y = blobs(seed=2, n=3000, d=4, classes=3)
    model = ms.ParallelKernelSVC().fit(X[:400], y[:400]).model_
    np.testing.assert_allclose(model.scores(X), written_out(model, X), atol=1e-9)
    np.testing.assert_allclose(np.vstack([model.scores(row[None]) for row in X[:50]]), model.scores(X[:50]), atol=1e-12)


def test_single_precision_is_near():
    X, y = blobs(seed=3, n=300, d=4, classes=3)
    double = ms.ParallelKernelSVC(precision="float64").fit(X, y)
    single = ms.ParallelKernelSVC(precision="float32").fit(X, y)
    np.testing.assert_allclose(single.model_.scores(X), double.model_.scores(X), atol=5e-3)
    np.testing.assert_allclose(single.model_.scores(X), written_out(single.model_, X), atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_rows_far_from_the_origin_are_told_apart_as_well(offset):
    X, y = blobs(seed=4, n=200, d=3, classes=3)
    model = ms.ParallelKernelSVC(gamma=0.5, tol=1e-6).fit(X + offset, y).model_
    near = ms.ParallelKernelSVC(gamma=0.5, tol=1e-6).fit(X, y).model_
    np.testing.assert_allclose(model.scores(X + offset), near.scores(X), atol=1e-4)


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
def test_probabilities_of_two_classes_follow_the_score(units, beta):
    X, y = blobs(seed=5, n=300, d=2, classes=2)
    machine = ms.ParallelKernelSVC(beta=beta, units=units).fit(X, y)
    shares, scores = machine.predict_proba(X), machine.decision_function(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_array_equal(shares.argmax(axis=1), machine.predict(X))
    assert (np.diff(shares[np.argsort(scores), 1]) >= 0).all()
    means = [scores[y == label].mean() for label in (0, 1)]
    spread = np.sqrt(np.mean((scores - np.array(means)[y]) ** 2))
    nodes = np.linspace(-8, 8, 2001)
    chance = norm.pdf(nodes) / norm.pdf(nodes).sum()

    def loss(slope):
        """Expected, if scores are normal in each class, of the log-odds slope x score."""
        right = [sign * (mean + spread * nodes) for sign, mean in zip((-1, 1), means, strict=True)]
        return np.bincount(y) / len(y) @ [chance @ np.logaddexp(0, -slope * scores) for scores in right]

    best = minimize_scalar(loss, bounds=(0, 100), method="bounded", options={"xatol": 1e-9}).x
    np.testing.assert_allclose(shares[:, 1], expit(best * scores), atol=1e-3)


def test_probabilities_of_many_classes_are_better_than_none():
    X, y = blobs(seed=6, n=600, d=3, classes=4)
    machine = ms.ParallelKernelSVC(units=2).fit(X[:300], y[:300])
    shares = machine.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares >= 0).all()
    assert log_loss(y[300:], shares[300:]) < 0.5 * np.log(4)


@pytest.mark.parametrize("rule", TIE_RULES)
def test_ties_are_decided_by_the_rule(rule):
    X, y = blobs(seed=7, n=150, d=2, classes=4)
    model = ms.ParallelKernelSVC(ties=rule).fit(X, y).model_
    rows = np.random.default_rng(0).uniform(X.min(), X.max(), (2000, 2))
    np.testing.assert_array_equal(model.predict(rows), votes.winners(model.scores(rows), 4, rule))
    np.testing.assert_array_equal(model.predict(rows), model.decision_function(rows).argmax(axis=1))


def test_rows_that_cannot_be_scored_are_an_error():
    X, y = blobs(seed=8, n=60, d=3, classes=2)
    model = ms.ParallelKernelSVC("linear").fit(X, y).model_
    with pytest.raises(ms.errors.DataError, match="X has 2 features, but the model was trained on 3"):
        model.predict(X[:, :2])
    with pytest.raises(ms.errors.DataError, match="NaN"):
        model.predict(np.where(X > 0, np.nan, X))
    with pytest.raises(ms.errors.DataError, match="too large"):
        model.predict(np.sign(X) * 1.7e308 * np.sign(written_out(model, X)))


def test_no_support_vectors_leave_the_intercept():
    X, _ = blobs(seed=9, n=10)
    model = ms.ParallelKernelSVC().fit(X, np.zeros(10, dtype=int)).model_
    assert model.support_vectors_.shape == (0, 3)
    np.testing.assert_array_equal(model.predict(X), 0)
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((10, 1)))
    assert repr(model) == "KernelModel of 1 class x 3 features, 0 support vectors"
    assert model.score(X, np.zeros(10)) == 1.0
