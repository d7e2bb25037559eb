"""Pegasos against itself written straight from the formulas, and against an independent solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC

import mergesvm as ms
from mergesvm.data.batch import Batch
from mergesvm.engines import Threads
from mergesvm.features import Identity
from mergesvm.methods.pegasos import sgd as pegasos
from mergesvm.methods.pegasos.sgd import Seeds, Side, Walk, take_steps
from mergesvm.methods.row_pool import RowPool
from mergesvm.models.schedule import Schedule
from reference import blobs


def pool_of(X, y):
    return RowPool.of(Batch.of(X, y), Identity())


def drawn_rows(pool, problem, seed, first, count):
    """Which rows of the pool are drawn, from draw ``first`` on."""
    from mergesvm.methods.pegasos.jit import draws

    members = np.concatenate([pool.order[pool.bounds[c] : pool.bounds[c + 1]] for c in problem.present])
    numbers = np.empty(count, dtype=np.int64)
    draws(np.uint64(seed), first, len(members), numbers)
    return members[numbers]


def by_the_book(X, signed, rows, schedule, bias, w=None, t=0):
    """Every iterate from the formulas, one row after another; ``signed`` is weight times sign of each row."""
    E = np.column_stack([X, np.full(len(X), bias)])
    w = np.zeros(E.shape[1]) if w is None else w
    members = signed != 0
    radius = math.sqrt(np.abs(signed[members]).mean() / schedule.lambda_)
    kept = []
    for chosen in rows.reshape(-1, schedule.batch_size):
        t += 1
        eta = 1 / (schedule.lambda_ * t)
        wrong = [i for i in chosen if np.sign(signed[i]) * (E[i] @ w) < 1]
        w = (1 - eta * schedule.lambda_) * w
        for i in wrong:
            w = w + eta / schedule.batch_size * signed[i] * E[i]
        length = np.linalg.norm(w)
        if schedule.project and length > radius:
            w = w * (radius / length)
        kept.append(w)
    meant = math.ceil(schedule.average * schedule.n_iter)
    w = np.mean(kept[-meant:], axis=0) if meant else w
    return np.append(w[:-1], w[-1] * bias)


SCHEDULES = [
    Schedule(0.1, 300, average=0.0),
    Schedule(0.1, 300, average=0.5),
    Schedule(0.1, 300, average=1.0, intercept_scaling=1.0),
    Schedule(0.1, 100, batch_size=3, average=0.0),
    Schedule(0.1, 100, batch_size=7, average=0.3),
    Schedule(0.5, 200, average=0.0, project=True),
    Schedule(1e-8, 200, average=0.7, project=True),
    Schedule(1e-3, 60, batch_size=5, average=0.5, project=True, fit_intercept=False),
    Schedule(0.01, 1, average=0.0, fit_intercept=False),
]
PAIR = Side(np.array([-1.0, 0.0, 2.0]), (0, 2))
REST = Side(np.array([-0.5, 3.0, -1.0]), (0, 1, 2))


@pytest.mark.parametrize("problem", [PAIR, REST], ids=["pair", "rest"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("kind", ["float64", "float32", "csr", "csr32", "int16"])
def test_steps_are_those_of_the_formulas(schedule, problem, kind):
    X, y = blobs(seed=1, n=50, d=6)
    X = np.rint(4 * X)  # whole numbers, so that all kinds hold the same
    X[X < -3] = 0
    given = {"csr": sparse.csr_array(X), "csr32": sparse.csr_array(X.astype(np.float32))}.get(kind)
    pool = pool_of(X.astype(kind) if given is None else given, y)
    walk = Walk.begin(pool, schedule, pool.real, Seeds(3).first)
    (found,) = take_steps(pool, [problem], [walk], schedule, Threads(1))
    rows = drawn_rows(pool, problem, walk.seed, 0, schedule.n_iter * schedule.batch_size)
    expected = by_the_book(X, problem.weights[y], rows, schedule, walk.bias)
    # Where every step is projected to a ten-thousandth, float32 leaves two digits of the mean.
    tolerance = 1e-9 if kind in ("float64", "csr") else 2e-2 if schedule.lambda_ == 1e-8 else 2e-4
    np.testing.assert_allclose(found.coefficients, expected, atol=tolerance * np.abs(expected).max())
    assert (found.steps, found.drawn) == (schedule.n_iter, len(rows))
    assert not walk.v.any()  # the walk it began with stays what it was


def test_the_length_of_v_is_followed():
    X, y = blobs(seed=2, n=80, d=5)
    for given in (X, sparse.csr_array(X)):
        pool, schedule = pool_of(given, y), Schedule(0.01, 500, batch_size=2, project=True)
        (walk,) = take_steps(pool, [PAIR], [Walk.begin(pool, schedule, pool.real, 1)], schedule, Threads(1))
        assert walk.square == pytest.approx(walk.v @ walk.v, rel=1e-10)


@pytest.mark.parametrize("schedule", SCHEDULES[:-1], ids=str)
def test_going_on_is_as_if_it_had_never_stopped(schedule):
    X, y = blobs(seed=3, n=60, d=4)
    pool = pool_of(X, y)
    begin = Walk.begin(pool, schedule, pool.real, 11)
    (first,) = take_steps(pool, [REST], [begin], schedule, Threads(1))
    (second,) = take_steps(pool, [REST], [first], schedule, Threads(1))
    double = Schedule(**vars(schedule) | {"n_iter": 2 * schedule.n_iter, "average": schedule.average / 2})
    (once,) = take_steps(pool, [REST], [begin], double, Threads(1))
    np.testing.assert_array_equal(second.v, once.v)
    np.testing.assert_allclose(second.coefficients, once.coefficients, rtol=1e-9)
    assert (second.steps, second.drawn, second.factor) == (once.steps, once.drawn, once.factor)


def test_calls_of_the_kernel_leave_no_trace(monkeypatch):
    X, y = blobs(seed=4, n=60, d=4)
    pool, schedule = pool_of(X, y), Schedule(0.01, 1000, batch_size=2, project=True)
    begin = Walk.begin(pool, schedule, pool.real, 5)
    (whole,) = take_steps(pool, [PAIR], [begin], schedule, Threads(1))
    monkeypatch.setattr(pegasos, "PRODUCTS_PER_CALL", 1000)
    (pieces,) = take_steps(pool, [PAIR], [begin], schedule, Threads(1))
    np.testing.assert_array_equal(whole.coefficients, pieces.coefficients)


def test_another_lambda_goes_on_from_the_same_plane():
    X, y = blobs(seed=5, n=60, d=4)
    pool, schedule = pool_of(X, y), Schedule(0.01, 50, average=0.0)
    (walk,) = take_steps(pool, [PAIR], [Walk.begin(pool, schedule, pool.real, 5)], schedule, Threads(1))
    np.testing.assert_allclose(walk.under(0.3).coefficients, walk.coefficients, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 1000, 2**32 - 1])
def test_draws_are_even_and_within_bounds(n):
    from mergesvm.methods.pegasos.jit import draws

    numbers = np.empty(60_000, dtype=np.int64)
    draws(np.uint64(12345), 0, n, numbers)
    assert numbers.min() >= 0
    assert numbers.max() < n
    parts = np.bincount(numbers * 3 // n if n > 3 else numbers, minlength=min(n, 3))
    assert np.abs(parts / parts.mean() - 1).max() < 0.03
    rest = np.empty(10, dtype=np.int64)
    draws(np.uint64(12345), 100, n, rest)
    np.testing.assert_array_equal(rest, numbers[100:110])


def test_seeds_are_those_of_numpy():
    seeds = Seeds(42)
    for child in np.random.SeedSequence(42).spawn(3):
        assert seeds.first == child.generate_state(1, np.uint64)[0]
        seeds = seeds.rest()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weights", [None, {0: 3.0, 1: 0.5}])
def test_the_objective_comes_close_to_the_optimum(fit_intercept, weights):
    X, y = blobs(seed=6, n=400, d=5, classes=2)
    lambda_ = 0.01
    omega = np.ones(2) if weights is None else np.array([weights[0], weights[1]])

    def objective(w, b):
        sign = np.where(y == 1, 1.0, -1.0)
        loss = omega[y] * np.maximum(0, 1 - sign * (X @ w + b))
        return lambda_ / 2 * (w @ w + b * b) + loss.mean()

    machine = ms.PegasosSVC(
        lambda_, 200_000, fit_intercept=fit_intercept, intercept_scaling=1.0, class_weight=weights
    ).fit(X, y)
    # The same problem in the terms of liblinear, which solves its dual.
    peer = LinearSVC(
        C=1 / (lambda_ * len(X)), loss="hinge", class_weight=weights, fit_intercept=fit_intercept, max_iter=100_000
    ).fit(X, y)
    best = objective(peer.coef_[0], np.sum(peer.intercept_))
    assert objective(machine.coef_[0], machine.intercept_[0]) < 1.01 * best
    assert np.abs(machine.coef_ - peer.coef_).max() < 0.05


def test_pixels_are_used_where_they_lie():
    X = np.arange(24, dtype=np.uint8).reshape(6, 4)
    pool = pool_of(X, [0, 1, 0, 1, 0, 1])
    assert np.shares_memory(pool.parts[0], X)
    assert pool.real == np.float32
    for other in (X.astype(np.float64), X.astype(np.float32)):
        assert np.shares_memory(pool_of(other, [0, 1] * 3).parts[0], other)
        machine, pixels = ms.PegasosSVC().fit(other, [0, 1] * 3), ms.PegasosSVC().fit(X, [0, 1] * 3)
        assert machine.predict(X).tolist() == pixels.predict(X).tolist()
    assert pool_of(X[:, ::2], [0, 1] * 3).matrix.flags.c_contiguous
    assert pool_of(X.astype(np.float16), [0, 1] * 3).matrix.dtype == np.float64
    assert pool_of(X > 3, [0, 1] * 3).matrix.dtype == np.uint8
    values = sparse.csr_array(X.astype(np.float64))
    assert np.shares_memory(pool_of(values, [0, 1] * 3).parts[0], values.data)


def test_zeros_at_the_edges_of_rows_are_left_where_they_are():
    X = np.array([[0, 0, 0, 0], [0, 2, 0, 0], [1, 0, 0, 3], [0, 0, 0, 4], [5, 0, 0, 0], [0, np.nan, 1, 0]])
    edges = RowPool(X, *(np.empty(0, dtype=np.intp),) * 3).parts[1]
    assert [(first, last) for first, last in edges.tolist() if first < last] == [(1, 2), (0, 4), (3, 4), (0, 1), (1, 3)]
    assert edges[0, 0] == edges[0, 1]


def test_what_is_too_large_is_said():
    with pytest.raises(ms.errors.DataError, match=r"so large.*Rescale"):
        ms.PegasosSVC(lambda_=1e-10).fit(np.array([[1e300], [-1e300]]), [0, 1])


BAD = {
    "lambda_": [0, -1.0, math.nan, math.inf, "1", None, True],
    "n_iter": [0, -5, 1.5, "9", None, True, 2**60],
    "batch_size": [0, -1, 2.0, None],
    "average": [-0.1, 1.1, math.nan, "half", None],
    "project": [1, "yes", None],
    "fit_intercept": [0, "no", None],
    "intercept_scaling": [0, -1, math.nan, "1", True],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_schedule_that_cannot_be_is_refused(name, value):
    with pytest.raises(ms.errors.ParameterError, match=f"{name} must be") as caught:
        Schedule(**{name: value}).check()
    assert repr(value) in str(caught.value)
