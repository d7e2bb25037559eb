"""Sample weights of PegasosSVC: rows are drawn in proportion to them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chisquare
from sklearn.svm import SVC

from mergesvm import PegasosSVC
from mergesvm.errors import DataError
from mergesvm.methods.pegasos import jit
from reference import blobs


def hyperplanes(machine):
    return np.column_stack([machine.coef_, machine.intercept_])


@pytest.fixture
def data():
    return blobs(seed=40, n=300, d=4, classes=3)


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_rows_of_weight_zero_count_as_absent(data, multiclass, convert):
    X, y = data
    weights = np.random.default_rng(0).uniform(0.1, 3.0, len(y)) * (np.arange(len(y)) % 3 > 0)
    kept = weights > 0
    machine = PegasosSVC(0.01, 2000, multiclass, class_weight="balanced", project=True)
    with_zeros = machine.fit(convert(1.0 * X), y, sample_weight=weights)
    planes, probabilities = hyperplanes(with_zeros), with_zeros.predict_proba(X)
    without = machine.fit(convert(X[kept]), y[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(planes, hyperplanes(without))
    np.testing.assert_array_equal(probabilities, without.predict_proba(X))


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_equal_weights_change_nothing(data, multiclass):
    X, y = data
    machine = PegasosSVC(0.01, 2000, multiclass)
    plain = hyperplanes(machine.fit(X, y))
    for weight in (1.0, 7.0):
        weighted = machine.fit(X, y, sample_weight=np.full(len(y), weight))
        np.testing.assert_allclose(hyperplanes(weighted), plain, rtol=1e-9)
    began = PegasosSVC(0.01, 1000, multiclass, average=0)
    twice = began.fit(X, y, sample_weight=np.ones(len(y))).partial_fit(X, y, sample_weight=np.ones(len(y)))
    once = PegasosSVC(0.01, 2000, multiclass, average=0).fit(X, y)
    np.testing.assert_allclose(hyperplanes(twice), hyperplanes(once), rtol=1e-9)


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_a_row_of_weight_n_counts_as_n_rows(data, multiclass):
    X, y = data
    weights = np.random.default_rng(1).integers(0, 5, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)  # sorted as the weighted rows are, so the draws are the same
    machine = PegasosSVC(0.01, 3000, multiclass, class_weight="balanced")
    weighted = machine.fit(X, y, sample_weight=weights)
    planes, probabilities = hyperplanes(weighted), weighted.predict_proba(X)
    machine.fit(X[repeated], y[repeated])
    np.testing.assert_allclose(planes, hyperplanes(machine), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(probabilities, machine.predict_proba(X), rtol=1e-6)


def test_weighted_objective_is_that_of_an_exact_solver():
    X, y = blobs(seed=41, n=200, d=3, classes=2)
    weights = np.random.default_rng(2).exponential(size=len(y)) ** 2
    lambda_, signs = 0.05, 2 * y - 1

    def objective(w, b):
        # As in Pegasos, the intercept is penalised as the coefficient of a constant feature of size 1.
        hinge = np.maximum(0, 1 - signs * (X @ w + b))
        return lambda_ / 2 * (w @ w + b * b) + weights @ hinge / weights.sum()

    machine = PegasosSVC(lambda_, 200_000, intercept_scaling=1.0).fit(X, y, sample_weight=weights)
    with_one = np.column_stack([X, np.ones(len(y))])
    exact = SVC(kernel="linear", C=1 / (lambda_ * weights.sum()), tol=1e-8).fit(with_one, y, sample_weight=weights)
    best = objective(exact.coef_[0, :3], exact.coef_[0, 3] + exact.intercept_[0])
    found = objective(machine.coef_[0], machine.intercept_[0])
    unweighted = PegasosSVC(lambda_, 200_000, intercept_scaling=1.0).fit(X, y)
    assert found < 1.01 * best
    assert objective(unweighted.coef_[0], unweighted.intercept_[0]) > found


@pytest.mark.parametrize("span", [(6, 6, 2, 2), (4, 2, 2, 2)])
def test_draws_are_in_proportion_to_the_weights(span):
    weights = np.array([0.0, 0.0, 1.0, 2.0, 0.5, 3.0, 1.5, 0.25])
    cumulative = np.concatenate([[0.0], np.cumsum(weights)])
    count, first_count, first, shift = (np.uint64(number) for number in span)
    drawn = [
        int(jit.draw_weighted(np.uint64(7), np.uint64(k), cumulative, count, first_count, first, shift))
        for k in range(20_000)
    ]
    allowed = [*range(span[2], span[2] + span[1]), *range(span[1] + span[3], span[0] + span[3])]
    assert set(drawn) == set(allowed)
    expected = weights[allowed] / weights[allowed].sum() * len(drawn)
    assert chisquare(np.bincount(drawn, minlength=8)[allowed], expected).pvalue > 1e-4


def test_weights_that_leave_no_row_are_an_error(data):
    X, y = data
    machine = PegasosSVC(n_iter=10)
    with pytest.raises(DataError, match="all rows have weight zero"):
        machine.fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(DataError, match="row 3 has -1"):
        machine.fit(X, y, sample_weight=np.where(np.arange(len(y)) == 3, -1.0, 1.0))
    assert not hasattr(machine, "n_features_in_")
    only = machine.fit(X, y, sample_weight=y == 1)
    assert only.classes_.tolist() == [1]
