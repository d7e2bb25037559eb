"""Kernels, their columns, and the small problems, each against a plain way to the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import mergesvm as ms
from kernel_reference import dual_objective, kernel_matrix, optimum
from mergesvm.engines import Threads
from mergesvm.methods.kernel.jit.dual import ascend
from mergesvm.methods.kernel.jit.tables import add_between, add_within
from mergesvm.methods.kernel.row_store import Known, RowStore
from mergesvm.methods.kernel.subproblems import Subproblems
from mergesvm.methods.kernel.worker.column_cache import ColumnCache
from mergesvm.models.kernel_function import MAX_UNCACHED_COLUMNS, Kernel
from mergesvm.models.kernel_values_jit import exponentials

KERNELS = [
    Kernel("rbf", 0.3),
    Kernel("linear"),
    Kernel("poly", 0.7, 3, 0.5),
    Kernel("poly", 0.2, 1, -0.5),
    Kernel("poly", 1, 6),
]


def rows(n, d=5, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels_are_those_of_scikit_learn(kernel, convert):
    X, Z = rows(20), rows(33, seed=1)
    truth = kernel_matrix(kernel.kind, X, Z, kernel.gamma, kernel.degree, kernel.coef0)
    np.testing.assert_allclose(kernel(convert(X), convert(Z)), truth, rtol=1e-10, atol=1e-12)
    real = np.dtype(np.float32)
    out = np.empty((20, 33), dtype=real)
    kernel.fill(kernel.turn(kernel.lift(convert(X), real)), kernel.lift(convert(Z), real), out)
    np.testing.assert_allclose(out, truth, rtol=1e-4, atol=1e-5 * np.abs(truth).max())


def test_rows_far_from_the_origin_are_as_far_from_one_another():
    X = rows(20) + 1e6
    np.testing.assert_allclose(Kernel("rbf", 0.3)(X, X), kernel_matrix("rbf", X - 1e6, X - 1e6, 0.3), rtol=1e-7)


def test_a_row_is_nearest_to_itself():
    for real in (np.float32, np.float64):
        X, kernel = 100 * rows(50), Kernel("rbf", 2.0)
        lifted, out = kernel.lift(X, np.dtype(real)), np.empty((50, 50), dtype=real)
        kernel.fill(kernel.turn(lifted), lifted, out)
        assert (out <= 1).all()
        assert (out >= 0).all()
    whole = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(np.diag(Kernel("rbf", 2.0)(whole, whole)), np.ones(4))


@pytest.mark.parametrize(
    ("kernel", "match"),
    [
        (Kernel("rbf", 0.0), "gamma has to be .* not 0.0"),
        (Kernel("rbf", np.inf), "gamma"),
        (Kernel("rbf", np.nan), "gamma"),
        (Kernel("poly", 1.0, 0), "degree has to be a whole number from 1 to 100, not 0"),
        (Kernel("poly", 1.0, 2.5), "degree"),
        (Kernel("poly", 1.0, 101), "degree"),
        (Kernel("poly", 1.0, 3, np.nan), "coef0 has to be a finite number"),
    ],
)
def test_what_cannot_be_is_named(kernel, match):
    with pytest.raises(ms.errors.ParameterError, match=match):
        kernel.check()


@pytest.mark.parametrize(
    ("function", "match"),
    [
        (lambda X, _: np.ones(len(X)), r"numbers of shape \(4, 6\) for 4 and 6 rows, not float64 of shape \(4,\)"),
        (lambda X, Z: Z @ X.T, r"not float64 of shape \(6, 4\)"),
        (lambda X, Z: (X @ Z.T).astype(str), "numbers of shape"),
        (lambda X, Z: X @ Z.T * np.nan, "not finite"),
        (lambda X, Z: X @ Z.T + np.inf, "not finite"),
    ],
)
def test_functions_that_are_no_kernels_are_an_error(function, match):
    with pytest.raises(ms.errors.DataError, match=match):
        Kernel("callable", function=function)(rows(4), rows(6))


def test_exponentials_are_those_of_numpy():
    values = -np.geomspace(1e-12, 86, 5000).astype(np.float32)
    values = np.concatenate([values, -np.arange(80, dtype=np.float32) * np.float32(np.log(2)), [0.0]])
    values = values.astype(np.float32)
    out = np.stack([values, values[::-1]])
    exponentials(out)
    truth = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(out[0], truth, rtol=3e-7)
    np.testing.assert_array_equal(out[1], out[0][::-1])
    out = np.array([[0.1, 5.0, -1e3, -np.inf, -200.0]], dtype=np.float32)
    exponentials(out)
    np.testing.assert_array_equal(out[0, :2], 1.0)  # a distance is not negative
    assert (out[0, 2:] >= 0).all()
    assert (out[0, 2:] < 1e-37).all()


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_a_stack_is_all_its_parts(convert):
    generator, stack, whole = np.random.default_rng(0), RowStore(), np.zeros((0, 5))
    for seed, size in enumerate([3, 0, 1, 1, 10, 2, 40, 1, 1, 1]):
        stack.append(convert(rows(size, seed=seed)))
        whole = np.vstack([whole, rows(size, seed=seed)])
        assert len(stack) == len(whole)
        places = generator.integers(0, len(whole), 2 * len(whole))
        taken = stack.take(places)
        np.testing.assert_array_equal(taken if convert is np.asarray else taken.toarray(), whole[places])
    assert stack.take(np.zeros(0, np.int64)).shape == (0, 5)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
@pytest.mark.parametrize("capacity", [1, 70, 1000])
def test_columns_are_right_however_few_are_kept(capacity, kernel, convert):
    generator, real = np.random.default_rng(1), np.dtype(np.float64)
    X, others = rows(50), rows(300, seed=2)
    columns, known = ColumnCache(kernel, kernel.lift(convert(X.copy()), real), real, capacity), Known()
    order = np.arange(50)
    for turn in range(12):
        known.append(kernel.turn(kernel.lift(convert(others[25 * turn : 25 * turn + 25]), real)))
        if turn in (4, 6):  # half of those that are awake go to sleep
            places = generator.permutation(columns.awake)
            order[: columns.awake] = order[places]
            columns.rearrange(places, columns.awake // 2)
        if turn == 8:
            columns.wake()
        ids = np.unique(generator.integers(0, len(known), 200))
        truth = kernel(others[ids], X[order[: columns.awake]])
        seen = 0
        for part, slots in columns.bring(ids, known):
            found = columns.slab[slots, : columns.awake]
            np.testing.assert_allclose(found, truth[part], rtol=1e-9, atol=1e-9)
            seen += len(slots)
        assert seen == len(ids)
    assert columns.held <= columns.capacity


def test_columns_that_are_kept_are_not_computed_again():
    kernel, real, known = KERNELS[0], np.dtype(np.float64), Known()
    columns = ColumnCache(kernel, kernel.lift(rows(50), real), real, 100)
    known.append(kernel.turn(kernel.lift(rows(80, seed=3), real)))
    for ids in (np.arange(40), np.arange(20), np.arange(30, 60)):
        list(columns.bring(ids, known))
    assert columns.computed == 60 * 50


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("penalty", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
def test_small_problems_are_solved_to_the_end(kernel, penalty, real):
    generator = np.random.default_rng(2)
    X, bound = rows(40), generator.uniform(0.1, 2.0, 40)
    y = np.where(X[:, 0] + 0.5 * generator.normal(size=40) > 0, 1.0, -1.0)
    K = kernel(X, X)
    alpha, v = np.zeros(40), y.copy()
    steps = ascend(K.astype(real), y, v, alpha, bound, 0.0, penalty, 1e-5, 100_000)
    assert 0 < steps < 100_000
    assert (alpha >= 0).all()
    assert (alpha <= bound).all()
    np.testing.assert_allclose(v, y - K @ (y * alpha), atol=1e-3 if real == np.float32 else 1e-9)
    best = dual_objective(K, y, optimum(K, y, bound, penalty), penalty)
    np.testing.assert_allclose(dual_objective(K, y, alpha, penalty), best, rtol=1e-4 if real == np.float32 else 1e-8)


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
def test_small_problems_keep_the_sum_where_it_may_not_change(kernel):
    generator = np.random.default_rng(3)
    X, bound = rows(40), generator.uniform(0.1, 2.0, 40)
    y = np.where(X[:, 0] + 0.5 * generator.normal(size=40) > 0, 1.0, -1.0)
    K = kernel(X, X)
    alpha = bound * generator.uniform(0, 1, 40)
    total, v = y @ alpha, y - K @ (y * alpha)
    start = dual_objective(K, y, alpha)
    ascend(K, y, v, alpha, bound, total, -1.0, 1e-8, 1_000_000)
    np.testing.assert_allclose(y @ alpha, total, atol=1e-9)
    assert dual_objective(K, y, alpha) > start
    high = v[np.where(y > 0, alpha < bound, alpha > 0)].max()
    low = v[np.where(y > 0, alpha > 0, alpha < bound)].min()
    assert high - low <= 1e-8  # the conditions of the optimum


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0])
def test_small_problems_without_curvature_go_to_their_bounds(penalty):
    y, bound = np.array([-1.0, 1.0, 1.0]), np.array([1.0, 0.75, 0.75])
    alpha, v = np.zeros(3), y.copy()
    assert ascend(np.zeros((3, 3)), y, v, alpha, bound, 0.0, penalty, 1e-9, 1000) < 1000
    total = {-1.0: 2.0, 0.0: 2.5, 1.0: 2.5}[penalty]
    np.testing.assert_allclose(alpha.sum(), total)


def test_small_problems_may_have_no_rows_and_stop_where_they_are_told_to():
    none = np.zeros(0)
    assert ascend(np.zeros((0, 0)), none, none.copy(), none.copy(), none, 0.0, 1.0, 1e-3, 10) == 0
    X = rows(30)
    y, alpha = np.where(X[:, 0] > 0, 1.0, -1.0), np.zeros(30)
    assert ascend(KERNELS[0](X, X), y, y.copy(), alpha, np.ones(30), 0.0, -1.0, 1e-9, 3) == 3
    assert (alpha > 0).sum() <= 6


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("penalty", [-1.0, 1.0])
@pytest.mark.parametrize("width", [5, MAX_UNCACHED_COLUMNS + 6])
@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
def test_many_small_problems_are_solved_as_one_by_one(kernel, width, penalty, workers):
    X, generator = rows(60, width) / np.sqrt(width), np.random.default_rng(4)
    parts = [generator.choice(60, size, replace=False) for size in (40, 0, 25, 60, 1)]
    places, firsts = np.concatenate(parts), np.cumsum([0, *(len(part) for part in parts)])
    y = np.where(X[places, 0] + 0.2 * generator.normal(size=len(places)) > 0, 1.0, -1.0)
    bound, alpha = generator.uniform(0.1, 2.0, len(y)), np.zeros(len(y))
    smalls = Subproblems(firsts, places, y, y.copy(), alpha, bound, np.zeros(len(parts)))
    lifted = kernel.lift(X, np.dtype(np.float64)).matrix
    smalls.solve(lifted, kernel.numbers, penalty, np.full(len(parts), 1e-9), Threads(workers))
    for k, part in enumerate(parts):
        if not len(part):
            continue
        K, here = kernel(X[part], X[part]), smalls.span(k)
        alone, v = np.zeros(len(part)), y[here].copy()
        ascend(K, y[here], v, alone, bound[here], 0.0, penalty, 1e-9, 1_000_000)
        np.testing.assert_allclose(smalls.v[here], y[here] - K @ (y[here] * alpha[here]), atol=1e-9)
        there = dual_objective(K, y[here], alone, max(penalty, 0.0))
        np.testing.assert_allclose(dual_objective(K, y[here], alpha[here], max(penalty, 0.0)), there, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
def test_scores_of_small_problems_are_sums_of_columns(kernel):
    """Three classes of 20, 15 and 15 rows, the last with the first and with the second; nothing of the second moves."""
    X, Z, steps = rows(50), rows(9, seed=1), np.random.default_rng(5).normal(size=6)
    real, codes = np.dtype(np.float64), np.array([2, 2, 1, 0, 0, 1, 0, 2, 0])
    pairs, starts = np.array([[0, 2], [1, 2]]), np.array([[0, 20], [35, 50]])
    counts, offsets = np.array([[20, 15], [15, 15]]), np.array([[0, 35], [20, 35]])
    firsts, ids, score = np.array([0, 4, 6]), np.array([8, 0, 3, 7, 7, 1]), np.ones(65)
    known = kernel.turn(kernel.lift(Z, real)).matrix
    where = starts, counts, offsets, kernel.lift(X, real).matrix, firsts, ids, steps, known
    heads, spans = np.array([0, 2, 1, 3]), np.array([0, 1, 2, 4])
    used, bounds = np.array([3, 8, 0, 1, 7]), np.array([0, 2, 2, 5])
    add_within(score, heads, spans, *where, used, bounds, kernel.numbers)
    add_between(score, pairs, codes, *where, kernel.numbers)
    first = kernel(X[np.r_[:20, 35:50]], Z[ids[:4]]) @ steps[:4]
    second = kernel(X[20:], Z[ids[4:]]) @ steps[4:]
    np.testing.assert_allclose(score, 1 + np.concatenate([first, second]), rtol=1e-12, atol=1e-12)


def test_middles_are_between_what_may_rise_and_what_may_fall():
    y, bound = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0]), np.ones(6)
    v, alpha = np.array([0.5, 0.9, -0.3, 0.1, 0.2, -0.7]), np.array([0.0, 1.0, 0.4, 1.0, 0.0, 0.0])
    problems = Subproblems(np.array([0, 4, 4, 5, 6]), np.zeros(6, np.int64), y, v, alpha, bound, np.zeros(4))
    # Rows 0, 2 and 3 may rise, 1 and 2 fall. Then a problem without rows, and two in which all may move one way only.
    np.testing.assert_allclose(problems.middles(np.full(4, 7.0)), [(0.5 - 0.3) / 2, 7.0, 7.0, 7.0])
