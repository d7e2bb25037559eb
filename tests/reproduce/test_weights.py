"""Table 1 of Zhang and Zhu on a small data set like Adult."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cli.commandline import ok, run
from mergesvm.reproduce.weights.draws import WEIGHTINGS, Draw
from reference import hyperplane_by_qr, side_weights
from reproduce import adult

SIZES = ("--negatives", "300", "--positives", "900", "--test", "50", "--draws", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return adult.write_rows(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def done(folder):
    """The JSON output of the command."""
    return json.loads(ok("reproduce", "weights", "--data", folder, *SIZES, "--json", cwd=folder))


def by_formula(draw, count):
    """The accuracy of each weighting on the test rows, from all rows at once, in per cent."""
    rows, labels = draw.X[: 300 + count], draw.y[: 300 + count]
    found = []
    for scheme in WEIGHTINGS.values():
        rare, frequent = side_weights(scheme, 300, count)
        w, b = hyperplane_by_qr(rows, labels, np.where(labels == 1, rare, frequent), 1.0)
        found.append(100 * np.mean((draw.test @ w + b > 0) == (draw.truth == 1)))
    return found


def test_accuracies_match_the_formula(done):
    X, y = adult.rows()
    expected = np.mean([by_formula(Draw.of(X, y, 300, 900, 50, seed), 900) for seed in (0, 1)], axis=0)
    assert [row["rows"] for row in done["table"]] == [1200] * 3
    np.testing.assert_allclose([row["accuracy"] for row in done["table"]], expected)
    for row in done["table"]:
        assert (row["rare"] + row["frequent"]) / 2 == pytest.approx(row["accuracy"])
        assert (row["rare"] + 3 * row["frequent"]) / 4 == pytest.approx(row["as_learned"])
        assert row["paper"] is None


def test_incremental_learning_matches_learning_at_once():
    X, y = adult.rows()
    draw = Draw.of(X, y, 300, 900, 50, 0)
    stepwise = 100 * draw.accuracies([500, 700, 900], C=1.0).mean(axis=2)
    np.testing.assert_allclose(stepwise, [by_formula(draw, count) for count in (500, 700, 900)])


def test_test_rows_are_not_training_rows():
    X, y = adult.rows()
    X = np.column_stack([X, np.arange(len(X))])
    draw = Draw.of(X, y, 300, 900, 50, 0)
    assert not set(draw.X[:, -1]) & set(draw.test[:, -1])
    assert len(set(draw.test[:, -1])) == 100
    np.testing.assert_array_equal(np.unique(draw.truth, return_counts=True)[1], [50, 50])
    np.testing.assert_array_equal(draw.y, np.repeat([1, -1], [300, 900]))


def test_quick_run_needs_no_data(tmp_path):
    output = ok("reproduce", "weights", "--quick", cwd=tmp_path)
    assert "breast cancer of scikit-learn for Adult, 30 features, 200 rows of the rare class" in output
    assert "cannot be compared with those of the paper" in output
    assert (tmp_path / "mergesvm-weights.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--positives", "0"], "--positives must be positive integers"),
        (["--test", "5000"], "--test 5000 leaves no training rows"),
        (["--picture", "curves.gif"], "must end in"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
    ],
)
def test_invalid_input_is_named(folder, options, message):
    answer = run("reproduce", "weights", "--data", folder, *options, cwd=folder)
    assert answer.returncode == 2
    assert message in answer.stderr
