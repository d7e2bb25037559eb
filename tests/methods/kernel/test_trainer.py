"""The kernel machine against a textbook's solver, and what must be true of its way there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

import mergesvm as ms
from hunting import examples
from kernel_reference import dual_objective, kernel_matrix, multipliers, optimum, primal_objective
from mergesvm import ParallelKernelSVC
from mergesvm.methods.kernel.coordinator import Coordinator
from mergesvm.methods.kernel.worker import dual_state as working
from reference import blobs


def quadratic(X, Z):
    return (1 + X @ Z.T) ** 2


TERMS = {"gamma": 0.5, "degree": 3, "coef0": 1.0}


@pytest.fixture(scope="module")
def pair():
    """Two classes that overlap."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 3))
    return X, np.where(X[:, 0] + 0.5 * generator.normal(size=30) > 0.2, 1, -1)


def objective_of(machine, X, y, kernel="rbf", penalty=0.0, **terms):
    """F from the multipliers of a machine, computed anew."""
    signed = multipliers(machine, len(y))
    return dual_objective(kernel_matrix(kernel, X, X, **terms), y, y * signed, penalty)


def recorded(monkeypatch):
    """F as it is at the beginning of each round, from the exact sums over all rows, of all problems."""
    history, judge = [], Coordinator._judge

    def judged(self, answers, asleep):
        result = judge(self, answers, asleep)
        if not asleep:
            history.append(sum(standing.objective for standing in self.standings))
        return result

    monkeypatch.setattr(Coordinator, "_judge", judged)
    return history


@pytest.mark.parametrize("method", ["working-set", "active-set"])
@pytest.mark.parametrize("units", [1, 2, 5])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", quadratic])
def test_the_optimum_is_that_of_another_solver(pair, kernel, units, method):
    X, y = pair
    K = kernel_matrix(kernel, X, X, **TERMS)
    for beta in (1e-3, 1.0, 1e3):
        penalty = beta * units
        alpha = optimum(K, y, np.ones(len(y)), penalty)
        best, b = dual_objective(K, y, alpha, penalty), penalty * (alpha @ y)
        assert primal_objective(K, y, alpha, np.ones(len(y)), b, penalty) - best < 1e-4 * best
        machine = ParallelKernelSVC(kernel, beta=beta, units=units, method=method, tol=1e-6, **TERMS).fit(X, y)
        np.testing.assert_allclose(machine.objective_, best, rtol=1e-9)
        np.testing.assert_allclose(objective_of(machine, X, y, kernel, penalty, **TERMS), best, rtol=1e-9)
        np.testing.assert_allclose(machine.intercept_, [b], atol=1e-4)
        np.testing.assert_allclose(machine.intercept_, [penalty * machine.dual_coef_.sum()], rtol=1e-6, atol=1e-9)
        scores = K @ (alpha * y) + b
        np.testing.assert_allclose(machine.decision_function(X), scores, atol=1e-4)


@pytest.mark.parametrize(("accelerated", "units"), [(True, 1), (True, 3), (False, 1)])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", quadratic])
def test_the_gradient_climbs_to_the_same_optimum(pair, kernel, accelerated, units):
    X, y = pair[0][:14], pair[1][:14]
    K = kernel_matrix(kernel, X, X, **TERMS)
    for beta in (1e-3, 0.1):
        alpha = optimum(K, y, np.full(len(y), 0.5), beta * units)
        best = dual_objective(K, y, alpha, beta * units)
        machine = ParallelKernelSVC(
            kernel, C=0.5, beta=beta, units=units, method="gradient", accelerated=accelerated, tol=1e-4, **TERMS
        ).fit(X, y)
        np.testing.assert_allclose(machine.objective_, best, rtol=1e-6)
        np.testing.assert_allclose(objective_of(machine, X, y, kernel, beta * units, **TERMS), best, rtol=1e-6)
        np.testing.assert_allclose(machine.intercept_, [beta * units * (alpha @ y)], atol=1e-3)


def test_the_plain_gradient_never_falls_even_along_a_steep_penalty(pair):
    X, y = pair
    machine = ParallelKernelSVC(beta=1e3, gamma=0.5, units=2, method="gradient", max_iter=60)
    with pytest.warns(ms.errors.SolverWarning, match="did not come to their end in 60 rounds"):
        machine.fit(X, y)
    history = np.array(machine._trained.history)
    assert (np.diff(history) >= 0).all()
    assert history[0] == 0
    assert history[-1] > 0
    np.testing.assert_allclose(objective_of(machine, X, y, "rbf", 2e3, gamma=0.5), machine.objective_, rtol=1e-9)


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("terms", [{"working_set": 4}, {"working_set": 16}, {"method": "active-set"}, {}])
def test_the_objective_never_falls(monkeypatch, terms, units, beta):
    X, y = blobs(seed=3, n=90, d=2, classes=3)
    history = recorded(monkeypatch)
    machine = ParallelKernelSVC(C=5.0, beta=beta, units=units, tol=1e-5, cache_size=0.001, **terms).fit(X, y)
    alone = units == 1 and not terms  # then few rows are solved before anything is asked
    assert len(history) > (0 if alone else 3 if terms else 1)
    assert (np.diff(history) >= -1e-12 * machine.objective_).all()
    assert alone or history[0] == 0
    whole = ParallelKernelSVC(C=5.0, beta=beta and beta * units, tol=1e-5).fit(X, y)
    np.testing.assert_allclose(machine.objective_, whole.objective_, rtol=1e-7)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_tiny_cache_changes_nothing(precision):
    X, y = blobs(seed=4, n=400, d=3, classes=2)
    X[:, 2] *= 0.1
    machines = [
        ParallelKernelSVC(C=10.0, working_set=40, cache_size=size, precision=precision).fit(X, y)
        for size in (1e-6, 100.0)
    ]
    np.testing.assert_array_equal(machines[0].support_, machines[1].support_)
    np.testing.assert_allclose(machines[0].objective_, machines[1].objective_, rtol=1e-6)
    np.testing.assert_allclose(*[machine.decision_function(X) for machine in machines], atol=2e-3)


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("classes", [2, 4])
def test_rows_that_were_put_to_sleep_do_not_change_the_optimum(monkeypatch, classes, units, beta):
    X, y = blobs(seed=5, n=160, d=2, classes=classes)
    terms = {"C": 2.0, "beta": beta, "units": units, "tol": 1e-6, "working_set": 16}
    plain = ParallelKernelSVC(**terms).fit(X, y)
    slept, sleep = [], working.DualState.sleep

    def counted(self, order):
        sleep(self, order)
        slept.append(len(self._sleeping))

    monkeypatch.setattr(working, "PATIENCE", 0)
    monkeypatch.setattr(working, "PAUSE", 1)
    monkeypatch.setattr(working, "FRUGAL", 0.01)
    monkeypatch.setattr(working.DualState, "sleep", counted)
    machine = ParallelKernelSVC(**terms).fit(X, y)
    assert max(slept) > 0
    np.testing.assert_allclose(machine.objective_, plain.objective_, rtol=1e-9)
    np.testing.assert_allclose(machine.model_.scores(X), plain.model_.scores(X), atol=1e-5)
    assert machine.violation_ <= 1e-6
    assert 0 <= machine.dual_gap_ < 1e-4 * machine.objective_
    later = machine.partial_fit(X[:30] + 0.1, y[:30])
    whole = ParallelKernelSVC(**terms | {"gamma": plain.model_.expansion.kernel.gamma})
    whole.fit(np.vstack([X, X[:30] + 0.1]), np.append(y, y[:30]))
    np.testing.assert_allclose(later.objective_, whole.objective_, rtol=1e-9)


def svc_objective(X, y, **terms):
    machine = SVC(tol=1e-8, **terms).fit(X, y)
    scores = machine.decision_function(X)[machine.support_] - machine.intercept_
    return np.abs(machine.dual_coef_).sum() - machine.dual_coef_[0] @ scores / 2


@pytest.mark.parametrize("method", ["working-set", "active-set"])
@pytest.mark.parametrize(
    ("units", "rows"),
    [(2, "sorted"), (5, "sorted"), (12, "few"), (7, "two"), (2, "twice"), (3, "same"), (4, "alone")],
)
def test_rows_may_be_dealt_out_in_any_way(units, rows, method):
    X, y = blobs(seed=6, n=60, d=2, classes=2)
    order = np.argsort(y, kind="stable")
    X, y = {
        "sorted": (X[order], y[order]),
        "few": (X[:9], y[:9]),
        "two": (X[order[[0, -1]]], y[order[[0, -1]]]),
        "twice": (np.vstack([X, X]), np.append(y, y)),
        "same": (np.ones((20, 2)), np.arange(20) % 3 == 0),
        "alone": (X, np.arange(60) == 41),
    }[rows]
    terms = {"C": 2.0, "gamma": 0.7}
    machine = ParallelKernelSVC(units=units, tol=1e-6, method=method, **terms).fit(X, y)
    np.testing.assert_allclose(machine.objective_, svc_objective(X, y, **terms), rtol=1e-6)
    signs = np.where(y == machine.classes_[1], 1.0, -1.0)
    penalised = ParallelKernelSVC(units=units, beta=0.3, tol=1e-6, method=method, **terms).fit(X, y)
    K = kernel_matrix("rbf", X, X, gamma=0.7)
    best = dual_objective(K, signs, optimum(K, signs, np.full(len(y), 2.0), 0.3 * units), 0.3 * units)
    np.testing.assert_allclose(penalised.objective_, best, rtol=1e-6)


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
def test_a_single_class_is_all_there_is(units, beta):
    X, _ = blobs(seed=7, n=10)
    machine = ParallelKernelSVC(units=units, beta=beta).fit(X, ["only"] * 10)
    assert machine.predict(X).tolist() == ["only"] * 10
    assert (machine.objective_, machine.dual_gap_, len(machine.support_)) == (0.0, 0.0, 0)
    np.testing.assert_array_equal(machine.predict_proba(X), np.ones((10, 1)))


def test_units_judge_their_rows_by_the_intercept_that_steps_have_led_to(monkeypatch):
    generator, told, lead = np.random.default_rng(2), [], Coordinator.next
    X = generator.normal(size=(400, 2))
    y = X[:, 0] + 0.3 * generator.normal(size=400) > 1.3  # few of one class: the intercept is far from zero

    def led(self, answers):
        order = lead(self, answers)
        told.extend(order.intercepts)
        return order

    monkeypatch.setattr(Coordinator, "next", led)
    machine = ParallelKernelSVC(C=1.0, gamma=0.5, units=3).fit(X, y)
    assert abs(machine.intercept_[0]) > 0.3
    np.testing.assert_allclose(told[0], machine.intercept_[0], atol=0.1)


def test_rows_far_from_the_margin_of_small_problems_never_leave_their_unit():
    generator = np.random.default_rng(3)
    X = generator.uniform(-3, 3, size=(600, 2))
    machine = ParallelKernelSVC(C=10.0, gamma=0.1, units=3).fit(X, X[:, 0] > 0)
    left = len(machine._training.machine._book.labels)
    assert len(machine.support_) <= left < 150


def test_units_and_threads_do_not_matter():
    X, y = blobs(seed=8, n=200, d=3, classes=3)
    first = ParallelKernelSVC(C=3.0, tol=1e-6).fit(X, y)
    again = ParallelKernelSVC(C=3.0, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(first.dual_coef_, again.dual_coef_)
    np.testing.assert_array_equal(first.intercept_, again.intercept_)
    for units, jobs in [(2, 1), (5, 2)]:
        machine = ParallelKernelSVC(C=3.0, tol=1e-6, units=units, n_jobs=jobs).fit(X, y)
        np.testing.assert_allclose(machine.objective_, first.objective_, rtol=1e-9)
        np.testing.assert_array_equal(machine.support_, first.support_)
        np.testing.assert_allclose(machine.model_.scores(X), first.model_.scores(X), atol=1e-5)
        assert machine.traffic_.sent.shape == (machine.traffic_.rounds, units)
    one, two = (ParallelKernelSVC(units=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


@pytest.mark.parametrize("beta", [None, 0.5])
@pytest.mark.parametrize("units", [1, 3])
def test_the_gap_ends_training_if_it_is_asked_for(units, beta):
    X, y = blobs(seed=9, n=300, d=3, classes=3)
    for tolerance in (1e-1, 1e-3, 1e-6):
        machine = ParallelKernelSVC(beta=beta, units=units, tol=tolerance, stop="gap").fit(X, y)
        assert 0 <= machine.dual_gap_ <= tolerance * machine.objective_
    violating = ParallelKernelSVC(beta=beta, units=units, tol=1e-3).fit(X, y)
    assert violating.violation_ <= 1e-3


@pytest.mark.parametrize("beta", [None, 0.5])
def test_the_gap_is_the_primal_objective_less_the_dual_one(pair, beta):
    X, y = pair
    for rounds in (1, 2, 3):
        machine = ParallelKernelSVC(C=2.0, gamma=0.5, beta=beta, units=2, working_set=4, max_iter=rounds)
        with pytest.warns(ms.errors.SolverWarning, match=f"in {rounds} rounds: the largest violation is"):
            machine.fit(X, y)
        K, alpha, penalty = kernel_matrix("rbf", X, X, 0.5), y * multipliers(machine, len(y)), 2 * (beta or 0.0)
        dual = dual_objective(K, y, alpha, penalty)
        primal = primal_objective(K, y, alpha, np.full(len(y), 2.0), machine.intercept_[0], penalty)
        np.testing.assert_allclose([machine.objective_, machine.dual_gap_], [dual, primal - dual], rtol=1e-9)
        assert machine.dual_gap_ > 0
        assert machine.n_iter_ == rounds


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
def test_few_support_vectors_come_the_nearer_to_the_optimum_the_more_they_are(units, beta):
    X, y = blobs(seed=10, n=150, d=2, classes=3)
    whole = ParallelKernelSVC(C=5.0, beta=beta, units=units).fit(X, y)
    reached = []
    for most in (2, 4, 8, 16, 150):
        machine = ParallelKernelSVC(C=5.0, beta=beta, units=units, method="active-set", max_support_vectors=most)
        machine.fit(X, y)
        sizes = np.diff(machine._trained.coefs.firsts)
        assert (sizes <= most).all()
        reached.append(machine.objective_)
    assert (np.diff(reached) > 0).all()
    assert reached[-2] < whole.objective_ * (1 - 1e-6)
    np.testing.assert_allclose(reached[-1], whole.objective_, rtol=1e-5)


def test_the_active_set_has_less_to_tell(pair):
    X, y = blobs(seed=11, n=300, d=2, classes=2)
    few, many = (ParallelKernelSVC(units=3, method=method).fit(X, y) for method in ("active-set", "working-set"))
    rows = [machine._training.machine._book.labels for machine in (few, many)]
    assert len(rows[0]) < len(rows[1])  # rows that were sent
    np.testing.assert_allclose(few.objective_, many.objective_, rtol=1e-5)


@pytest.mark.parametrize("beta", [None, 10.0])
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_tolerance_beyond_all_digits_comes_to_an_end(precision, units, beta):
    X, y = blobs(seed=12, n=60, d=3, classes=2)
    machine = ParallelKernelSVC(tol=1e-14, beta=beta, units=units, precision=precision, gamma=0.2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(X, y)
    assert machine.violation_ <= 1e-14 or "as near to the optimum" in str(caught[0].message)
    loose = ParallelKernelSVC(tol=1e-6, beta=beta, units=units, gamma=0.2).fit(X, y)
    np.testing.assert_allclose(machine.objective_, loose.objective_, rtol=1e-5)


@st.composite
def problems(draw):
    """Rows of two classes: some are twice or thrice there, some weigh nothing, and units may have one class."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = generator.normal(size=(draw(st.integers(2, 16)), draw(st.integers(1, 3))))
    X = np.repeat(X, generator.integers(1, draw(st.integers(2, 4)), len(X)), axis=0)
    y = np.where(X[:, 0] + draw(st.sampled_from([0.0, 0.3, 2.0])) * generator.normal(size=len(X)) > 0, 1, -1)
    y[0], y[-1] = -1, 1
    if draw(st.booleans()):
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    weights = None
    if draw(st.booleans()):
        weights = generator.choice([0.0, 0.5, 1.0, 3.0], len(y))
        weights[[0, -1]] = 1.0
    return X + draw(st.sampled_from([0.0, 0.0, 1e6])), y, weights


@settings(max_examples=examples(50))
@given(
    problems(),
    st.sampled_from([1e-3, 0.1, 1.0, 30.0, 1e3]),
    st.sampled_from([None, 1e-2, 1.0, 100.0]),
    st.sampled_from([1, 2, 5]),
    st.sampled_from(["working-set", "active-set"]),
    st.sampled_from([4, 512]),
)
def test_any_small_problem_is_solved(problem, C, beta, units, method, size):
    X, y, weights = problem
    terms = {"C": C, "gamma": 0.5}
    machine = ParallelKernelSVC(beta=beta, units=units, method=method, working_set=size, tol=1e-6, **terms)
    machine.fit(X, y, weights)
    bound = C * (np.ones(len(y)) if weights is None else weights)
    K = kernel_matrix("rbf", X - X.mean(axis=0), X - X.mean(axis=0), 0.5)
    penalty = 0.0 if beta is None else beta * units
    alpha = y * multipliers(machine, len(y))
    assert (alpha >= 0).all()
    assert (alpha <= bound).all()
    found = dual_objective(K, y, alpha, penalty)
    np.testing.assert_allclose(machine.objective_, found, rtol=1e-6)
    if beta is None:
        assert abs(alpha @ y) <= 1e-9 * bound.sum()
        # Where this is more than F, there is no better alpha.
        primal = primal_objective(K, y, alpha, bound, machine.intercept_[0])
        assert primal - found <= 1e-5 * found
    else:
        other = optimum(K, y, bound, penalty)
        best = dual_objective(K, y, other, penalty)
        assert found >= best * (1 - 1e-5)
        assert found <= primal_objective(K, y, other, bound, penalty * (other @ y), penalty) * (1 + 1e-9)


def test_a_unit_that_is_alone_solves_small_problems_and_sends_no_rows_but_support_vectors():
    X, y = blobs(seed=5, n=400, d=6, classes=4)
    machine = ParallelKernelSVC(C=5.0).fit(X, y)
    theirs = SVC(C=5.0).fit(X, y)
    assert machine.n_iter_ == 1
    np.testing.assert_array_equal(machine.predict(X), theirs.predict(X))
    numbers = 8 * len(machine.support_)  # once with the rows, and once as those in use
    told = 8 * 9 * 6 + 8 * (6 + 1)  # how far six problems are, and that nothing is proposed for them
    assert machine.traffic_.sent.sum() == len(machine.support_) * X[0].nbytes + 2 * numbers + told
