"""SMO against an active-set solver on dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_reference import KERNELS, dual_objective, normal_rows, optimum
from mergesvm.engines import Threads
from mergesvm.methods.kernel.jit.smo import solve_subproblem
from mergesvm.methods.kernel.subproblems import Subproblems
from mergesvm.models.kernel_function import MAX_UNCACHED_COLUMNS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("penalty", [0.0, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_smo_finds_the_optimum(kernel, penalty, dtype):
    generator = np.random.default_rng(2)
    X, bound = normal_rows(40), generator.uniform(0.1, 2.0, 40)
    y = np.where(X[:, 0] + 0.5 * generator.normal(size=40) > 0, 1.0, -1.0)
    K = kernel(X, X)
    alpha, v = np.zeros(40), y.copy()
    steps = solve_subproblem(K.astype(dtype), y, v, alpha, bound, 0.0, penalty, 1e-5, 100_000)
    assert 0 < steps < 100_000
    assert (alpha >= 0).all()
    assert (alpha <= bound).all()
    np.testing.assert_allclose(v, y - K @ (y * alpha), atol=1e-3 if dtype == np.float32 else 1e-9)
    best = dual_objective(K, y, optimum(K, y, bound, penalty), penalty)
    np.testing.assert_allclose(dual_objective(K, y, alpha, penalty), best, rtol=1e-4 if dtype == np.float32 else 1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_negative_penalty_keeps_y_alpha_constant(kernel):
    generator = np.random.default_rng(3)
    X, bound = normal_rows(40), generator.uniform(0.1, 2.0, 40)
    y = np.where(X[:, 0] + 0.5 * generator.normal(size=40) > 0, 1.0, -1.0)
    K = kernel(X, X)
    alpha = bound * generator.uniform(0, 1, 40)
    total, v = y @ alpha, y - K @ (y * alpha)
    start = dual_objective(K, y, alpha)
    solve_subproblem(K, y, v, alpha, bound, total, -1.0, 1e-8, 1_000_000)
    np.testing.assert_allclose(y @ alpha, total, atol=1e-9)
    assert dual_objective(K, y, alpha) > start
    high = v[np.where(y > 0, alpha < bound, alpha > 0)].max()
    low = v[np.where(y > 0, alpha > 0, alpha < bound)].min()
    assert high - low <= 1e-8  # the optimality conditions


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 1.0])
def test_without_curvature_alpha_goes_to_its_bounds(penalty):
    y, bound = np.array([-1.0, 1.0, 1.0]), np.array([1.0, 0.75, 0.75])
    alpha, v = np.zeros(3), y.copy()
    assert solve_subproblem(np.zeros((3, 3)), y, v, alpha, bound, 0.0, penalty, 1e-9, 1000) < 1000
    total = {-1.0: 2.0, 0.0: 2.5, 1.0: 2.5}[penalty]
    np.testing.assert_allclose(alpha.sum(), total)


def test_smo_takes_no_rows_and_stops_at_max_steps():
    none = np.zeros(0)
    assert solve_subproblem(np.zeros((0, 0)), none, none.copy(), none.copy(), none, 0.0, 1.0, 1e-3, 10) == 0
    X = normal_rows(30)
    y, alpha = np.where(X[:, 0] > 0, 1.0, -1.0), np.zeros(30)
    assert solve_subproblem(KERNELS[0](X, X), y, y.copy(), alpha, np.ones(30), 0.0, -1.0, 1e-9, 3) == 3
    assert (alpha > 0).sum() <= 6


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("penalty", [-1.0, 1.0])
@pytest.mark.parametrize("width", [5, MAX_UNCACHED_COLUMNS + 6])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_many_subproblems_are_solved_as_one_by_one(kernel, width, penalty, workers):
    X, generator = normal_rows(60, width) / np.sqrt(width), np.random.default_rng(4)
    subsets = [generator.choice(60, size, replace=False) for size in (40, 0, 25, 60, 1)]
    positions, starts = np.concatenate(subsets), np.cumsum([0, *(len(part) for part in subsets)])
    y = np.where(X[positions, 0] + 0.2 * generator.normal(size=len(positions)) > 0, 1.0, -1.0)
    bound, alpha = generator.uniform(0.1, 2.0, len(y)), np.zeros(len(y))
    subproblems = Subproblems(starts, positions, y, y.copy(), alpha, bound, np.zeros(len(subsets)))
    lifted = kernel.lift(X, np.dtype(np.float64)).matrix
    subproblems.solve(lifted, kernel.jit_parameters, penalty, np.full(len(subsets), 1e-9), Threads(workers))
    for k, part in enumerate(subsets):
        if not len(part):
            continue
        K, here = kernel(X[part], X[part]), subproblems.span(k)
        alone, v = np.zeros(len(part)), y[here].copy()
        solve_subproblem(K, y[here], v, alone, bound[here], 0.0, penalty, 1e-9, 1_000_000)
        np.testing.assert_allclose(subproblems.v[here], y[here] - K @ (y[here] * alpha[here]), atol=1e-9)
        there = dual_objective(K, y[here], alone, max(penalty, 0.0))
        np.testing.assert_allclose(dual_objective(K, y[here], alpha[here], max(penalty, 0.0)), there, rtol=1e-9)


def test_intercepts_are_midpoints_between_i_up_and_i_low():
    y, bound = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0]), np.ones(6)
    v, alpha = np.array([0.5, 0.9, -0.3, 0.1, 0.2, -0.7]), np.array([0.0, 1.0, 0.4, 1.0, 0.0, 0.0])
    problems = Subproblems(np.array([0, 4, 4, 5, 6]), np.zeros(6, np.int64), y, v, alpha, bound, np.zeros(4))
    # I_up is {0, 2, 3}, I_low {1, 2}. Then a problem without rows, and two in which I_up or I_low is empty.
    np.testing.assert_allclose(problems.intercepts(np.full(4, 7.0)), [(0.5 - 0.3) / 2, 7.0, 7.0, 7.0])
