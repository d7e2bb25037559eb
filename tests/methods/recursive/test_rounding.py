"""Live models of rows that lose digits: far from the origin, of very different sizes, or redundant."""

from __future__ import annotations

import pickle
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergesvm as ms
from hunting import examples
from live_streams import live_model
from mergesvm import MergeSVC, RecursiveSVC
from mergesvm.data.batch import Batch
from mergesvm.errors import SolverWarning
from reference import scores_by_mpmath


def make_rows(seed=0, n=40, d=5):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    return X, np.where(X[:, 0] + 0.3 * generator.normal(size=n) > 0, 1, -1)


def one_by_one(X, y, **options):
    estimator = RecursiveSVC(**options)
    for row, label in zip(X, y.tolist(), strict=True):
        estimator.learn_one(row, label)
    return estimator


def in_blocks(X, y, **options):
    estimator = RecursiveSVC(**options)
    for start in range(0, len(X), 10):
        estimator.partial_fit(X[start : start + 10], y[start : start + 10])
        _ = estimator.coef_
    return estimator


def after_forgetting(X, y, **options):
    estimator = RecursiveSVC(**options).fit(X, y).partial_fit(X[:9], y[:9])
    _ = estimator.coef_
    return estimator.forget(X[:9], y[:9])


def saved(X, y, **options):
    return pickle.loads(pickle.dumps(one_by_one(X, y, **options)))


def in_a_window(X, y, **options):
    return one_by_one(np.vstack([X[::-1], X]), np.r_[y[::-1], y], window=len(X), **options)


WAYS = [
    lambda X, y, **options: RecursiveSVC(**options).fit(X, y),
    one_by_one,
    in_blocks,
    after_forgetting,
    saved,
    in_a_window,
]


@pytest.mark.parametrize("learn", WAYS)
@pytest.mark.parametrize(
    ("offset", "spread", "C"), [(1e8, 1e-3, 1e6), (1e8, 1e-3, 1.0), (-1e6, 1e-6, 1e9), (1e3, 1e3, 1.0)]
)
@pytest.mark.parametrize("penalize_intercept", [True, False])
def test_rows_far_from_the_origin_lose_no_digits(learn, offset, spread, C, penalize_intercept):
    X, y = make_rows()
    X = spread * X + offset * np.array([1.0, -1.0, 0.5, 0.0, 1.0])
    expected = scores_by_mpmath(X, y, np.ones(len(X)), C, X, penalize_intercept)
    scores = learn(X, y, C=C, penalize_intercept=penalize_intercept).decision_function(X)
    np.testing.assert_allclose(scores, expected, atol=1e-13 * max(1.0, np.abs(expected).max()))


def test_recursion_loses_no_digits_between_checks():
    X, y = make_rows(n=200)
    X = 1e-3 * X + 1e8
    live = live_model(5, C=1e6, penalize_intercept=False)
    live._state._checks.due = 10**9
    predicted = live.predict_then_learn(Batch.of(X, y))
    before = live._state._rls.coefficients()[0]
    assert live.check() < 1e-13
    np.testing.assert_allclose(before, live._state._rls.coefficients()[0], rtol=1e-10)
    for number in (50, 199):
        score = scores_by_mpmath(X[:number], y[:number], np.ones(number), 1e6, X[number : number + 1], False)
        assert live.labels[predicted[number]] == np.sign(score[0])


@pytest.mark.parametrize("learn", WAYS)
def test_a_row_that_hides_all_others_is_not_silent(learn):
    X, y = make_rows()
    X[7] *= 1e8
    with pytest.warns(SolverWarning, match="singular up to rounding"):
        learn(X, y).predict(X)


@pytest.mark.parametrize("learn", [one_by_one, in_blocks])
def test_predictions_of_single_rows_are_not_silent(learn):
    X, y = make_rows()
    X[-1] *= 1e8
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator = learn(X, y)
        assert estimator.predict_one(X[0]) == estimator.predict(X[:1])[0]
    assert any(each.category is SolverWarning for each in caught)


def test_stream_predictions_are_not_silent():
    X, y = make_rows(n=100)
    X[60] *= 1e8
    live = live_model(5)
    live.predict_then_learn(Batch.of(X[:60], y[:60]))
    live._state._checks.due = 10**9
    with pytest.warns(SolverWarning, match="singular up to rounding"):
        live.predict_then_learn(Batch.of(X[60:], y[60:]))


def shortest(X, y, C):
    """Coefficients and intercept with 60 digits, by the formula of the papers."""
    with mpmath.workdps(60):
        rows = mpmath.matrix(np.hstack([X, np.ones((len(X), 1))]).tolist())
        solved = mpmath.lu_solve(mpmath.eye(X.shape[1] + 1) / C + rows.T * rows, rows.T * mpmath.matrix(y.tolist()))
        return np.array([float(value) for value in solved])


@pytest.mark.filterwarnings("ignore:The system is singular")
@pytest.mark.parametrize("learn", WAYS[:4])
def test_redundant_features_give_the_shortest_coefficients(learn):
    # Integers, so that redundant columns are redundant as stored.
    generator = np.random.default_rng(1)
    X = generator.integers(-8, 9, (40, 4)).astype(float)
    y = np.where(X[:, 0] + generator.normal(size=40) > 0, 1, -1)
    few, signs = generator.normal(size=(6, 12)), np.array([1, -1, 1, -1, 1, -1])
    for rows, labels, C in (
        (np.column_stack([X, X.sum(axis=1)]), y, 1e12),
        (np.column_stack([X, 1000 * X[:, 0]]), y, 1e12),
        (np.column_stack([X, X[:, 0] + 3]), y, 1e13),
        (few, signs, 1e12),
        (few + 5.0, signs, 1e14),
    ):
        expected = shortest(rows, labels, C)
        if learn is after_forgetting and len(rows) < 10:
            continue
        estimator = learn(rows, labels, C=C)
        np.testing.assert_allclose(estimator.coef_[0], expected[:-1], atol=1e-9 * np.abs(expected).max())
        np.testing.assert_allclose(estimator.intercept_[0], expected[-1], atol=1e-9 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:The system is singular")
def test_redundant_features_with_a_forgetting_factor():
    generator = np.random.default_rng(2)
    X = generator.integers(-8, 9, (60, 3)).astype(float)
    X, y = np.column_stack([X, 10 * X.sum(axis=1)]), np.where(X[:, 0] + generator.normal(size=60) > 0, 1, -1)
    estimator = one_by_one(X, y, C=1e12, forgetting=0.9, penalize_intercept=False)
    weights, ridge = 0.9 ** np.arange(59, -1, -1.0), estimator.live_._state._rls.state.ridge
    with mpmath.workdps(60):
        rows, targets = mpmath.matrix(X.tolist()), mpmath.matrix(y.tolist())
        weighted = mpmath.diag(weights.tolist())
        mean = (rows.T * weighted * mpmath.ones(60, 1)) / mpmath.mpf(weights.sum())
        near = rows - mpmath.ones(60, 1) * mean.T
        solved = mpmath.lu_solve(mpmath.diag(ridge.tolist()) + near.T * weighted * near, near.T * weighted * targets)
    expected = np.array([float(value) for value in solved])
    np.testing.assert_allclose(estimator.coef_[0], expected, atol=1e-6 * np.abs(expected).max())


def test_rows_added_and_removed_again_leave_no_silent_errors():
    X, y = make_rows()
    huge = 1e9 * np.ones((20, 5))
    estimator = RecursiveSVC().fit(X, y)
    _ = estimator.coef_
    estimator.partial_fit(huge, y[:20])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.forget(huge, y[:20])
        coef = estimator.coef_
    expected = MergeSVC().fit(X, y).coef_
    assert np.abs(coef - expected).max() < 1e-8 or any(each.category is SolverWarning for each in caught)


@pytest.mark.parametrize("learn", [each for each in WAYS if each is not after_forgetting])
@pytest.mark.parametrize("options", [{}, {"penalize_intercept": False}, {"fit_intercept": False}])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_few_rows_lose_no_digits(learn, options, n_classes):
    generator = np.random.default_rng(0)
    X, y = 10 * generator.normal(size=(8, 20)) + 20.0, np.arange(8) % n_classes
    new = 10 * generator.normal(size=(5, 20)) + 20.0
    scores = learn(X, y, C=1e4, **options).decision_function(new)
    expected = MergeSVC(C=1e4, **options).fit(X, y).decision_function(new)
    np.testing.assert_allclose(scores, expected, atol=1e-9)
    if n_classes == 2 and "fit_intercept" not in options:
        exact = scores_by_mpmath(X, 2 * y - 1, np.ones(8), 1e4, new, options.get("penalize_intercept", True))
        np.testing.assert_allclose(scores, exact, atol=1e-9)


def test_losses_of_few_rows_that_cannot_be_repaired_are_told_when_coefficients_are_shown():
    generator = np.random.default_rng(0)
    X, y = 10 * generator.normal(size=(8, 20)), np.arange(8) % 2
    estimator = one_by_one(X, y, C=1e4, forgetting=0.999)
    estimator.live_.check()
    with pytest.warns(SolverWarning, match="Rounding of the sums changes scores"):
        _ = estimator.coef_


def test_predictions_after_few_rows_that_have_lost_digits_are_not_silent():
    generator = np.random.default_rng(0)
    X, y = 10 * generator.normal(size=(8, 20)), np.arange(8) % 2
    estimator = one_by_one(X, y, C=1e8)
    estimator.live_._state._rls.stale = True
    with pytest.warns(SolverWarning, match="by which classes are predicted"):
        estimator.predict_one(X[0])
    estimator.live_._state._rls.stale = True
    with pytest.warns(SolverWarning, match="by which classes are predicted"):
        estimator.live_.predict_then_learn(Batch.of(X[:1], y[:1]))


def test_losses_of_the_first_rows_that_later_ones_cure_are_not_told():
    generator = np.random.default_rng(0)
    X, y = 10 * generator.normal(size=(300, 20)), np.arange(300) % 2
    live = live_model(20, C=1e4)
    live.predict_then_learn(Batch.of(X[:8], y[:8]))
    live._state.check()
    assert live._state._rls.untold
    live.predict_then_learn(Batch.of(X[8:], y[8:]))
    scores = live.model().decision_function(X)
    np.testing.assert_allclose(scores, MergeSVC(C=1e4).fit(X, y).decision_function(X), atol=1e-9)


@given(st.integers(0, 10**6))
@settings(max_examples=examples(40), deadline=None)
def test_it_is_never_silent_where_merge_svc_warns(seed):
    generator = np.random.default_rng(seed)
    n, d = int(generator.integers(8, 60)), int(generator.integers(2, 9))
    y = np.arange(n) % int(generator.integers(2, 4))
    X = generator.normal(size=(n, d)) + y[:, None] * np.eye(d)[0]
    kind = generator.integers(0, 4)
    if kind == 1:
        X[:, -1] = X[:, :-1].sum(axis=1)
    elif kind == 2:
        X[int(generator.integers(n))] *= 10.0 ** generator.integers(3, 10)
    elif kind == 3:
        X[:, -1] = 1.0
    X *= 10.0 ** generator.uniform(-4, 4, d)
    X += 10.0 ** generator.uniform(0, 6) * np.abs(X).max(axis=0)
    options = {"C": 10.0 ** generator.uniform(-4, 10), "penalize_intercept": bool(generator.random() < 0.7)}

    def scores_and_warning(make):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return make().decision_function(X), bool(caught)

    expected, warned = scores_and_warning(lambda: MergeSVC(**options).fit(X, y))
    for learn in WAYS:
        scores, said = scores_and_warning(lambda learn=learn: learn(X, y, **options))
        assert said or not warned
        if not said and not warned:
            np.testing.assert_allclose(scores, expected, atol=1e-3)


def test_mapped_rows_of_a_small_ridge_stay_silent():
    X, y = make_rows(n=300)
    plan = ms.features.Fourier(40, precision="float64").freeze(X)
    expected = MergeSVC(features=plan, C=100.0).fit(X, y)
    estimator = one_by_one(X, y, features=plan, C=100.0)
    np.testing.assert_allclose(estimator.decision_function(X), expected.decision_function(X), atol=1e-8)
