"""Where digits are scarce: far offsets, heavy weights, collinear features, drifting windows, small remainders."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import mergesvm as ms


@pytest.fixture(autouse=True)
def nothing_but_our_own_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ms.errors.SolverWarning)
        yield


@pytest.mark.parametrize("value", [1e7, 1e8 + 0.1, 1.7e9])
def test_a_constant_sparse_column_far_from_zero_is_constant(value):
    generator = np.random.default_rng(0)
    rest = sparse.random_array((300, 30), density=0.05, random_state=generator)
    X = sparse.hstack([sparse.csr_array(np.full((300, 1), value)), rest]).tocsr()
    y = np.arange(300) % 3 == 0
    without = ms.solve(ms.learn(rest, y), penalize_intercept=False)
    model = ms.solve(ms.learn(X, y), penalize_intercept=False)
    np.testing.assert_allclose(model.coef_[:, 1:], without.coef_, atol=1e-10)
    assert model.coef_[0, 0] == 0


def test_a_feature_whose_digits_are_gone_is_left_out_with_a_warning():
    generator = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = sparse.csr_array(np.c_[1e9 + y + 0.1 * generator.normal(size=200), np.zeros((200, 9))])
    with pytest.warns(ms.errors.SolverWarning, match="Feature 0 has lost its digits"):
        assert ms.solve(ms.learn(X, y)).predict_proba(X).shape == (200, 2)


@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_rows_without_weight_do_not_choose_the_anchor(offset):
    X = np.random.default_rng(0).normal(size=(400, 3)) + offset
    y, weights = (X[:, 0] > offset).astype(int), np.ones(400)
    weights[:300] = 0.0
    expected = ms.solve(ms.learn(X[300:], y[300:])).scores(X[300:])
    for value in (np.nan, 0.0):
        X[:300] = value
        np.testing.assert_allclose(ms.solve(ms.learn(X, y, weights)).scores(X[300:]), expected, atol=1e-12)


def ridge_by_fractions(X, y, C):
    """Two features, free intercept, in exact arithmetic."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    mean = [sum(row[j] for row in rows) / len(rows) for j in range(2)]
    centred = [[row[j] - mean[j] for j in range(2)] for row in rows]
    a, b, d = (sum(r[i] * r[j] for r in centred) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, d = a + 1 / Fraction(C), d + 1 / Fraction(C)
    s, t = (sum(int(label) * r[j] for r, label in zip(centred, y, strict=True)) for j in range(2))
    return np.array([float((d * s - b * t) / (a * d - b * b)), float((a * t - b * s) / (a * d - b * b))])


@pytest.mark.parametrize(("scale", "C"), [(1.0, 1.0), (1e3, 1e6), (1e6, 1.0), (1e8, 1.0), (1.0, 1e14)])
def test_collinear_features_share_as_the_penalty_says(scale, C):
    x = np.random.default_rng(0).normal(size=40)
    X, y = np.c_[x, 2 * x] * scale, np.where(x > 0, 1, -1)
    model = ms.solve(ms.learn(X, y), C=C, penalize_intercept=False)
    np.testing.assert_allclose(model.coef_[0], ridge_by_fractions(X, y, C), rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_adding_after_subtracting_is_subtracting_after_adding(seed):
    generator = np.random.default_rng(seed)
    A, B = generator.normal(size=(400, 4)), generator.normal(size=(300, 4))
    A[:, 1:] = 0
    B[:, 1] *= 100
    B[:, 2] = B[:, 1] * 1.1
    B[:, 3] = B[:, 1] + B[:, 2]
    y = np.arange(400) % 2
    a, b, c = ms.learn(A, y), ms.learn(A[:10], y[:10]), ms.learn(B, y[:300])
    one, other = ms.subtract(a, b, force=True) + c, ms.subtract(a + c, b, force=True)
    np.testing.assert_allclose(ms.solve(one).scores(B), ms.solve(other).scores(B), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_all_but_one_row_can_be_taken_back(seed):
    X = np.random.default_rng(seed).normal(size=(146, 4)) * [2e2, 1.6e7, 5e4, 1e6]
    y = np.arange(146) % 2
    left = ms.solve(ms.subtract(ms.learn(X, y), ms.learn(X[1:], y[1:]), force=True)).scores(X[:1])
    np.testing.assert_allclose(left, ms.solve(ms.learn(X[:1], y[:1])).scores(X[:1]), atol=1e-9)


@pytest.mark.parametrize(("drift", "tolerance"), [(0.1, 1e-12), (10.0, 1e-10), (1e3, 1e-6)])
def test_a_sliding_window_follows_rows_that_wander(drift, tolerance):
    generator = np.random.default_rng(0)
    w, machine, window = generator.normal(size=4), ms.MergeSVC(), []
    for number in range(60):
        X = generator.normal(size=(200, 4))
        y = (X @ w + generator.normal(size=200) > 0).astype(int)
        machine.partial_fit(X + number * drift, y)
        window.append((X + number * drift, y))
        if len(window) > 3:
            machine.forget(*window.pop(0))
    X, y = (np.concatenate(column) for column in zip(*window, strict=True))
    fresh = ms.MergeSVC().fit(X, y)
    np.testing.assert_allclose(machine.decision_function(X), fresh.decision_function(X), atol=tolerance)


@pytest.mark.parametrize("width", [5, 150])
@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_float32_products_do_not_mind_offsets(width, offset):
    X = np.random.default_rng(0).normal(size=(900, width)) + offset
    y = (X[:, 0] > offset).astype(int)
    exact, single = (ms.solve(ms.learn(X, y, precision=precision)).coef_ for precision in ("float64", "float32"))
    assert np.abs(single - exact).max() < 1e-6 * np.abs(exact).max()


def test_weights_of_very_different_size_are_taken_back_one_by_one():
    weights = np.sort(np.random.default_rng(0).lognormal(0, 3, 300))[::-1]
    X = np.arange(300.0)[:, None]
    k = ms.learn(X, ["a"] * 300, weights)
    for i in range(300):
        k = ms.subtract(k, ms.learn(X[[i]], ["a"], weights[[i]]), force=True)
    assert k.labels == ()


def test_many_classes_in_pairs_fit_in_memory():
    import tracemalloc

    X = np.random.default_rng(0).normal(size=(600, 2))
    k = ms.learn(X, np.arange(600) % 200)
    tracemalloc.start()
    model = ms.solve(k, multiclass="ovo")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(model.coef_) == 19_900
    assert peak < 80e6


def test_digits_lost_before_the_anchor_moved_are_still_known_to_be_lost():
    generator = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = sparse.csr_array(np.c_[1e8 + y + 0.5 * generator.normal(size=400), np.zeros((400, 9))])
    merged = ms.learn(X[:200], y[:200]) + ms.learn(X[200:], y[200:])
    for k in (merged, merged.about()):
        with pytest.warns(ms.errors.SolverWarning, match="Feature 0 has lost its digits"):
            assert ms.solve(k, penalize_intercept=False).coef_[0, 0] == 0


def test_rounding_of_subtracted_sums_is_recorded():
    generator = np.random.default_rng(0)
    y = np.arange(500) % 2
    sizes = ((500, 1e8), (40, 1.0), (40, 1.0))
    heavy, part, rest = (ms.learn(generator.normal(size=(n, 3)) * scale, y[:n]) for n, scale in sizes)
    blurred = (heavy + part) - heavy
    with pytest.warns(ms.errors.SolverWarning, match="has lost its digits"):
        ms.solve((part + rest) - blurred)
