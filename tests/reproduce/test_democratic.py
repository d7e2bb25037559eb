"""The tables of the paper, on small data sets in the format of the real ones."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

from cli.commandline import ok, run


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
    output = ok(
        "reproduce", "democratic", "--data", str(folder), "--only", "mnist", "--steps", "1000,10000", cwd=folder
    )
    assert "898 training rows, 899 test rows" in output or "899 training rows, 898 test rows" in output
    assert "10 classes, 45 pairs" in output
    assert "86.05" in output  # the paper's
    assert "5.3" in output
    assert "closed form: learned and solved in" in output
    result = mnist_figures(folder, "--steps", "10000")
    run_ = result["runs"][0]
    assert run_["accuracy"] > 90
    assert run_["averaged"] > 92
    assert result["closed_form"]["accuracy"] > 92


def test_ties_are_counted_with_many_classes(folder):
    output = ok("reproduce", "democratic", "--data", str(folder), "--only", "emnist", "--steps", "1000", cwd=folder)
    assert "12 classes, 66 pairs" in output
    assert "tied rows %" in output
    assert "on the tied rows alone" in output


def test_figures_do_not_depend_on_the_number_of_workers(folder):
    def accuracy(*options):
        return mnist_figures(folder, "--steps", "2000", *options)["runs"][0]["accuracy"]

    assert accuracy("--workers", "1") == accuracy("--workers", "3")
    assert accuracy("--seed", "1") != accuracy("--seed", "2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "cifar"], "Unknown data set 'cifar'"),
        (["--steps", "many"], "positive integers"),
        (["--only", "fashion"], "Fashion-MNIST is not in"),
        (["--data", "nowhere"], "There is no data folder nowhere"),
    ],
)
def test_invalid_input_is_named(folder, options, message):
    done = run("reproduce", "democratic", "--data", str(folder), *options, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
