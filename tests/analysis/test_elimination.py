"""Backward elimination of features, against solving and refitting without those features."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.analysis import elimination as elimination_module
from mergesvm.analysis.elimination import BackwardElimination, run_elimination
from mergesvm.methods.proximal.factor import small_blas
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.multiclass.decomposition import one_vs_one, one_vs_rest
from reference import blobs, hyperplane_by_qr


def correlated(n=400, d=12, classes=3, offset=0.0):
    X, y = blobs(seed=1, n=n, d=d, classes=classes)
    X = X @ np.random.default_rng(2).normal(size=(d, d)) + offset
    return X, y, np.random.default_rng(3).choice([0.5, 1.0, 2.0], n)


def problems_by_hand(y, weights, multiclass, class_weight):
    """For each binary problem the rows in it, their signs and their weights."""
    if multiclass == "ovr":
        sides = [(y == c, y != c) for c in np.unique(y)]
    else:
        sides = [(y == j, y == i) for i, j in itertools.combinations(np.unique(y), 2)]
    for positive, negative in sides:
        omega = weights.copy()
        if class_weight == "balanced":
            total = weights[positive | negative].sum()
            for side in (positive, negative):
                omega[side] *= total / (2 * weights[side].sum())
        elif class_weight:
            omega *= np.array([class_weight[c] for c in y])
        inside = positive | negative
        yield inside, np.where(positive, 1.0, -1.0)[inside], omega[inside]


def refitted(X, y, weights, C, multiclass, class_weight, penalize_intercept):
    """Coefficients, intercepts, objective, and mean squared loss, by QR on the stacked rows."""
    coefs, intercepts, objective, losses = [], [], 0.0, []
    for inside, sign, omega in problems_by_hand(y, weights, multiclass, class_weight):
        w, b = hyperplane_by_qr(X[inside], sign, omega, C, penalize_intercept)
        squares = (1 - sign * (X[inside] @ w + b)) ** 2
        objective += 0.5 * (w @ w + penalize_intercept * b**2) + C / 2 * (omega @ squares)
        losses.append(weights[inside] @ squares)
        coefs.append(w)
        intercepts.append(b)
    return np.array(coefs), np.array(intercepts), objective, np.array(losses)


@pytest.fixture(autouse=True)
def one_thread():
    with small_blas(1):
        yield


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0, 1: 0.5, 2: 7.0}])
@pytest.mark.parametrize("penalize_intercept", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_every_step_equals_refitting_on_the_rows(multiclass, class_weight, penalize_intercept, standardize):
    X, y, weights = correlated(offset=3.0)
    knowledge = ms.learn(X, y, weights)
    if standardize:
        mean = np.average(X, axis=0, weights=weights)
        X = (X - mean) / np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    problems = (one_vs_rest if multiclass == "ovr" else one_vs_one)(knowledge, class_weight)
    options = {"standardize": standardize, "penalize_intercept": penalize_intercept}
    elimination = BackwardElimination(knowledge, problems, SolveOptions(0.3, **options))
    found = run_elimination(
        BackwardElimination(knowledge, problems, SolveOptions(0.3, **options)), knowledge, problems.signs, steps=11
    )
    by_hand = 0.3, multiclass, class_weight, penalize_intercept
    for step in range(12):
        rest = np.flatnonzero(elimination.left)
        coefs, intercepts, objective, losses = refitted(X[:, rest], y, weights, *by_hand)
        solution = elimination.solution()
        model = ms.solve(knowledge.select(rest), 0.3, class_weight, multiclass, **options)
        np.testing.assert_allclose(solution.coefs[:, rest], model.coef_, rtol=1e-9, atol=1e-12)
        assert not solution.coefs[:, ~elimination.left].any()
        at_origin = solution.offsets - solution.coefs @ knowledge.anchor
        np.testing.assert_allclose(at_origin, model.intercept_, rtol=1e-9, atol=1e-12)
        if not standardize:
            np.testing.assert_allclose(model.coef_, coefs, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(model.intercept_, intercepts, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(elimination.objectives().sum(), objective, rtol=1e-10)
        np.testing.assert_allclose(found.objectives[step], objective, rtol=1e-10)
        np.testing.assert_allclose(found.losses[step], losses, rtol=1e-9)
        if step == 11:
            break
        rises = elimination.rises()
        without = [
            refitted(np.delete(X[:, rest], at, axis=1), y, weights, *by_hand)[2] - objective
            for at in range(len(rest) if step < 3 and len(rest) > 1 else 0)
        ]
        np.testing.assert_allclose(rises[rest][: len(without)], without, rtol=1e-8)
        assert np.isinf(rises[~elimination.left]).all()
        assert found.order[step] == np.argmin(rises)
        elimination.remove(int(found.order[step]))


def test_a_given_order_is_followed():
    X, y, _ = correlated()
    knowledge = ms.learn(X, y)
    problems = one_vs_rest(knowledge)
    found = run_elimination(
        BackwardElimination(knowledge, problems, SolveOptions(1.0)), knowledge, problems.signs, 3, order=[7, 0, 4]
    )
    assert found.order.tolist() == [7, 0, 4]
    expected = refitted(np.delete(X, [0, 4, 7], axis=1), y, np.ones(len(y)), 1.0, "ovr", None, True)
    np.testing.assert_allclose(found.objectives[3], expected[2], rtol=1e-10)
    np.testing.assert_allclose(found.losses[3], expected[3], rtol=1e-10)


@pytest.mark.parametrize("kind", ["correlated", "duplicates", "far"])
def test_precision_is_kept_over_hundreds_of_steps(kind):
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 600)
    if kind == "correlated":
        X = generator.normal(size=(600, 10)) @ generator.normal(size=(10, 200)) + 0.05 * generator.normal(
            size=(600, 200)
        )
    elif kind == "duplicates":
        X = np.tile(generator.normal(size=(600, 100)), 2)
    else:
        X = generator.normal(size=(600, 200)) + 1e5
    X[:, :20] += 0.5 * y[:, None]
    knowledge = ms.learn(X, y)
    elimination = BackwardElimination(knowledge, one_vs_rest(knowledge), SolveOptions(10.0))
    for step in range(199):
        rises, before = elimination.rises(), elimination.objectives().sum()
        feature = int(np.argmin(rises))
        elimination.remove(feature)
        np.testing.assert_allclose(elimination.objectives().sum() - before, rises[feature], atol=1e-10 * before)
        if step % 11 == 0 or step > 195:
            fresh = ms.solve(knowledge.select(elimination.left), 10.0)
            error = np.abs(elimination.solution().coefs[:, elimination.left] - fresh.coef_).max()
            assert error < 1e-8 * np.abs(fresh.coef_).max()


def test_losses_do_not_depend_on_the_block_size(monkeypatch):
    X, y, _ = correlated()
    knowledge = ms.learn(X, y)
    problems = one_vs_rest(knowledge)
    at_once = run_elimination(BackwardElimination(knowledge, problems, SolveOptions(1.0)), knowledge, problems.signs, 9)
    monkeypatch.setattr(elimination_module, "BLOCK_BYTES", 0)
    one_by_one = run_elimination(
        BackwardElimination(knowledge, problems, SolveOptions(1.0)), knowledge, problems.signs, 9
    )
    np.testing.assert_allclose(one_by_one.losses, at_once.losses, rtol=1e-13)


def test_constant_features_are_free_to_remove_without_penalty_on_the_intercept():
    X, y, _ = correlated()
    X = np.insert(X, 5, 4.0, axis=1)
    knowledge = ms.learn(X, y)
    elimination = BackwardElimination(knowledge, one_vs_rest(knowledge), SolveOptions(penalize_intercept=False))
    rises = elimination.rises()
    assert rises[5] == 0
    assert np.argmin(rises) == 5


def test_duplicate_features_at_a_huge_c_get_a_ridge_and_a_warning():
    X, y, _ = correlated(classes=2)
    knowledge = ms.learn(np.hstack([X, X[:, :4]]), y)
    with pytest.warns(ms.errors.SolverWarning, match="singular to rounding"):
        elimination = BackwardElimination(knowledge, one_vs_rest(knowledge), SolveOptions(1e14))
    assert elimination.solution().solvers == ("ridge",)
    gone = []
    for _ in range(4):
        rises = elimination.rises()
        gone.append(int(np.argmin(rises)))
        elimination.remove(gone[-1])
    assert sorted(feature % 12 for feature in gone) == [0, 1, 2, 3]
    model = ms.solve(knowledge.select(elimination.left), 1e14)
    np.testing.assert_allclose(elimination.solution().coefs[:, elimination.left], model.coef_, rtol=1e-4, atol=1e-8)
