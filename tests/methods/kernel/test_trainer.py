"""Training of kernel classifiers: the optimum against an independent solver, and invariants on the way there."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

import mergesvm as ms
from hunting import examples
from kernel_reference import dual_objective, kernel_matrix, optimum, primal_objective, signed_alphas
from mergesvm import ParallelKernelSVC
from mergesvm.methods.kernel.coordinator.working_set import WorkingSetCoordinator
from mergesvm.methods.kernel.worker import scores
from reference import blobs


def quadratic(X, Z):
    return (1 + X @ Z.T) ** 2


PARAMETERS = {"gamma": 0.5, "degree": 3, "coef0": 1.0}


@pytest.fixture(scope="module")
def pair():
    """Two classes that overlap."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(30, 3))
    return X, np.where(X[:, 0] + 0.5 * generator.normal(size=30) > 0.2, 1, -1)


def objective_of(classifier, X, y, kernel="rbf", penalty=0.0, **parameters):
    """The dual objective, computed from the dual variables of a classifier."""
    signed = signed_alphas(classifier, len(y))
    return dual_objective(kernel_matrix(kernel, X, X, **parameters), y, y * signed, penalty)


def recorded_objectives(monkeypatch):
    """The dual objective of all problems at the start of each iteration, from exact sums over all rows."""
    history, check_convergence = [], WorkingSetCoordinator._check_convergence

    def record(self, replies, shrunk):
        result = check_convergence(self, replies, shrunk)
        if not shrunk:
            history.append(sum(status.objective for status in self.statuses))
        return result

    monkeypatch.setattr(WorkingSetCoordinator, "_check_convergence", record)
    return history


@pytest.mark.parametrize("method", ["working-set", "active-set"])
@pytest.mark.parametrize("units", [1, 2, 5])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", quadratic])
def test_the_optimum_is_that_of_an_independent_solver(pair, kernel, units, method):
    X, y = pair
    K = kernel_matrix(kernel, X, X, **PARAMETERS)
    for beta in (1e-3, 1.0, 1e3):
        penalty = beta * units
        alpha = optimum(K, y, np.ones(len(y)), penalty)
        best, b = dual_objective(K, y, alpha, penalty), penalty * (alpha @ y)
        assert primal_objective(K, y, alpha, np.ones(len(y)), b, penalty) - best < 1e-4 * best
        classifier = ParallelKernelSVC(kernel, beta=beta, units=units, method=method, tol=1e-6, **PARAMETERS).fit(X, y)
        np.testing.assert_allclose(classifier.objective_, best, rtol=1e-9)
        np.testing.assert_allclose(objective_of(classifier, X, y, kernel, penalty, **PARAMETERS), best, rtol=1e-9)
        np.testing.assert_allclose(classifier.intercept_, [b], atol=1e-4)
        np.testing.assert_allclose(classifier.intercept_, [penalty * classifier.dual_coef_.sum()], rtol=1e-6, atol=1e-9)
        scores = K @ (alpha * y) + b
        np.testing.assert_allclose(classifier.decision_function(X), scores, atol=1e-4)


@pytest.mark.parametrize(("accelerated", "units"), [(True, 1), (True, 3), (False, 1)])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", quadratic])
def test_the_gradient_method_reaches_the_same_optimum(pair, kernel, accelerated, units):
    X, y = pair[0][:14], pair[1][:14]
    K = kernel_matrix(kernel, X, X, **PARAMETERS)
    for beta in (1e-3, 0.1):
        alpha = optimum(K, y, np.full(len(y), 0.5), beta * units)
        best = dual_objective(K, y, alpha, beta * units)
        classifier = ParallelKernelSVC(
            kernel, C=0.5, beta=beta, units=units, method="gradient", accelerated=accelerated, tol=1e-4, **PARAMETERS
        ).fit(X, y)
        np.testing.assert_allclose(classifier.objective_, best, rtol=1e-6)
        np.testing.assert_allclose(objective_of(classifier, X, y, kernel, beta * units, **PARAMETERS), best, rtol=1e-6)
        np.testing.assert_allclose(classifier.intercept_, [beta * units * (alpha @ y)], atol=1e-3)


def test_the_gradient_method_never_decreases_the_objective_with_a_steep_penalty(pair):
    X, y = pair
    classifier = ParallelKernelSVC(beta=1e3, gamma=0.5, units=2, method="gradient", max_iter=60)
    with pytest.warns(ms.errors.SolverWarning, match="did not converge in 60 iterations"):
        classifier.fit(X, y)
    history = classifier.history_.objective
    assert (np.diff(history) >= 0).all()
    assert history[0] == 0
    assert history[-1] > 0
    np.testing.assert_allclose(objective_of(classifier, X, y, "rbf", 2e3, gamma=0.5), classifier.objective_, rtol=1e-9)


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("parameters", [{"working_set": 4}, {"working_set": 16}, {"method": "active-set"}, {}])
def test_the_objective_never_decreases(monkeypatch, parameters, units, beta):
    X, y = blobs(seed=3, n=90, d=2, classes=3)
    history = recorded_objectives(monkeypatch)
    classifier = ParallelKernelSVC(C=5.0, beta=beta, units=units, tol=1e-5, cache_size=0.001, **parameters).fit(X, y)
    alone = units == 1 and not parameters  # a single unit solves small problems before the first check
    assert len(history) > (0 if alone else 3 if parameters else 1)
    assert (np.diff(history) >= -1e-12 * classifier.objective_).all()
    assert alone or history[0] == 0
    whole = ParallelKernelSVC(C=5.0, beta=beta and beta * units, tol=1e-5).fit(X, y)
    np.testing.assert_allclose(classifier.objective_, whole.objective_, rtol=1e-7)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_size_of_the_cache_does_not_change_the_result(precision):
    X, y = blobs(seed=4, n=400, d=3, classes=2)
    X[:, 2] *= 0.1
    classifiers = [
        ParallelKernelSVC(C=10.0, working_set=40, cache_size=size, precision=precision).fit(X, y)
        for size in (1e-6, 100.0)
    ]
    np.testing.assert_array_equal(classifiers[0].support_, classifiers[1].support_)
    np.testing.assert_allclose(classifiers[0].objective_, classifiers[1].objective_, rtol=1e-6)
    np.testing.assert_allclose(*[classifier.decision_function(X) for classifier in classifiers], atol=2e-3)


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("classes", [2, 4])
def test_shrinking_does_not_change_the_optimum(monkeypatch, classes, units, beta):
    X, y = blobs(seed=5, n=160, d=2, classes=classes)
    parameters = {"C": 2.0, "beta": beta, "units": units, "tol": 1e-6, "working_set": 16}
    plain = ParallelKernelSVC(**parameters).fit(X, y)
    counts, shrink = [], scores.Shrinking.shrink

    def counted(self, request):
        shrink(self, request)
        counts.append(self.n_shrunk)

    monkeypatch.setattr(scores, "MIN_WORK_RATIO", 0)
    monkeypatch.setattr(scores, "SHRINK_PERIOD", 1)
    monkeypatch.setattr(scores, "MIN_SHRUNK_FRACTION", 0.01)
    monkeypatch.setattr(scores.Shrinking, "shrink", counted)
    classifier = ParallelKernelSVC(**parameters).fit(X, y)
    assert max(counts) > 0
    np.testing.assert_allclose(classifier.objective_, plain.objective_, rtol=1e-9)
    np.testing.assert_allclose(classifier.model_.scores(X), plain.model_.scores(X), atol=1e-5)
    assert classifier.violation_ <= 1e-6
    assert 0 <= classifier.dual_gap_ < 1e-4 * classifier.objective_
    later = classifier.partial_fit(X[:30] + 0.1, y[:30])
    whole = ParallelKernelSVC(**parameters | {"gamma": plain.model_.expansion.kernel.gamma})
    whole.fit(np.vstack([X, X[:30] + 0.1]), np.append(y, y[:30]))
    np.testing.assert_allclose(later.objective_, whole.objective_, rtol=1e-9)


def svc_objective(X, y, **parameters):
    classifier = SVC(tol=1e-8, **parameters).fit(X, y)
    scores = classifier.decision_function(X)[classifier.support_] - classifier.intercept_
    return np.abs(classifier.dual_coef_).sum() - classifier.dual_coef_[0] @ scores / 2


@pytest.mark.parametrize("method", ["working-set", "active-set"])
@pytest.mark.parametrize(
    ("units", "rows"),
    [(2, "sorted"), (5, "sorted"), (12, "few"), (7, "two"), (2, "twice"), (3, "same"), (4, "alone")],
)
def test_rows_may_be_distributed_in_any_way(units, rows, method):
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
    parameters = {"C": 2.0, "gamma": 0.7}
    classifier = ParallelKernelSVC(units=units, tol=1e-6, method=method, **parameters).fit(X, y)
    np.testing.assert_allclose(classifier.objective_, svc_objective(X, y, **parameters), rtol=1e-6)
    signs = np.where(y == classifier.classes_[1], 1.0, -1.0)
    penalised = ParallelKernelSVC(units=units, beta=0.3, tol=1e-6, method=method, **parameters).fit(X, y)
    K = kernel_matrix("rbf", X, X, gamma=0.7)
    best = dual_objective(K, signs, optimum(K, signs, np.full(len(y), 2.0), 0.3 * units), 0.3 * units)
    np.testing.assert_allclose(penalised.objective_, best, rtol=1e-6)


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
def test_a_single_class_is_always_predicted(units, beta):
    X, _ = blobs(seed=7, n=10)
    classifier = ParallelKernelSVC(units=units, beta=beta).fit(X, ["only"] * 10)
    assert classifier.predict(X).tolist() == ["only"] * 10
    assert (classifier.objective_, classifier.dual_gap_, len(classifier.support_)) == (0.0, 0.0, 0)
    np.testing.assert_array_equal(classifier.predict_proba(X), np.ones((10, 1)))


def test_units_select_violators_by_the_current_intercept(monkeypatch):
    generator, intercepts, decide = np.random.default_rng(2), [], WorkingSetCoordinator.next
    X = generator.normal(size=(400, 2))
    y = X[:, 0] + 0.3 * generator.normal(size=400) > 1.3  # unbalanced classes: the intercept is far from zero

    def record(self, replies):
        (request,) = decide(self, replies)
        intercepts.extend(request.intercepts)
        return (request,)

    monkeypatch.setattr(WorkingSetCoordinator, "next", record)
    classifier = ParallelKernelSVC(C=1.0, gamma=0.5, units=3).fit(X, y)
    assert abs(classifier.intercept_[0]) > 0.3
    np.testing.assert_allclose(intercepts[0], classifier.intercept_[0], atol=0.1)


def test_rows_far_from_the_margin_are_not_sent():
    generator = np.random.default_rng(3)
    X = generator.uniform(-3, 3, size=(600, 2))
    classifier = ParallelKernelSVC(C=10.0, gamma=0.1, units=3).fit(X, X[:, 0] > 0)
    sent = len(classifier._training.trainer.registry.labels)
    assert len(classifier.support_) <= sent < 150


def test_the_number_of_units_and_threads_does_not_change_the_result():
    X, y = blobs(seed=8, n=200, d=3, classes=3)
    first = ParallelKernelSVC(C=3.0, tol=1e-6).fit(X, y)
    again = ParallelKernelSVC(C=3.0, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(first.dual_coef_, again.dual_coef_)
    np.testing.assert_array_equal(first.intercept_, again.intercept_)
    for units, jobs in [(2, 1), (5, 2)]:
        classifier = ParallelKernelSVC(C=3.0, tol=1e-6, units=units, n_jobs=jobs).fit(X, y)
        np.testing.assert_allclose(classifier.objective_, first.objective_, rtol=1e-9)
        np.testing.assert_array_equal(classifier.support_, first.support_)
        np.testing.assert_allclose(classifier.model_.scores(X), first.model_.scores(X), atol=1e-5)
        assert classifier.traffic_.sent.shape == (classifier.traffic_.rounds, units)
    one, two = (ParallelKernelSVC(units=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


@pytest.mark.parametrize("beta", [None, 0.5])
@pytest.mark.parametrize("units", [1, 3])
def test_training_can_stop_at_a_duality_gap(units, beta):
    X, y = blobs(seed=9, n=300, d=3, classes=3)
    for tolerance in (1e-1, 1e-3, 1e-6):
        classifier = ParallelKernelSVC(beta=beta, units=units, tol=tolerance, stop="gap").fit(X, y)
        assert 0 <= classifier.dual_gap_ <= tolerance * classifier.objective_
    violating = ParallelKernelSVC(beta=beta, units=units, tol=1e-3).fit(X, y)
    assert violating.violation_ <= 1e-3


@pytest.mark.parametrize("beta", [None, 0.5])
def test_the_gap_is_the_primal_minus_the_dual_objective(pair, beta):
    X, y = pair
    for max_iter in (1, 2, 3):
        classifier = ParallelKernelSVC(C=2.0, gamma=0.5, beta=beta, units=2, working_set=4, max_iter=max_iter)
        with pytest.warns(
            ms.errors.SolverWarning,
            match=rf"in {max_iter} iterations \(max_iter={max_iter}\): the largest violation is",
        ):
            classifier.fit(X, y)
        K, alpha, penalty = kernel_matrix("rbf", X, X, 0.5), y * signed_alphas(classifier, len(y)), 2 * (beta or 0.0)
        dual = dual_objective(K, y, alpha, penalty)
        primal = primal_objective(K, y, alpha, np.full(len(y), 2.0), classifier.intercept_[0], penalty)
        np.testing.assert_allclose([classifier.objective_, classifier.dual_gap_], [dual, primal - dual], rtol=1e-9)
        assert classifier.dual_gap_ > 0
        assert classifier.n_iter_ == max_iter


@pytest.mark.parametrize("beta", [None, 1.0])
@pytest.mark.parametrize("units", [1, 3])
def test_more_support_vectors_come_closer_to_the_optimum(units, beta):
    X, y = blobs(seed=10, n=150, d=2, classes=3)
    whole = ParallelKernelSVC(C=5.0, beta=beta, units=units).fit(X, y)
    reached = []
    for limit in (2, 4, 8, 16, 150):
        classifier = ParallelKernelSVC(C=5.0, beta=beta, units=units, method="active-set", max_support_vectors=limit)
        classifier.fit(X, y)
        sizes = np.diff(classifier._training.result.coefs.starts)
        assert (sizes <= limit).all()
        reached.append(classifier.objective_)
    assert (np.diff(reached) > 0).all()
    assert reached[-2] < whole.objective_ * (1 - 1e-6)
    np.testing.assert_allclose(reached[-1], whole.objective_, rtol=1e-5)


def test_the_active_set_method_sends_fewer_rows():
    X, y = blobs(seed=11, n=300, d=2, classes=2)
    few, many = (ParallelKernelSVC(units=3, method=method).fit(X, y) for method in ("active-set", "working-set"))
    sent = [len(classifier._training.trainer.registry.labels) for classifier in (few, many)]
    assert sent[0] < sent[1]
    np.testing.assert_allclose(few.objective_, many.objective_, rtol=1e-5)


@pytest.mark.parametrize("beta", [None, 10.0])
@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_tolerance_below_rounding_stops_with_a_warning(precision, units, beta):
    X, y = blobs(seed=12, n=60, d=3, classes=2)
    classifier = ParallelKernelSVC(tol=1e-14, beta=beta, units=units, precision=precision, gamma=0.2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        classifier.fit(X, y)
    assert classifier.violation_ <= 1e-14 or "problems stalled at the limit of" in str(caught[0].message)
    loose = ParallelKernelSVC(tol=1e-6, beta=beta, units=units, gamma=0.2).fit(X, y)
    np.testing.assert_allclose(classifier.objective_, loose.objective_, rtol=1e-5)


@st.composite
def problems(draw):
    """Rows of two classes: with duplicates, zero weights, and units that have rows of one class only."""
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
def test_random_small_problems_are_solved(problem, C, beta, units, method, size):
    X, y, weights = problem
    parameters = {"C": C, "gamma": 0.5}
    classifier = ParallelKernelSVC(beta=beta, units=units, method=method, working_set=size, tol=1e-6, **parameters)
    classifier.fit(X, y, weights)
    bound = C * (np.ones(len(y)) if weights is None else weights)
    K = kernel_matrix("rbf", X - X.mean(axis=0), X - X.mean(axis=0), 0.5)
    penalty = 0.0 if beta is None else beta * units
    alpha = y * signed_alphas(classifier, len(y))
    assert (alpha >= 0).all()
    assert (alpha <= bound).all()
    found = dual_objective(K, y, alpha, penalty)
    np.testing.assert_allclose(classifier.objective_, found, rtol=1e-6)
    if beta is None:
        assert abs(alpha @ y) <= 1e-9 * bound.sum()
        # The duality gap bounds the distance from the optimum.
        primal = primal_objective(K, y, alpha, bound, classifier.intercept_[0])
        assert primal - found <= 1e-5 * found
    else:
        other = optimum(K, y, bound, penalty)
        best = dual_objective(K, y, other, penalty)
        assert found >= best * (1 - 1e-5)
        assert found <= primal_objective(K, y, other, bound, penalty * (other @ y), penalty) * (1 + 1e-9)


def test_a_single_unit_sends_only_support_vectors_of_small_problems():
    X, y = blobs(seed=5, n=400, d=6, classes=4)
    classifier = ParallelKernelSVC(C=5.0).fit(X, y)
    theirs = SVC(C=5.0).fit(X, y)
    assert classifier.n_iter_ == 1
    np.testing.assert_array_equal(classifier.predict(X), theirs.predict(X))
    indices = 8 * len(classifier.support_)  # once with the rows, and once as support vectors
    stats = 8 * 9 * 6 + 8 * (6 + 1)  # statistics of six problems, and an empty list of proposals for each
    assert classifier.traffic_.sent.sum() == len(classifier.support_) * X[0].nbytes + 2 * indices + stats
