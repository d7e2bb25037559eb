"""Experiments with the paper's algorithms: the step kappa, where training starts, its history, and theorem 2's rate."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from kernel_reference import dual_objective, optimum
from mergesvm import ParallelKernelSVC
from mergesvm.errors import DataError, ParameterError, SolverWarning
from reference import blobs

PARAMETERS = {"method": "gradient", "gamma": 2.0, "C": 2.0, "beta": 0.5}


class Pair:
    """Thirty rows of two classes, and the matrix of the quadratic form of problem (2)."""

    def __init__(self, units=1, seed=0):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(30, 3))
        self.y = np.where(self.X[:, 0] + 0.5 * rng.normal(size=30) > 0, 1, -1)
        self.penalty, self.K = 0.5 * units, rbf_kernel(self.X, gamma=2.0)
        self.hessian = np.outer(self.y, self.y) * (self.K + self.penalty)
        self.eigenvalues = np.linalg.eigvalsh(self.hessian)

    def iterates(self, kappa, alpha, count):
        """Alpha after each iteration of equation 4, with the gradient of problem (2)."""
        found = [alpha]
        for _ in range(count):
            found.append(np.clip(found[-1] + kappa * (1 - self.hessian @ found[-1]), 0, 2.0))
        return found

    def objective(self, alpha):
        return dual_objective(self.K, self.y, alpha, self.penalty)


def alphas(classifier, n_rows):
    found = np.zeros(n_rows)
    found[classifier.support_] = np.abs(classifier.dual_coef_[0])
    return found


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("factor", [0.3, 1.7, 2.5])
def test_history_is_that_of_equation_4(units, factor):
    pair = Pair(units)
    kappa, start = factor / pair.eigenvalues[-1], np.random.default_rng(1).uniform(0, 2, 30)
    classifier = ParallelKernelSVC(units=units, kappa=kappa, max_iter=6, **PARAMETERS)
    with pytest.warns(SolverWarning):
        classifier.fit(pair.X, pair.y, initial=start)
    history, expected = classifier.history_, pair.iterates(kappa, start, 6)
    np.testing.assert_allclose(history.objective, [pair.objective(alpha) for alpha in expected], rtol=1e-10)
    np.testing.assert_array_equal(history.n_support, [(alpha > 0).sum() for alpha in expected])
    steps = [np.linalg.norm(after - before) for before, after in pairwise(expected)]
    np.testing.assert_allclose(history.step, [*steps, 0.0], rtol=1e-9)
    np.testing.assert_allclose(alphas(classifier, 30), expected[-1], atol=1e-12)
    assert history.kappa.tolist() == [kappa]
    assert history.bytes.sum() == classifier.traffic_.total
    for alpha, violation in zip(expected, history.violation, strict=True):
        gradient = 1 - pair.hessian @ alpha
        up, down = gradient[alpha < 2].max(initial=0), -gradient[alpha > 0].min(initial=0)
        np.testing.assert_allclose(violation, max(up, down), rtol=1e-9)


@pytest.mark.parametrize("units", [1, 2])
def test_the_rate_is_that_of_the_eigenvalues(units):
    pair = Pair(units)
    classifier = ParallelKernelSVC(units=units, tol=1e-7, **PARAMETERS).fit(pair.X, pair.y)
    kappa, alpha = classifier.history_.kappa[0], alphas(classifier, 30)
    assert kappa < 2 / pair.eigenvalues[-1]  # theorem 1
    free = (alpha > 0) & (alpha < 2.0)
    slowest = np.linalg.eigvalsh(pair.hessian[np.ix_(free, free)])
    np.testing.assert_allclose(classifier.history_.rate(), np.abs(1 - kappa * slowest).max(), rtol=1e-6)
    assert classifier.history_.rate() <= np.abs(1 - kappa * pair.eigenvalues).max() < 1  # theorem 2
    best = optimum(pair.K, pair.y, np.full(30, 2.0), pair.penalty)
    distances = [np.linalg.norm(each - best) for each in pair.iterates(kappa, alpha * 0, 400)]
    assert distances[400] / distances[300] <= np.abs(1 - kappa * pair.eigenvalues).max() ** 100


def test_a_kappa_beyond_the_bound_warns_and_names_it():
    pair = Pair()
    most = 2 / pair.eigenvalues[-1]
    classifier = ParallelKernelSVC(kappa=1.2 * most, max_iter=200, **PARAMETERS)
    with pytest.warns(SolverWarning, match="did not converge"), pytest.warns(SolverWarning, match="kappa=") as caught:
        classifier.fit(pair.X, pair.y)
    message = next(str(warning.message) for warning in caught if "kappa" in str(warning.message))
    assert message.startswith(f"kappa={1.2 * most:g} may be too large to converge: the bound is 2 / lambda")
    eigenvalue, safe = (float(number) for number in re.findall(r"(?:at most|below) ([\d.]+\d)", message))
    assert pair.eigenvalues[-1] <= eigenvalue <= 1.11 * pair.eigenvalues[-1]
    np.testing.assert_allclose(safe, 2 / eigenvalue, rtol=1e-2)
    assert classifier.violation_ > 1  # it goes back and forth for ever
    found = ParallelKernelSVC(kappa=0.9 * most, **PARAMETERS).fit(pair.X, pair.y)  # within the bound: no warning
    assert found.violation_ <= 1e-3
    with pytest.warns(SolverWarning, match="the bound is 1 / lambda"):
        ParallelKernelSVC(kappa=0.6 * most, accelerated=True, **PARAMETERS).fit(pair.X, pair.y)


def test_several_classes_start_from_the_same_dual_variables():
    X, y = blobs(seed=2, n=40, d=2, classes=3)
    start = np.random.default_rng(0).uniform(0, 0.5, 40)
    parameters = {**PARAMETERS, "C": 0.5, "units": 2}
    found = ParallelKernelSVC(**parameters).fit(X, y, initial=start)
    K, first = rbf_kernel(X, gamma=2.0), 0.0
    for one, other in [(0, 1), (0, 2), (1, 2)]:
        rows = (y == one) | (y == other)
        signs = np.where(y[rows] == one, -1.0, 1.0)
        first += dual_objective(K[np.ix_(rows, rows)], signs, start[rows], 2 * 0.5)
    np.testing.assert_allclose(found.history_.objective[0], first, rtol=1e-10)
    np.testing.assert_allclose(found.objective_, ParallelKernelSVC(**parameters).fit(X, y).objective_, rtol=1e-5)
    assert len(ParallelKernelSVC(**parameters).fit(X[:1], y[:1], initial=start[:1]).history_) == 1


@pytest.mark.parametrize("units", [1, 2])
def test_the_active_set_starts_with_these_rows(units):
    """Rows that are not in the initial active set are the first working set: their problem is solved first."""
    pair = Pair()
    parameters = {"method": "active-set", "gamma": 2.0, "C": 2.0, "units": units, "beta": 0.5 / units}
    every = ParallelKernelSVC(**parameters).fit(pair.X, pair.y)
    chosen = np.arange(0, 30, 2)
    found = ParallelKernelSVC(**parameters).fit(pair.X, pair.y, initial_active_set=chosen)
    inside = np.flatnonzero(np.arange(30) % 2)
    best = optimum(pair.K[np.ix_(inside, inside)], pair.y[inside], np.full(15, 2.0), 0.5)
    least = dual_objective(pair.K[np.ix_(inside, inside)], pair.y[inside], best, 0.5)
    assert found.history_.objective[1] >= least * (1 - 1e-9)  # units add their worst rows, too
    assert found.history_.objective[1] > every.history_.objective[1]
    assert len(found.history_) < len(every.history_)
    np.testing.assert_allclose(found.objective_, every.objective_, rtol=1e-9)
    # Without the rows that are no support vectors nothing is left to do.
    active = np.setdiff1d(np.arange(30), every.support_)
    at_once = ParallelKernelSVC(**parameters).fit(pair.X, pair.y, initial_active_set=active)
    np.testing.assert_allclose(at_once.history_.objective[1], every.objective_, rtol=1e-9)
    assert (np.diff(every.history_.n_support) <= 4).all()  # at most two rows of each unit


def test_rows_that_count_once_take_the_start_of_their_first_copy():
    pair = Pair()
    at, start = np.append(np.arange(30), np.arange(30)), np.random.default_rng(1).uniform(0, 2, 60)
    with pytest.warns(SolverWarning):
        found = ParallelKernelSVC(max_iter=2, units=2, **PARAMETERS).fit(
            pair.X[at], pair.y[at], row_ids=at, initial=start
        )
    np.testing.assert_allclose(found.history_.objective[0], Pair(2).objective(start[:30]), rtol=1e-10)


@pytest.mark.parametrize(
    ("options", "start", "error", "message"),
    [
        ({}, {"initial": np.zeros(29)}, DataError, "30 rows, 29 numbers"),
        ({}, {"initial": np.full(30, -1.0)}, DataError, "none below 0"),
        ({}, {"initial": np.full(30, np.nan)}, DataError, "none below 0"),
        ({}, {"initial": np.full(30, 2.5)}, DataError, r"initial has 2.5 for row \d+, whose dual .* at most 2:"),
        ({"method": "working-set"}, {"initial": np.zeros(30)}, ParameterError, "initial needs method='gradient'"),
        ({}, {"initial_active_set": [1]}, ParameterError, "initial_active_set needs method='active-set'"),
        ({"method": "active-set"}, {"initial_active_set": [3, 30]}, ParameterError, "has the index 30, but the 30"),
        ({"method": "active-set"}, {"initial_active_set": [0.5]}, ParameterError, "indices of rows"),
        ({"method": "working-set", "kappa": 0.1}, {}, ParameterError, "kappa=0.1 needs method='gradient'"),
        ({"kappa": 0.0}, {}, ParameterError, "kappa"),
    ],
)
def test_invalid_experiments(options, start, error, message):
    pair = Pair()
    with pytest.raises(error, match=message):
        ParallelKernelSVC(**{**PARAMETERS, **options}).fit(pair.X, pair.y, **start)


def test_history_of_the_default_method():
    X, y = blobs(seed=3, n=400, d=3, classes=3)
    found = ParallelKernelSVC(working_set=16, units=2, gamma=0.5).fit(X, y)
    history = found.history_
    assert (np.diff(history.objective) >= -1e-9).all()
    np.testing.assert_allclose(history.objective[-1], found.objective_, rtol=1e-6)
    assert history.n_support[-1] == np.count_nonzero(found.dual_coef_)
    assert history.violation[-1] <= 1e-3
    assert len(history) == len(history.bytes) == found.traffic_.rounds
    with pytest.raises(DataError, match="needs two iterations"):
        ParallelKernelSVC().fit([[0.0], [1.0]], [0, 1]).history_.rate()
