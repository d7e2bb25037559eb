"""The parallel update, on few digits of scikit-learn."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.svm import SVC

from cli.commandline import error, ok
from mergesvm.reproduce.paper_data import Source
from mergesvm.reproduce.parallel_update import active_set
from mergesvm.reproduce.parallel_update.problem import C, Digits, Dual


@pytest.fixture(scope="module")
def digits():
    return Digits.load(Source(None, quick=True), seed=0)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The JSON output of the command, and its folder."""
    folder = tmp_path_factory.mktemp("quick")
    return json.loads(ok("reproduce", "parallel-update", "--quick", "--json", cwd=folder)), folder


def test_the_rate_obeys_theorem_2(done, digits):
    figures, _ = done
    for run in figures["steps"] + figures["parameters"]:
        rows = digits.first(40)
        y, squares = rows.y, ((rows.X[:, None] - rows.X) ** 2).sum(axis=2)
        H = y[:, None] * y * (np.exp(-rows.gamma * squares) + run["units"] * run["beta"])
        eigenvalues = np.linalg.eigvalsh(H)
        bound = np.abs(1 - run["kappa"] * eigenvalues).max()
        assert run["bound"] == pytest.approx(bound)
        assert run["worst"] <= bound * (1 + 1e-9)
        assert run["rate"] <= run["worst"]
        if run["fraction"] < 1:
            assert bound < 1
            assert 0 <= run["gap"] < 0.2
        else:
            assert run["gap"] > 1  # beyond the limit of theorem 1 it does not converge


def test_the_limit_that_is_printed_is_too_large_for_the_gradient(done):
    printed = done[0]["steps"][-1]
    assert printed["fraction"] > 1
    assert printed["gap"] > 1


def test_the_partition_does_not_matter_if_the_penalty_is_the_same(done):
    assert done[0]["same_iterates"] < 1e-12


def test_only_the_gradient_of_problem_2_reaches_its_maximum(done, digits):
    printed, plus, right = done[0]["equation_4"]
    assert right["objective"] == pytest.approx(right["optimum"], rel=1e-2)
    assert plus["objective"] < 0.99 * right["optimum"]
    assert printed["objective"] < 0  # with a minus sign, alpha grows to its bound
    assert printed["at_bound"] == printed["n_support"] > 0
    dual = Dual(digits.first(40), 4, 0.01)
    alpha = dual.equation_4(1.0, 2000)
    inside = (np.diag(dual.Q) * alpha + dual.Q @ alpha) / 2
    gradient = 1 - inside - dual.beta * dual.rows.y * (alpha @ dual.rows.y)
    free = (alpha > 0) & (alpha < C)
    assert np.abs(gradient[free]).max() < 1e-6


def test_the_active_set_keeps_its_budget_and_the_optimum_is_that_of_svc(done, digits):
    runs = done[0]["active_set"]
    for run in runs:
        assert run["limit"] is None or run["n_support"] <= run["limit"]
    rows = digits.first(300)
    svc = SVC(C=C, gamma=rows.gamma).fit(rows.X, rows.y)
    for run in (run for run in runs if run["limit"] is None):
        assert run["n_support"] == pytest.approx(len(svc.support_), abs=3)
        assert run["accuracy"] == pytest.approx(100 * svc.score(rows.test, rows.truth), abs=1.5)
    traffic = [next(r["traffic"] for r in runs if (r["units"], r["limit"]) == (3, limit)) for limit in (10, 40)]
    assert traffic[0] < traffic[1]


def test_precision_and_recall_are_those_of_the_eight(digits):
    rows = digits.first(200)
    run = active_set.run(rows, 2, None)
    predicted = SVC(C=C, gamma=rows.gamma).fit(rows.X, rows.y).predict(rows.test)
    hits = ((predicted > 0) & (rows.truth > 0)).sum()
    assert run.recall == pytest.approx(100 * hits / (rows.truth > 0).sum(), abs=3)
    assert run.precision == pytest.approx(100 * hits / (predicted > 0).sum(), abs=3)


def test_the_picture_is_saved(done):
    _, folder = done
    assert (folder / "mergesvm-parallel-update.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--units", "two"], "--units must be positive integers"),
        (["--limits", "0"], "--limits must be positive integers"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
        (["--picture", "curves.gif"], "must end in"),
    ],
)
def test_invalid_input_is_named(options, message, tmp_path):
    assert message in error("reproduce", "parallel-update", "--quick", *options, cwd=tmp_path)
