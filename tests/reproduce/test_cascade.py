"""The cascade of the paper on a small data set like Adult, with MPI ranks."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import mergesvm as ms
from cli.commandline import run
from mergesvm.errors import EngineError
from mergesvm.reproduce.cascade import launch
from mergesvm.reproduce.weights.draws import WEIGHTINGS, Draw
from reference import hyperplane_by_qr, side_weights

pytestmark = pytest.mark.xdist_group("mpi")

WIDTH = 12
SIZES = ("--negatives", "300", "--positives", "900", "--test", "50", "--draws", "2", "--repeat", "2")


def made():
    """Rows of zeros and ones; the frequent class is the one of label -1, as in a9a."""
    generator = np.random.default_rng(0)
    y = np.where(generator.random(1200) < 0.3, 1, -1)
    X = (generator.random((len(y), WIDTH)) < np.where(y[:, None] == 1, 0.6, 0.3)).astype(np.float64)
    X[:, -1] = 1.0  # so that both files have the same width
    return X, y


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("data")
    (where / "a9a").mkdir()
    X, y = made()
    for name, part in (("a9a.gz", slice(0, 800)), ("a9a.t.gz", slice(800, None))):
        with gzip.open(where / "a9a" / name, "wt") as file:
            for row, label in zip(X[part], y[part], strict=True):
                file.write(f"{label:+d} " + " ".join(f"{column + 1}:1" for column in np.flatnonzero(row)) + "\n")
    return where


@pytest.fixture(scope="module")
def done(folder):
    """The JSON output of the command."""
    answer = run(
        *("reproduce", "cascade", "--data", folder, "--ranks", "1,2", *SIZES, "--hidden", "0", "--json"), cwd=folder
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


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
    X, y = made()
    expected = np.mean([by_formula(Draw.of(X, y, 300, 900, 50, seed), 900) for seed in (0, 1)], axis=0)
    assert [row["rows"] for row in done["table"]] == [1200] * 3
    np.testing.assert_allclose([row["accuracy"] for row in done["table"]], expected)
    for row in done["table"]:
        assert (row["rare"] + row["frequent"]) / 2 == pytest.approx(row["accuracy"])
        assert (row["rare"] + 3 * row["frequent"]) / 4 == pytest.approx(row["as_learned"])
        assert row["paper"] is None


def test_incremental_learning_matches_learning_at_once():
    X, y = made()
    draw = Draw.of(X, y, 300, 900, 50, 0)
    stepwise = 100 * draw.accuracies([500, 700, 900], C=1.0).mean(axis=2)
    np.testing.assert_allclose(stepwise, [by_formula(draw, count) for count in (500, 700, 900)])


def test_test_rows_are_not_training_rows():
    X, y = made()
    X = np.column_stack([X, np.arange(len(X))])
    draw = Draw.of(X, y, 300, 900, 50, 0)
    assert not set(draw.X[:, -1]) & set(draw.test[:, -1])
    assert len(set(draw.test[:, -1])) == 100
    np.testing.assert_array_equal(np.unique(draw.truth, return_counts=True)[1], [50, 50])
    np.testing.assert_array_equal(draw.y, np.repeat([1, -1], [300, 900]))


def test_ranks_give_the_model_of_all_rows_and_send_what_the_cost_model_predicts(done, folder):
    assert list(done["runs"]) == ["1,200 rows x 12 features"]
    for runs in done["runs"].values():
        one, two = runs
        assert (one["ranks"], two["ranks"]) == (1, 2)
        assert one["sent"] == one["expected"] == 0
        assert two["sent"] == two["expected"] == two["described"] + 8 * (4 * WIDTH + 2 * WIDTH * (WIDTH + 1) // 2)
        assert two["rounds"] == 3
        assert two["off"] < 1e-12
        assert one["speedup_modelled"] == 1.0
        assert two["speedup_modelled"] == pytest.approx(one["modelled"] / two["modelled"])
        assert two["modelled"] == pytest.approx(min(two["learning"]) + two["joining"] + two["solving"])
        assert two["link"]["latency"] > 0
        assert two["link"]["bandwidth"] > 1e6
    assert (folder / "mergesvm-cascade.png").read_bytes()[1:4] == b"PNG"


def test_ranks_with_a_feature_map(tmp_path):
    X, y = made()
    features = ms.features.HiddenLayer(15, seed=0, precision="float64").freeze(X)
    launch.put_rows(tmp_path, X, y, features)
    found = launch.measure(tmp_path, 1000, 3, 1)
    model = ms.solve(ms.learn(X[:1000], y[:1000], features=features), 1.0, "complement")
    np.testing.assert_allclose(found.coefficients, np.append(model.coef_, model.intercept_), rtol=1e-9)
    assert found.sent == found.expected
    assert (found.ranks, found.width, found.rounds) == (3, 15, 6)


def test_error_on_a_rank_is_reported(tmp_path):
    with pytest.raises(EngineError, match=r"2 ranks failed with exit code [\s\S]*X\.npy"):
        launch.measure(tmp_path, 10, 2, 1)


def test_missing_mpiexec_is_an_error_that_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(EngineError, match=r"no mpiexec: pip install 'mergesvm\[mpi\]'"):
        launch.find_mpiexec()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "two"], "--ranks must be positive integers"),
        (["--positives", "0"], "--positives must be positive integers"),
        (["--test", "5000"], "--test 5000 leaves no training rows"),
        (["--picture", "curves.gif"], "must end in"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
    ],
)
def test_invalid_input_is_named(folder, options, message):
    answer = run("reproduce", "cascade", "--data", folder, *options, cwd=folder)
    assert answer.returncode == 2
    assert message in answer.stderr
