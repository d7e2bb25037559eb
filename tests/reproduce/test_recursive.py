"""Recursive least squares beside other methods, on data sets of scikit-learn."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from cli.commandline import error, ok
from mergesvm.reproduce.paper_data import Source
from mergesvm.reproduce.recursive import recursive
from mergesvm.reproduce.recursive.binary_tasks import TASKS
from mergesvm.reproduce.recursive.contenders import BLOCKS, CONTENDERS, RECURSION, VOWPAL_WABBIT, learned
from mergesvm.reproduce.recursive.row_file import RowFile, write_vowpal_wabbit_text

QUICK = Source(None, quick=True)


def solution_of_10(X, y, C):
    """The minimum of |w|^2 / 2 + C sum (w'u + theta - d)^2, by QR of the stacked rows."""
    rows = np.vstack([np.sqrt(2 * C) * np.column_stack([X, np.ones(len(X))]), np.eye(X.shape[1] + 1)[:-1]])
    return np.linalg.lstsq(rows, np.append(np.sqrt(2 * C) * y, np.zeros(X.shape[1])), rcond=None)[0]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The JSON output of the command, and its folder."""
    folder = tmp_path_factory.mktemp("quick")
    return json.loads(ok("reproduce", "recursive", "--quick", "--json", cwd=folder)), folder


@pytest.mark.parametrize("name", [RECURSION, BLOCKS])
@pytest.mark.parametrize("C", [0.01, 10.0])
def test_one_pass_gives_the_closed_form(name, C, tmp_path):
    split = TASKS[2].load(QUICK, seed=0)
    plane = learned(name, RowFile.write(tmp_path, split), C, seed=0)
    expected = solution_of_10(split.standardised(split.X), split.y, C)
    off = np.abs(np.append(plane.coefs, plane.intercept) - expected).max() / np.abs(expected).max()
    assert off < 1e-9


def test_all_methods_are_compared_on_five_sets(done):
    figures, _ = done
    assert len(figures["sets"]) == 5
    for found in figures["sets"].values():
        rows = {row["method"]: row for row in found["methods"]}
        assert list(rows) == list(CONTENDERS)
        assert rows[RECURSION]["off"] < 1e-9
        assert rows[BLOCKS]["off"] < 1e-9
        assert rows[RECURSION]["accuracy"] == rows[BLOCKS]["accuracy"]
        for row in rows.values():
            assert row["seconds"] is None or row["seconds"] > 0
            assert row["peak"] is None or row["peak"] >= 0


def test_accuracies_are_those_of_the_formula(done):
    figures, _ = done
    for task, found in zip(TASKS, figures["sets"].values(), strict=True):
        split, row = task.load(QUICK, seed=0), found["methods"][0]
        w = solution_of_10(split.standardised(split.X), split.y, row["C"])
        predicted = np.where(split.standardised(split.test) @ w[:-1] + w[-1] >= 0, 1, -1)
        assert row["accuracy"] == pytest.approx(100 * np.mean(predicted == split.truth))


def test_the_sweep_holds_out_training_rows(done):
    figures, _ = done
    task, found = TASKS[2], list(figures["sets"].values())[2]
    split = task.load(QUICK, seed=0)
    X, cut = split.standardised(split.X), round(0.8 * len(split.y))
    for C, accuracy in zip(figures["Cs"], found["accuracy_by_C"]["recursive"], strict=True):
        w = solution_of_10(X[:cut], split.y[:cut], C)
        predicted = np.where(X[cut:] @ w[:-1] + w[-1] >= 0, 1, -1)
        assert accuracy == pytest.approx(100 * np.mean(predicted == split.y[cut:]))


def test_vowpal_wabbit_learns_from_the_columns_that_are_not_zero(tmp_path):
    write_vowpal_wabbit_text(tmp_path / "rows.vw", np.array([[0, 2.5, 0], [1, 0, 3]]), np.array([1.0, -1.0]))
    assert (tmp_path / "rows.vw").read_text().splitlines() == ["1 | 1:2.5", "-1 | 0:1 2:3"]


def test_without_vowpal_wabbit_the_table_says_so(monkeypatch):
    monkeypatch.setattr(recursive, "has_vowpal_wabbit", lambda: False)
    monkeypatch.setattr(recursive, "TASKS", TASKS[1:2])
    made = recursive.Recursive(QUICK, 0, replace(recursive.QUICK, Cs=(1.0,)))
    _, compared, _ = made.tables(nullcontext)
    assert [cells[1:3] for cells in compared.rows if VOWPAL_WABBIT in cells] == [(VOWPAL_WABBIT, "not installed")]


def test_the_picture_is_saved(done):
    _, folder = done
    assert (folder / "mergesvm-recursive.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--Cs", "0,1"], "--Cs must be positive numbers"),
        (["--Cs", "many"], "--Cs must be a number"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
        (["--data", "."], "spambase is not in ."),
        (["--picture", "curves.gif"], "must end in"),
    ],
)
def test_invalid_input_is_named(options, message, tmp_path):
    assert message in error("reproduce", "recursive", "--quick", *options, cwd=tmp_path)
