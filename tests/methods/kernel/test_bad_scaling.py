"""Badly scaled problems end at the optimum, as far as float64 allows it, or with a warning that says how far off."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernel_reference import dual_objective, optimum
from mergesvm import ParallelKernelSVC
from mergesvm.methods.kernel.centred_polynomial import CentredPolynomial
from mergesvm.methods.kernel.interior_point import maximise_dual
from mergesvm.models.kernel_function import Kernel


def noisy(n, d, offset, scale, seed=0):
    """Rows with labels that no kernel separates."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    return offset + scale * X, (X[:, 0] * X[:, 1] + 0.3 * generator.normal(size=n) > 0).astype(int)


def exact_gap(classifier, X, y, kernel, C):
    """The duality gap relative to the objective, in 60-digit arithmetic, for the best intercept."""
    signed = np.zeros(len(y))
    signed[classifier.support_] = classifier.dual_coef_[0]
    with mpmath.workdps(60):
        rows = [[mpmath.mpf(float(value)) for value in row] for row in X]
        used = np.flatnonzero(signed).tolist()
        coefs = [mpmath.mpf(float(signed[i])) for i in used]
        coefs[0] -= mpmath.fsum(coefs)  # exactly y'alpha = 0
        scores = [mpmath.fsum(a * kernel(row, rows[i]) for a, i in zip(coefs, used, strict=True)) for row in rows]
        square = mpmath.fsum(a * scores[i] for a, i in zip(coefs, used, strict=True))
        objective = mpmath.fsum(abs(a) for a in coefs) - square / 2
        signs = [2 * int(label) - 1 for label in y]
        # The loss is piecewise linear in the intercept, with its breaks where a row is at the margin.
        breaks = [s - f for s, f in zip(signs, scores, strict=True)]
        loss = min(mpmath.fsum(max(0, 1 - s * (f + b)) for s, f in zip(signs, scores, strict=True)) for b in breaks)
        return float((square / 2 + C * loss - objective) / objective)


def polynomial(gamma, degree, coef0=0.0):
    return lambda x, z: (mpmath.mpf(gamma) * mpmath.fdot(x, z) + mpmath.mpf(coef0)) ** degree


@pytest.mark.parametrize("units", [1, 2])
def test_a_polynomial_of_rows_far_from_zero_is_not_trained_forever_nor_wrongly(units):
    X, y = noisy(60, 2, 100.0, 1.0)
    classifier = ParallelKernelSVC("poly", units=units).fit(X, y)
    gamma = classifier.model_.expansion.kernel.gamma
    assert classifier.fit_status_ == 0
    assert exact_gap(classifier, X, y, polynomial(gamma, 3), 1) < 1e-4
    np.testing.assert_allclose(gamma, 1 / (2 * X.var()), rtol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "rows"),
    [
        ({"kernel": "linear", "C": 1e8}, (60, 3, 0.0, 1.0)),
        ({"kernel": "linear"}, (60, 3, 1e4, 1e4)),
        ({"kernel": "poly", "degree": 5}, (60, 3, 0.0, 1e4)),
        ({"kernel": "poly", "degree": 3, "gamma": 1.0, "C": 1e8}, (120, 2, 0.0, 1.0)),
        ({"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1e6}, (60, 2, 0.0, 1.0)),
        ({"kernel": "rbf", "gamma": 1e-8, "C": 1e8}, (60, 2, 0.0, 1.0)),
        ({"kernel": "rbf", "C": 1e8}, (60, 3, 0.0, 1.0)),
    ],
    ids=str,
)
def test_a_badly_scaled_problem_does_not_end_far_from_the_optimum(parameters, rows):
    X, y = noisy(*rows)
    classifier = ParallelKernelSVC(**parameters).fit(X, y)
    assert classifier.violation_ <= 1e-3
    assert classifier.fit_status_ == 0
    assert 0 <= classifier.dual_gap_ <= 1e-3 * classifier.objective_


def test_what_float64_cannot_resolve_does_not_end_without_a_warning():
    X, y = noisy(40, 2, 1e4, 1.0)
    classifier = ParallelKernelSVC("poly", beta=1.0)  # with a penalty on y'alpha the kernel cannot be centred
    with pytest.warns(ConvergenceWarning, match=r"largest violation is .* and the duality gap .* of the objective"):
        classifier.fit(X, y)
    assert classifier.fit_status_ == 1


def test_the_default_limit_of_iterations_is_not_reached_by_ordinary_problems():
    X, y = noisy(400, 3, 0.0, 1.0)
    for parameters in ({}, {"C": 1e4}, {"working_set": 8}, {"method": "active-set"}, {"kernel": "poly", "units": 3}):
        classifier = ParallelKernelSVC(**parameters).fit(X, y)
        assert classifier.n_iter_ < 1000 / 2
        assert classifier.fit_status_ == 0


@pytest.mark.parametrize("penalty", [-1.0, 0.7])
def test_the_interior_point_method_does_not_miss_the_optimum(penalty):
    generator = np.random.default_rng(1)
    X = generator.normal(size=(40, 3))
    y, bound = np.where(X[:, 0] + generator.normal(size=40) > 0, 1.0, -1.0), generator.uniform(0.0, 3.0, 40)
    bound[:3] = 0
    K, alpha, v = Kernel("rbf", 0.5)(X, X), np.zeros(40), y.copy()
    assert maximise_dual(K, y, v, alpha, bound, 0.0, penalty, 1e-10)
    best = optimum(K, y, bound, 1e6 if penalty < 0 else penalty)
    found = dual_objective(K, y, alpha, max(penalty, 0.0))
    np.testing.assert_allclose(found, dual_objective(K, y, best, max(penalty, 0.0)), rtol=1e-4 if penalty < 0 else 1e-9)
    np.testing.assert_allclose(v, y - K @ (y * alpha), atol=1e-9)
    assert ((alpha >= 0) & (alpha <= bound)).all()


def test_a_kernel_of_low_rank_and_large_values_is_solved_to_the_optimum():
    generator = np.random.default_rng(0)
    X = 1e4 * generator.normal(size=(200, 5))
    y = np.where(X[:, 0] + 5e3 * generator.normal(size=200) > 0, 1.0, -1.0)
    X -= X.mean(axis=0)
    K, alpha, v = X @ X.T, np.zeros(200), y.copy()
    assert maximise_dual(K, y, v, alpha, np.ones(200), 0.0, -1.0, 1e-3)
    w, v = X.T @ (y * alpha), y - X @ (X.T @ (y * alpha))
    intercept = np.median(v[(alpha > 0) & (alpha < 1)])
    primal = w @ w / 2 + np.maximum(0.0, 1 - y * (X @ w + intercept)).sum()
    assert abs((y * alpha).sum()) < 1e-9
    assert 0 <= primal - dual_objective(K, y, alpha) < 1e-3 * primal  # a small duality gap proves the optimum


def test_the_interior_point_method_does_not_make_an_indefinite_problem_worse():
    generator = np.random.default_rng(2)
    K = generator.normal(size=(20, 20))
    K, y, alpha = K + K.T, np.tile([-1.0, 1.0], 10), np.full(20, 0.5)
    before = dual_objective(K, y, alpha)
    maximise_dual(K, y, y - K @ (y * alpha), alpha, np.ones(20), 0.0, -1.0, 1e-6)
    assert dual_objective(K, y, alpha) >= before - 1e-9


@pytest.mark.parametrize("degree", [1, 2, 3, 7])
def test_centred_polynomials_do_not_lose_digits(degree):
    generator = np.random.default_rng(3)
    X, Z, origin = generator.normal(100, 1, (4, 2)), generator.normal(100, 1, (5, 2)), np.array([100.0, 100.0])
    found = CentredPolynomial("poly", 0.5, degree, 2.0, origin=origin)(X, Z)
    with mpmath.workdps(60):
        k = polynomial(0.5, degree, 2.0)
        expected = [
            [float(k(x, z) - k(x, o) - k(o, z) + k(o, o)) for z in map(mpmath_row, Z)]
            for o in [mpmath_row(origin)]
            for x in map(mpmath_row, X)
        ]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.abs(expected).max())


def mpmath_row(row):
    return [mpmath.mpf(float(value)) for value in row]
