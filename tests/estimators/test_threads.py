"""Several threads that learn, forget, merge and predict on one estimator."""

from __future__ import annotations

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
from sklearn.base import clone

import mergesvm as ms
from mergesvm import MergeSVC, ParallelKernelSVC, PegasosSVC, RecursiveSVC
from mergesvm.data.batch import Batch

N_THREADS = 8


@pytest.fixture(autouse=True)
def many_switches():
    """Python switches between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def data():
    # Small integers, so that sums are exact in any order.
    generator = np.random.default_rng(3)
    y = generator.integers(0, 3, 8000)
    return generator.integers(-9, 10, (8000, 6)) + 4 * y[:, None] * np.eye(6)[0], y


def in_threads(*works, threads=N_THREADS):
    """Call each function with the number of its thread, ``threads`` times, all at once."""
    barrier = Barrier(threads * len(works))

    def run(work, number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads * len(works)) as pool:
        futures = [pool.submit(run, work, number) for work in works for number in range(threads)]
        return [future.result() for future in futures]


def assert_same_sums(one, other):
    np.testing.assert_array_equal(one.rows, other.rows)
    a, b = one.about(np.zeros(one.width)), other.about(np.zeros(one.width))
    np.testing.assert_allclose(a.sums, b.sums, rtol=1e-12, atol=1e-9)
    for mine, theirs in zip(a.grams, b.grams, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-9)


def one_by_one(estimator, X, y):
    for row, label in zip(X, y.tolist(), strict=True):
        estimator.learn_one(row, label)


def in_blocks(estimator, X, y):
    for start in range(0, len(X), 40):
        estimator.partial_fit(X[start : start + 40], y[start : start + 40])


@pytest.mark.parametrize("teach", [one_by_one, in_blocks])
def test_recursive_svc_loses_no_row(data, teach):
    X, y = data
    estimator = RecursiveSVC()
    in_threads(lambda number: teach(estimator, X[number::N_THREADS], y[number::N_THREADS]))
    assert_same_sums(estimator.to_knowledge(), ms.learn(X, y))
    expected = MergeSVC().fit(X, y)
    np.testing.assert_allclose(estimator.coef_, expected.coef_, atol=1e-10)
    np.testing.assert_allclose(estimator.intercept_, expected.intercept_, atol=1e-10)


def test_recursive_svc_forgets_what_other_threads_do_not(data):
    X, y = data
    estimator = RecursiveSVC().fit(X[:4000], y[:4000])

    def forget(number):
        mine = np.arange(number, 2000, N_THREADS)
        for part in np.array_split(mine, 12):
            estimator.forget(X[part], y[part])

    in_threads(
        forget, lambda number: one_by_one(estimator, X[4000 + number :: N_THREADS], y[4000 + number :: N_THREADS])
    )
    assert_same_sums(estimator.to_knowledge(), ms.learn(X[2000:], y[2000:]))
    np.testing.assert_allclose(estimator.coef_, MergeSVC().fit(X[2000:], y[2000:]).coef_, atol=1e-10)


def test_window_of_recursive_svc_stays_whole(data):
    X, y = data
    estimator = RecursiveSVC(window=200)
    in_threads(lambda number: one_by_one(estimator, X[number::N_THREADS][:300], y[number::N_THREADS][:300]))
    knowledge = estimator.to_knowledge()
    assert knowledge.rows.sum() == 200
    np.testing.assert_allclose(estimator.coef_, ms.solve(knowledge).coef_, atol=1e-10)


def test_merge_svc_loses_no_row(data):
    X, y = data
    estimator = MergeSVC().fit(X[:100], y[:100])

    def work(number):
        for part in np.array_split(np.arange(100 + number, 4000, N_THREADS), 25):
            estimator.partial_fit(X[part], y[part])
        estimator.merge(ms.learn(X[4000 + number :: N_THREADS], y[4000 + number :: N_THREADS]))
        mine = np.arange(number, 100, N_THREADS)
        estimator.forget(X[mine], y[mine])

    in_threads(work)
    assert_same_sums(estimator.knowledge_, ms.learn(X[100:], y[100:]))
    np.testing.assert_allclose(estimator.coef_, MergeSVC().fit(X[100:], y[100:]).coef_, atol=1e-10)


def test_first_rows_of_several_threads_are_all_learned(data):
    X, _ = data
    for make in (MergeSVC, RecursiveSVC):
        for _ in range(20):
            estimator = make()
            in_threads(lambda number, estimator=estimator: estimator.partial_fit(X[number : number + 1], [number % 2]))
            knowledge = estimator.to_knowledge() if make is RecursiveSVC else estimator.knowledge_
            assert knowledge.rows.tolist() == [4, 4]


def test_pegasos_svc_loses_no_step(data):
    X, _ = data
    estimator = PegasosSVC(n_iter=20, precision="float64")

    def work(number):
        for part in range(10):
            mine = slice(100 * number + 10 * part, 100 * number + 10 * part + 10)
            estimator.partial_fit(X[mine], np.arange(10) % 3)

    in_threads(work)
    assert estimator.n_iter_ == 20 * 10 * N_THREADS
    assert estimator.model_.domain.rows.sum() == 10 * 10 * N_THREADS


def test_parallel_kernel_svc_loses_no_row(data):
    X, _ = data
    estimator = ParallelKernelSVC(n_jobs=1)
    in_threads(lambda number: [estimator.partial_fit(X[p * 8 + number :: 64][:6], np.arange(6) % 3) for p in range(4)])
    assert estimator.model_.domain.rows.sum() == 6 * 4 * N_THREADS


@pytest.mark.parametrize("make", [RecursiveSVC, MergeSVC])
def test_readers_never_see_a_torn_model(data, make):
    # The targets of all classes add up to -1 for every row, so with a free intercept the coefficients add up to 0,
    # and the intercepts to -1.
    X, y = data
    estimator = make(penalize_intercept=False).fit(X[:60], y[:60])
    finished = Event()

    def write(number):
        mine = np.arange(60 + number, 3000, N_THREADS // 2)
        try:
            for part in np.array_split(mine, 60):
                if make is RecursiveSVC and number % 2:
                    one_by_one(estimator, X[part], y[part])
                else:
                    estimator.partial_fit(X[part], y[part])
        finally:
            finished.set()

    def read(number):
        seen = 0
        while not finished.is_set() or not seen:
            model = estimator.model_ if number % 2 else estimator._scoring_model()
            np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-10)
            np.testing.assert_allclose(model.intercept_.sum(), -1.0, atol=1e-9)
            np.testing.assert_allclose(estimator.decision_function(X[:5]).sum(axis=1), -1.0, atol=1e-9)
            np.testing.assert_allclose(estimator.predict_proba(X[:5]).sum(axis=1), 1.0)
            if make is RecursiveSVC:
                assert estimator.predict_one(X[number]) in (0, 1, 2)
            seen += 1
        return seen

    in_threads(write, read, threads=N_THREADS // 2)
    np.testing.assert_allclose(estimator.coef_, make(penalize_intercept=False).fit(X[:3000], y[:3000]).coef_, atol=1e-9)


@pytest.mark.parametrize("make", [MergeSVC, RecursiveSVC, lambda: PegasosSVC(n_iter=10), ParallelKernelSVC])
def test_copies_have_locks_of_their_own(data, make):
    X, y = data
    estimator = make().fit(X[:200], y[:200])
    for again in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
        np.testing.assert_array_equal(again.predict(X), estimator.predict(X))
        assert again._learning_lock is not estimator._learning_lock
    assert vars(clone(estimator)).keys() == vars(make()).keys()


def test_a_live_model_is_copied_whole_while_it_learns(data):
    X, y = data
    estimator = RecursiveSVC().fit(X[:60], y[:60])
    finished = Event()

    def write(number):
        try:
            one_by_one(estimator, X[60 + number : 3000 : 4], y[60 + number : 3000 : 4])
        finally:
            finished.set()

    def copy_it(_):
        while not finished.is_set():
            again = pickle.loads(pickle.dumps(estimator))
            knowledge = again.to_knowledge()
            np.testing.assert_allclose(again.coef_, ms.solve(knowledge).coef_, atol=1e-9)

    in_threads(write, copy_it, threads=4)


def test_prediction_does_not_wait_for_an_update(data, monkeypatch):
    X, y = data
    estimator = RecursiveSVC().fit(X[:500], y[:500])
    expected = estimator.predict(X[:50])
    learning, go_on = Event(), Event()
    learn = estimator.live_._state.learn

    def slow(batch):
        learning.set()
        assert go_on.wait(30)
        learn(batch)

    monkeypatch.setattr(estimator.live_._state, "learn", slow)
    with ThreadPoolExecutor(1) as pool:
        update = pool.submit(estimator.live_.learn, Batch.of(X[500:], y[500:]))
        try:
            assert learning.wait(30)
            np.testing.assert_array_equal(estimator.predict(X[:50]), expected)
            assert [estimator.predict_one(row) for row in X[:50]] == expected.tolist()
        finally:
            go_on.set()
        update.result()
    np.testing.assert_allclose(estimator.coef_, MergeSVC().fit(X, y).coef_, atol=1e-10)
    np.testing.assert_array_equal(estimator.predict(X), MergeSVC().fit(X, y).predict(X))
