"""The tables of the paper, on small data sets in the format of the real ones."""

from __future__ import annotations

import gzip
import json
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from cli.commandline import ok, run
from mergesvm import PegasosSVC
from mergesvm.reproduce.democratic.runs import PegasosRun
from mergesvm.reproduce.democratic.split import Split
from mergesvm.reproduce.democratic.tables import confusion_table
from mergesvm.reproduce.democratic.votes import ConfusedPair, confused_pairs
from mergesvm.reproduce.paper_data import CHARACTERS, DATA, Source


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("data")
    X, y = load_digits(return_X_y=True)
    X = (15 * X).astype(np.uint8).reshape(-1, 8, 8)
    (where / "mnist").mkdir()
    (where / "emnist").mkdir()
    for name, part in (("train", slice(0, 1200)), ("t10k", slice(1200, None))):
        with gzip.open(where / "mnist" / f"{name}-images-idx3-ubyte.gz", "wb") as file:
            shape = np.array([len(X[part]), 8, 8], dtype=">i4").tobytes()
            file.write(bytes([0, 0, 8, 3]) + shape + X[part].tobytes())
        with gzip.open(where / "mnist" / f"{name}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(
                bytes([0, 0, 8, 1]) + np.array([len(y[part])], dtype=">i4").tobytes() + y[part].astype("u1").tobytes()
            )
    # Twelve classes: half of the ones and sevens have classes of their own.
    split = np.where(np.isin(y, (1, 7)) & (np.arange(len(y)) % 2 == 0), y + 10, y)
    np.savez(where / "emnist" / "letters.npz", X=X, y=split)
    return where


def mnist_figures(folder, *options):
    command = ("reproduce", "democratic", "--data", str(folder), "--only", "mnist", "--json")
    return json.loads(ok(*command, *options, cwd=folder))["sets"]["mnist"]


def test_figures_are_printed_beside_those_of_the_paper(folder):
    output = ok("reproduce", "democratic", "--data", str(folder), "--only", "mnist", "--steps", "1000", cwd=folder)
    assert "898 training rows, 899 test rows" in output or "899 training rows, 898 test rows" in output
    assert "10 classes, 45 pairs" in output
    assert "MNIST: lambda chosen on held-out training rows, 10,000 steps per pair, trained as in the paper" in output
    assert "86.05" in output  # the paper's
    assert "0.69" in output
    assert "closed form: learned and solved in" in output
    assert "the most confused pairs of classes" in output
    assert (folder / "mergesvm-democratic.png").read_bytes()[1:4] == b"PNG"


def test_ties_are_counted_with_many_classes(folder):
    options = ("--only", "emnist", "--steps", "1000", "--lambda", "1e-4")
    output = ok("reproduce", "democratic", "--data", str(folder), *options, cwd=folder)
    assert "12 classes, 66 pairs" in output
    assert "tied rows %" in output
    assert "on the tied rows alone" in output
    assert "named in the paper" in output


def test_figures_do_not_depend_on_the_number_of_workers(folder):
    def run_(workers, seed):
        split = Split.of(DATA["mnist"], Source(folder), seed)
        return PegasosRun.of(split, 2000, 1e-4, workers, seed, mpi=False)

    one, three, other = run_(1, 0), run_(3, 0), run_(1, 1)
    assert (one.accuracy, one.averaged) == (three.accuracy, three.averaged)
    assert one.accuracy != other.accuracy


def test_lambda_is_chosen_on_held_out_training_rows(folder):
    found = mnist_figures(folder, "--quick", "--steps", "10000")
    assert found["runs"][0]["accuracy"] > 90
    assert found["runs"][0]["averaged"] > 92
    assert found["closed_form"]["accuracy"] > 92
    data, source = DATA["mnist"], Source.of(folder, quick=True)
    X, y, _, _ = data.load(source, seed=0)
    components = PCA(0.9999).fit(X.astype(float))
    order = np.random.default_rng(0).permutation(len(y))
    held_out, rest = order[: round(0.2 * len(y))], order[round(0.2 * len(y)) :]
    rows = components.transform(X.astype(float)) / 255
    assert max(found["strengths"].values()) == found["strengths"][str(found["runs"][0]["lambda_"])]
    for lambda_, accuracy in found["strengths"].items():
        machine = PegasosSVC(
            lambda_=float(lambda_), n_iter=1000, random_state=0, fit_intercept=False, average=0.0, ties="sequential"
        )
        expected = 100 * machine.fit(rows[rest], y[rest]).score(rows[held_out], y[held_out])
        assert accuracy == pytest.approx(expected, abs=3)


def test_confused_pairs_match_the_confusion_matrix():
    generator = np.random.default_rng(0)
    truth, predicted = generator.integers(3, 8, (2, 500))
    expected = {
        (first, second): int(
            np.sum((truth == first) & (predicted == second) | (truth == second) & (predicted == first))
        )
        for first, second in combinations(range(3, 8), 2)
    }
    found = confused_pairs(truth, predicted, 4)
    assert [pair.rows for pair in found] == sorted(expected.values(), reverse=True)[:4]
    assert all(expected[pair.first, pair.second] == pair.rows for pair in found)
    assert found[0].fraction == found[0].rows / np.sum(truth != predicted)
    assert confused_pairs(truth, truth, 4) == []


def test_confused_characters_are_compared_with_those_of_the_paper():
    pairs = [ConfusedPair(0, 24, 5, 0.5), ConfusedPair(0, 1, 3, 0.3)]  # 0 and O, 0 and 1
    table = confusion_table("EMNIST", CHARACTERS, pairs, as_emnist=True)
    assert list(table.rows) == [("0 and O", "5", "50.0", "yes"), ("0 and 1", "3", "30.0", "no")]


def test_quick_run_needs_no_data_and_uses_a_given_lambda(tmp_path):
    options = ("--only", "mnist", "--steps", "500", "--lambda", "0.02")
    output = ok("reproduce", "democratic", "--quick", *options, cwd=tmp_path)
    assert "digits of scikit-learn for MNIST: 898 training rows, 899 test rows" in output
    assert "lambda = 0.02." in output
    assert "lambda chosen" not in output
    assert "cannot be compared with those of the paper" in output
    assert (tmp_path / "mergesvm-democratic.png").exists()


@pytest.mark.xdist_group("mpi")
def test_ranks_have_the_coefficients_of_a_single_process(folder):
    options = ("--only", "mnist", "--steps", "500", "--lambda", "1e-3", "--engine", "mpi", "--workers", "2")
    shown = ok("reproduce", "democratic", "--data", str(folder), *options, cwd=folder)
    assert "parallel s (2) ┃ MPI s (2)" in shown
    assert "bit for bit" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "cifar"], "Unknown data set 'cifar'"),
        (["--steps", "many"], "positive integers"),
        (["--engine", "dask"], "--engine must be one of 'threads', 'mpi'"),
        (["--only", "fashion"], "Fashion-MNIST is not in"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
    ],
)
def test_invalid_input_is_named(folder, options, message):
    done = run("reproduce", "democratic", "--data", str(folder), *options, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
