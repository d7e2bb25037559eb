"""Systems that are singular up to rounding: the minimiser is still found, against 60-digit arithmetic."""

from __future__ import annotations

import warnings

import mpmath
import numpy as np
import pytest

import mergesvm as ms
from reference import side_weights


@pytest.fixture(autouse=True)
def nothing_but_our_own_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ms.errors.SolverWarning)
        yield


def hyperplane_by_mpmath(X, y, weights, C, intercept="penalised", scale=None, origin=None):
    """Coefficients and intercept of a binary problem, y in {-1, +1}, with 60 digits, in the units of X.

    By the dual system of one equation per row, so that more columns than rows cost nothing. The penalty is on
    coefficients of (x - origin) / scale, and on the intercept at the origin.
    """
    scale = np.ones(X.shape[1]) if scale is None else scale
    origin = np.zeros(X.shape[1]) if origin is None else origin
    with mpmath.workdps(60):
        rows = [
            [
                (mpmath.mpf(float(v)) - mpmath.mpf(float(o))) / mpmath.mpf(float(s))
                for v, o, s in zip(row, origin, scale, strict=True)
            ]
            for row in X
        ]
        n, free = len(rows), intercept == "free"
        system, right = mpmath.zeros(n + free), mpmath.zeros(n + free, 1)
        for i in range(n):
            for j in range(i + 1):
                value = mpmath.fsum(a * b for a, b in zip(rows[i], rows[j], strict=True)) + (
                    1 if intercept == "penalised" else 0
                )
                system[i, j] = system[j, i] = value
            system[i, i] += 1 / (mpmath.mpf(C) * mpmath.mpf(float(weights[i])))
            right[i] = int(y[i])
            if free:
                system[i, n] = system[n, i] = 1
        dual = mpmath.lu_solve(system, right)
        w = [
            mpmath.fsum(dual[i] * rows[i][j] for i in range(n)) / mpmath.mpf(float(scale[j])) for j in range(len(scale))
        ]
        at_origin = {"penalised": mpmath.fsum(dual[i] for i in range(n)), "free": dual[n] if free else 0, "none": 0}
        b = at_origin[intercept] - mpmath.fsum(v * mpmath.mpf(float(o)) for v, o in zip(w, origin, strict=True))
        return np.array([float(v) for v in w]), float(b)


def wide(seed, n, d, offset=0.0, size=1.0):
    generator = np.random.default_rng(seed)
    return size * (generator.normal(size=(n, d)) + offset), np.arange(n) % 2


def doubled(seed, n, d, offset=0.0, size=1.0):
    """Each column twice, the second time in another unit, and one sum of columns, without rounding."""
    X, y = wide(seed, n, d, offset)
    X = np.round(X * 2**20) / 2**20 * size
    return np.hstack([X, 4.0 * X, X[:, :1] + X[:, 1:2]]), y


INTERCEPTS = {
    "penalised": {},
    "free": {"penalize_intercept": False},
    "none": {"fit_intercept": False},
}
CASES = [
    (wide(1, 6, 12), 1e12),
    (wide(2, 30, 60, size=1e6), 1.0),
    (wide(3, 9, 10, offset=3.0), 1e13),
    (wide(4, 12, 40, offset=100.0), 1e14),
    (doubled(5, 25, 3), 1e16),
    (doubled(6, 20, 4, offset=20.0, size=2.0**-10), 1e20),
    (doubled(7, 8, 5, offset=2.0, size=2.0**17), 1e6),
]


def assert_minimiser(model, X, expected, tolerance):
    """Scores of learned and of other rows."""
    w, b = expected
    new = X.mean(axis=0) + np.random.default_rng(0).normal(size=(10, X.shape[1])) * X.std(axis=0)
    for rows in (X, new):
        scores = rows @ w + b
        np.testing.assert_allclose(model.scores(rows)[:, 0], scores, atol=tolerance * max(1.0, np.abs(scores).max()))


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_empty_directions_do_not_keep_the_solution_from_the_minimum(case, intercept):
    (X, y), C = CASES[case]
    expected = hyperplane_by_mpmath(X, 2 * y - 1, np.ones(len(y)), C, intercept)
    whole = ms.solve(ms.learn(X, y), C, **INTERCEPTS[intercept])
    assert whole.solver_ == "eigh"
    assert_minimiser(whole, X, expected, 1e-9)
    pooled = ms.solve(ms.learn(X, y, per_class=False), C, **INTERCEPTS[intercept])
    merged = ms.solve(ms.learn(X[::2], y[::2]) + ms.learn(X[1::2], y[1::2]), C, **INTERCEPTS[intercept])
    for model in (pooled, merged, ms.path(ms.learn(X, y), [1e-3, C, 2 * C], **INTERCEPTS[intercept])[1]):
        assert_minimiser(model, X, expected, 1e-8)
    if intercept == "none":
        assert (whole.intercept_ == 0).all()


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("scheme", ["balanced", "inverse"])
def test_class_weights_and_units_do_not_move_the_minimum_of_a_singular_system(scheme, intercept):
    X, _ = doubled(8, 30, 4, offset=5.0)
    X *= 2.0 ** np.array([0, 10, -7, 0, 0, 10, -7, 0, 0])
    y = (np.arange(30) % 3 == 0).astype(int)
    weights = np.where(y == 1, *side_weights(scheme, float(y.sum()), float((1 - y).sum())))
    scale, origin = X.std(axis=0), X.mean(axis=0) if intercept != "none" else np.zeros(X.shape[1])
    expected = hyperplane_by_mpmath(X, 2 * y - 1, weights, 1e15, intercept, scale, origin)
    options = {"C": 1e15, "class_weight": scheme, "standardize": True, **INTERCEPTS[intercept]}
    model = ms.solve(ms.learn(X, y), **options)
    assert model.solver_ == "eigh"
    assert_minimiser(model, X, expected, 1e-8)


def test_each_pair_of_classes_of_a_singular_system_has_its_minimiser():
    X, _ = wide(9, 18, 30, offset=1.0)
    y = np.arange(18) % 3
    model = ms.solve(ms.learn(X, y), C=1e13, multiclass="ovo")
    for problem, (first, second) in enumerate(model.pairs_):
        pair = (y == first) | (y == second)
        w, b = hyperplane_by_mpmath(X[pair], np.where(y[pair] == second, 1, -1), np.ones(12), 1e13)
        scores = X @ w + b
        np.testing.assert_allclose(model.scores(X)[:, problem], scores, atol=1e-9 * np.abs(scores).max())


def test_no_value_of_c_on_a_path_is_away_from_the_minimum():
    X, y = wide(10, 8, 14, offset=2.0)
    Cs = 10.0 ** np.arange(-4, 17, 2)
    found = ms.path(ms.learn(X, y), Cs)
    for C, model in zip(Cs, found, strict=True):
        expected = hyperplane_by_mpmath(X, 2 * y - 1, np.ones(8), C)
        assert_minimiser(model, X, expected, 1e-9)


def test_constant_features_stand_in_for_the_intercept_as_the_penalty_says():
    X, y = wide(11, 40, 3)
    X = np.hstack([X, np.full((40, 1), 7.0), np.full((40, 1), -1e3)])
    for intercept, options in INTERCEPTS.items():
        for C in (1.0, 1e15):
            expected = hyperplane_by_mpmath(X, 2 * y - 1, np.ones(40), C, intercept)
            model = ms.solve(ms.learn(X, y), C, **options)
            np.testing.assert_allclose(model.coef_[0], expected[0], atol=1e-12)
            np.testing.assert_allclose(model.intercept_[0], expected[1], atol=1e-11)
