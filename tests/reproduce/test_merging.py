"""Streams in slices: the numbers of the command, and the models behind them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cli.commandline import ok, run
from mergesvm.reproduce.merging.nodes import measure_nodes
from mergesvm.reproduce.merging.stream import Stream, stages
from mergesvm.reproduce.paper_data import STREAMS, Source
from reference import hyperplane_by_qr
from reproduce import adult


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of a quick run without data, and its JSON."""
    folder = tmp_path_factory.mktemp("merging")
    return folder, json.loads(ok("reproduce", "merging", "--quick", "--json", cwd=folder))


def test_quick_run_merges_to_the_batch_model_at_every_stage(done):
    folder, found = done
    assert list(found["sets"]) == ["adult", "mnist", "covertype"]
    for result in found["sets"].values():
        assert len(result["stages"]) == 5
        for stage in result["stages"]:
            assert stage["coefficients"] < 1e-9
            assert stage["scores"] < 1e-9
            assert stage["disagreements"] == 0
            assert stage["merged_accuracy"] == stage["batch_accuracy"] > 80
        assert [run["nodes"] for run in result["nodes"]] == [1, 2, 3]
        assert all(run["coefficients"] < 1e-9 for run in result["nodes"])
    assert (folder / "mergesvm-merging.png").read_bytes()[1:4] == b"PNG"


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    folder = adult.write_rows(tmp_path_factory.mktemp("data"))
    return Stream.of(STREAMS["adult"], Source(folder), n_slices=4, hidden=20, seed=1)


def expected(stream, end):
    """Coefficients by QR of the weighted rows of the hidden layer."""
    rows, y = stream.features.transform(stream.X[:end]), stream.y[:end]
    weights = np.where(y == 1, end / (2 * np.sum(y == 1)), end / (2 * np.sum(y == -1)))
    return hyperplane_by_qr(rows, y, weights, 1.0)


def test_slices_cover_the_training_rows_once_and_test_rows_are_others(stream):
    assert stream.slices[0][0] == 0
    assert [end for _, end in stream.slices] == [240, 480, 720, 960]
    assert len(stream.test) == 240
    X, y = adult.rows()
    X[:, -1] = 0  # columns begin at 0, also constant ones
    both = np.column_stack([np.vstack([stream.X, stream.test]), np.append(stream.y, stream.truth)])
    np.testing.assert_array_equal(
        np.sort(both.view([("", both.dtype)] * both.shape[1]).ravel()),
        np.sort(np.column_stack([X, y]).view([("", both.dtype)] * both.shape[1]).ravel()),
    )


def test_accuracy_of_each_stage_matches_the_formula(stream):
    hidden = stream.features.transform(stream.test)
    for stage in stages(stream, repeats=1):
        w, b = expected(stream, stage.rows)
        right = 100 * np.mean((hidden @ w + b > 0) == (stream.truth == 1))
        assert stage.merged_accuracy == stage.batch_accuracy == pytest.approx(right)


def test_time_of_nodes_is_that_of_learning_merging_and_solving(stream):
    for nodes in measure_nodes(stream, (1, 3), repeats=1):
        assert nodes.total == nodes.learning + nodes.merging + nodes.solving > 0
        assert nodes.coefficients < 1e-9


def test_the_table_shows_both_times_and_the_differences(tmp_path):
    options = ("--only", "covertype", "--slices", "3", "--hidden", "8", "--nodes", "2", "--picture", "plot.svg")
    output = ok("reproduce", "merging", "--quick", *options, cwd=tmp_path)
    assert "wine of scikit-learn for Covertype: stream of 143 rows in 3 slices, 8 hidden units" in output
    for column in ("increment s", "batch s", "merged %", "coefficients", "nodes", "speedup", "efficiency"):
        assert column in output
    assert "The claims of its abstract are tested" in output.replace("\n  ", " ")
    assert "<svg" in (tmp_path / "plot.svg").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "cifar"], "Unknown data set 'cifar'. Choose from: adult, mnist, covertype."),
        (["--nodes", "two"], "--nodes must be positive integers"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
        (["--picture", "plot.gif"], "must end in"),
        (["--data", "."], "Adult is not in"),
    ],
)
def test_invalid_input_is_named(tmp_path, options, message):
    answer = run("reproduce", "merging", *options, cwd=tmp_path)
    assert answer.returncode == 2
    assert message in answer.stderr


def test_unknown_reproduction_is_named(tmp_path):
    answer = run("reproduce", "mergin", cwd=tmp_path)
    assert answer.returncode == 2
    assert "'merging'" in answer.stderr
