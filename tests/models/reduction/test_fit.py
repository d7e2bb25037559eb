"""Selection and fit of smaller models, against QR, scipy's least squares and scipy's optimiser on the stacked rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import lstsq
from scipy.optimize import minimize
from sklearn.metrics.pairwise import rbf_kernel

import mergesvm as ms
from mergesvm.data.rows.convert import as_rows
from mergesvm.models.reduction.fit import FAR_WEIGHT, MarginFit
from mergesvm.models.reduction.jit import AT_MARGIN
from mergesvm.models.reduction.rows import MAX_TARGET, ReductionRows
from mergesvm.models.reduction.selection import GreedySelection

rng = np.random.default_rng(5)
X = rng.normal(size=(240, 3))
Y = (X[:, 0] ** 2 + X[:, 1] > 0.5).astype(int) + (X[:, 2] > 0.8)
WEIGHTS = rng.uniform(0.5, 2.0, size=len(X)) * (rng.uniform(size=len(X)) > 0.1)
MODEL = ms.ParallelKernelSVC(C=5.0, gamma=0.4, tol=1e-6).fit(X, Y).model_


def part(rows=slice(None)):
    codes = np.where(WEIGHTS[rows] > 0, Y[rows], -1)
    return ReductionRows(MODEL, as_rows(X[rows], empty=True), codes, WEIGHTS[rows])


def columns(vectors):
    return np.column_stack([np.ones(len(X)), rbf_kernel(X, vectors, gamma=0.4)])


def squared_error(A, targets):
    root = np.sqrt(WEIGHTS)[:, None]
    found = lstsq(root * A, root * targets)[0]
    return float(((root * (A @ found - targets)) ** 2).sum()), found


def test_every_step_selects_the_candidate_of_the_smallest_squared_error():
    candidates = X[:40]
    targets = np.clip(MODEL.scores(X), -MAX_TARGET, MAX_TARGET)
    chosen = GreedySelection(part().candidate_sums(candidates)).extended(6)
    A = columns(candidates)
    for step in range(6):
        before = [0, *(chosen[:step] + 1)]
        errors = [squared_error(A[:, [*before, j + 1]], targets)[0] for j in range(40)]
        assert chosen[step] == np.argmin(errors)


def test_a_selection_ends_when_no_candidate_is_independent():
    selection = GreedySelection(part().candidate_sums(X[[0, 1, 1, 0]]))
    assert sorted(selection.extended(1).tolist() + selection.extended(4)[1:].tolist()) in ([0, 1], [1, 3], [0, 2])


def test_coefficients_of_every_prefix_are_those_of_scipy_least_squares():
    vectors = X[rng.permutation(len(X))[:12]]
    sums = part().take(vectors)
    targets = np.clip(MODEL.scores(X), -MAX_TARGET, MAX_TARGET)
    for size in (1, 5, 12):
        expected = squared_error(columns(vectors)[:, : size + 1], targets)[1]
        np.testing.assert_allclose(MarginFit(sums.first(size)).coefs, expected, rtol=1e-5, atol=1e-6)


def test_the_fit_is_the_minimum_of_its_objective():
    vectors, scores = X[rng.permutation(len(X))[:8]], MODEL.scores(X)
    rows, A = part(), columns(vectors)
    fit = MarginFit(rows.take(vectors))
    while not fit.finished:
        fit.step(rows.gradient(fit.point))
    assert fit.n_steps < 400
    for p, (i, j) in enumerate(combinations(range(3), 2)):
        f, inside = scores[:, p], WEIGHTS * ((i == Y) | (j == Y))
        low = np.where(f > -AT_MARGIN, np.minimum(f, 1), -np.inf)
        high = np.where(f < AT_MARGIN, np.maximum(f, -1), np.inf)
        far = np.clip(f, -MAX_TARGET, MAX_TARGET)

        def objective(coefs, low=low, high=high, far=far, inside=inside):
            g = A @ coefs
            near = np.clip(g, low, high) - g
            value = inside @ near**2 + FAR_WEIGHT * WEIGHTS @ (g - far) ** 2
            return value, 2 * A.T @ (FAR_WEIGHT * WEIGHTS * (g - far) - inside * near)

        options = {"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
        reference = minimize(objective, np.zeros(9), jac=True, method="L-BFGS-B", options=options)
        np.testing.assert_allclose(objective(fit.coefs[:, p])[0], reference.fun, rtol=1e-6)
        np.testing.assert_allclose(A @ fit.coefs[:, p], A @ reference.x, atol=2e-3)


@pytest.mark.parametrize("cuts", [(80, 160), (0, 200), (1, 2)])
def test_sums_of_parts_are_those_of_all_rows(cuts):
    parts = [part(slice(*span)) for span in ((0, cuts[0]), cuts, (cuts[1], None))]
    whole, coefs = part(), rng.normal(size=(6, 3))
    for method, argument in (("candidate_sums", X[:5]), ("take", X[:5]), ("gradient", coefs), ("outcomes", coefs), ("moments", coefs)):  # fmt: skip  # noqa: E501
        found = [getattr(each, method)(argument) for each in parts]
        total, expected = found[0] + found[1] + found[2], getattr(whole, method)(argument)
        for name, value in getattr(expected, "__dict__", {"": expected}).items():
            mine = getattr(total, name) if name else total
            np.testing.assert_allclose(mine, value, rtol=1e-9, atol=1e-9)


def test_outcomes_and_moments_are_those_of_the_scores():
    rows, coefs = part(), rng.normal(size=(6, 3))
    rows.take(X[:5])
    scores = columns(X[:5]) @ coefs
    winners, full = MODEL.winners(scores), MODEL.predict(X)
    found = rows.outcomes(coefs)
    expected = [WEIGHTS.sum(), WEIGHTS @ (full == Y), WEIGHTS @ (winners == Y), WEIGHTS @ (winners == full)]
    np.testing.assert_allclose(list(vars(found).values()), expected)
    for p, pair in enumerate(combinations(range(3), 2)):
        for side, code in enumerate(pair):
            w, s = WEIGHTS[code == Y], scores[code == Y, p]
            np.testing.assert_allclose(rows.moments(coefs)[p, side], [w.sum(), w @ s, w @ s**2])
