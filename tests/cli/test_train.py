"""``mergesvm train``: the models of the estimators on the same rows, from files, on every engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mergesvm as ms
from cli.commandline import SCRIPT, error, ok, run_in_terminal

BIN = Path(sys.executable).parent
COMMAND, MPIEXEC = str(BIN / "mergesvm"), str(BIN / "mpiexec")

PEGASOS = ["--method", "pegasos", "--lambda", "1e-2", "--steps", "400"]
KERNEL = ["--method", "kernel", "--C", "3", "--gamma", "0.5"]
MPI, DASK = ["--engine", "mpi"], ["--engine", "dask", "--workers", "2"]
READ = ["--label", "y", "--category", "auto", "--weight", "weight", "--missing", "drop"]


class Files:
    """Rows with a category, weights and a missing value, as CSV and in two Parquet files; and as arrays."""

    def __init__(self, folder):
        generator = np.random.default_rng(4)
        table = pd.DataFrame(np.round(generator.normal(size=(150, 2)), 2), columns=["a", "b"])
        table["colour"] = generator.choice(["blue", "red"], 150)
        table["weight"] = generator.choice([1.0, 2.0], 150)
        table["y"] = np.where(table.a > 0.4, "old", np.where(table.b + (table.colour == "red") > 0, "new", "odd"))
        table.loc[11, "a"] = np.nan
        table.to_csv(folder / "rows.csv", index=False)
        for part in range(2):
            table[75 * part : 75 * part + 75].to_parquet(folder / f"rows{part}.parquet")
        kept = table.dropna()
        self.X = np.column_stack([kept.a, kept.b, kept.colour == "blue", kept.colour == "red"]).astype(np.float64)
        self.y, self.weights, self.folder = kept.y.to_numpy(), kept.weight.to_numpy(), folder
        self.csv, self.parquet, self.output = folder / "rows.csv", folder / "rows?.parquet", folder / "model.msvm"

    def fitted(self, estimator):
        return estimator.fit(self.X, self.y, sample_weight=self.weights).model_


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("rows"))


def pegasos(files, **options):
    return files.fitted(ms.PegasosSVC(lambda_=1e-2, n_iter=400, **options))


def kernel(files, **options):
    return files.fitted(ms.ParallelKernelSVC(C=3, gamma=0.5, **options))


def assert_same(model, expected):
    assert model.feature_names_ == ("a", "b", "colour=blue", "colour=red")
    assert model.signature.categories == (("colour", ("blue", "red")),)
    assert model.labels == expected.labels
    np.testing.assert_array_equal(model.domain.rows, expected.domain.rows)
    if isinstance(model, ms.PairwiseModel):
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.intercept_, expected.intercept_)
    else:
        np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-4)
        np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-5)


@pytest.mark.parametrize("source", ["csv", "parquet"])
@pytest.mark.parametrize(("options", "machine"), [(PEGASOS, pegasos), (KERNEL, kernel)])
def test_the_model_is_that_of_the_estimator(source, options, machine, files):
    shown = ok("train", getattr(files, source), *READ, *options, "-o", files.output, "--force")
    assert "of 149 rows, 1 rows with missing values dropped" in shown
    assert f"written to {files.output}" in shown
    assert_same(ms.load_model(files.output), machine(files))


def run(*arguments, ranks=None):
    start = [] if ranks is None else [MPIEXEC, "-n", str(ranks)]
    command = [*start, COMMAND, "train", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    ("ranks", "engine", "options", "machine"),
    [
        pytest.param(3, MPI, PEGASOS, pegasos, id="mpi pegasos", marks=pytest.mark.xdist_group("mpi")),
        pytest.param(3, MPI, KERNEL, kernel, id="mpi kernel", marks=pytest.mark.xdist_group("mpi")),
        pytest.param(None, DASK, KERNEL, kernel, id="dask kernel", marks=pytest.mark.xdist_group("dask")),
    ],
)
def test_engines(ranks, engine, options, machine, files):
    done = run(files.parquet, *READ, *options, *engine, "--json", "--force", "-o", files.output, ranks=ranks)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)  # of one rank
    assert (result["rows"], result["dropped"], result["classes"]) == (149, 1, ["new", "odd", "old"])
    assert_same(ms.load_model(files.output), machine(files))


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--class-weight", "new=1,odd=2,old=0.5"], {"class_weight": {"new": 1.0, "odd": 2.0, "old": 0.5}}),
        (["--class-weight", "balanced", "--multiclass", "ovr", "--seed", "3"], {}),
    ],
)
def test_options_of_pegasos(options, parameters, files):
    ok("train", files.csv, *READ, *PEGASOS, *options, "-o", files.output, "--force")
    parameters = parameters or {"class_weight": "balanced", "multiclass": "ovr", "random_state": 3}
    expected = pegasos(files, **parameters)
    np.testing.assert_array_equal(ms.load_model(files.output).coef_, expected.coef_)


def test_options_of_kernel_machines(files):
    options = ["--kernel", "poly", "--degree", "2", "--coef0", "1", "--tol", "1e-4", "--class-weight", "balanced"]
    ok("train", files.csv, *READ, *KERNEL, *options, "-o", files.output, "--force")
    assert_same(
        ms.load_model(files.output),
        kernel(files, kernel="poly", degree=2, coef0=1.0, tol=1e-4, class_weight="balanced"),
    )


def test_a_budget_of_support_vectors(files):
    expected = kernel(files, max_support_vectors=8)
    ok("train", files.csv, *READ, *KERNEL, "--max-support-vectors", "8", "-o", files.output, "--force", "--quiet")
    assert_same(ms.load_model(files.output), expected)


def test_a_feature_map_from_a_file(files, tmp_path):
    ms.features.Fourier(20, seed=0).freeze(ms.scan(files.csv, label="y", weight="weight", categories="auto",
                                                   missing="drop")).save(tmp_path / "map.features")  # fmt: skip
    options = ["--label", "y", "--weight", "weight", "--missing", "drop", "--features", tmp_path / "map.features"]
    ok("train", files.csv, *options, *PEGASOS, "-o", files.output, "--force")
    expected = pegasos(files, features=ms.features.load(tmp_path / "map.features"))
    np.testing.assert_array_equal(ms.load_model(files.output).coef_, expected.coef_)


@pytest.mark.parametrize(("options", "machine"), [(PEGASOS, pegasos), (KERNEL, kernel)])
def test_the_model_predicts_new_files(options, machine, files, tmp_path):
    ok("train", files.csv, *READ, *options, "-o", files.output, "--force")
    pd.read_csv(files.csv).dropna()[["colour", "b", "a"]].to_csv(tmp_path / "new.csv", index=False)
    ok("predict", files.output, tmp_path / "new.csv", "-o", tmp_path / "predicted.csv")
    predicted = pd.read_csv(tmp_path / "predicted.csv").iloc[:, -1]
    np.testing.assert_array_equal(predicted, machine(files).predict(files.X))
    accuracy = np.average(predicted == files.y, weights=files.weights)
    shown = ok("evaluate", files.output, files.csv, "--label", "y", "--weight", "weight", "--missing", "drop")
    assert f"accuracy {accuracy:.4f}" in shown
    assert "blue, red" in ok("inspect", files.output)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--label", "y", "--method", "newton"], "--method must be one of 'pegasos', 'kernel', not 'newton'"),
        (["--label", "y", *PEGASOS, "--gamma", "2"], "--gamma is not an option of --method pegasos, but of kernel"),
        (["--label", "y", *KERNEL, "--steps", "9"], "--steps is not an option of --method kernel, but of pegasos"),
        (["--label", "y", *KERNEL, "--features", "fourier"], "--features is not an option of --method kernel"),
        ([*READ, "--method", "pegasos", "--lambda", "-1"], "--lambda must be a float in the range"),
        ([*READ, "--method", "pegasos", "--steps", "0"], "--steps must be an int in the range"),
        ([*READ, "--method", "kernel", "--gamma", "large"], "--gamma must be a str among"),
        ([*READ, "--method", "kernel", "--kernel", "cubic"], "--kernel must be a str among"),
        ([*READ, *KERNEL, "--class-weight", "young=1"], "There is no class 'young', named in --class-weight"),
        ([*READ, *KERNEL, "--class-weight", "fair"], "--class-weight must be"),
        (["--label", "nothing", *KERNEL], "there is no column 'nothing'"),
        (["--columns", "a,b", "--missing", "drop", *KERNEL], "rows.csv has no labels. Set label="),
        (["--label", "y", "--category", "auto", *KERNEL], "rows.csv contains NaN: row 11, column 'a'"),
        (["--label", "y", "--category", "auto", *PEGASOS], "rows.csv contains NaN: row 11, column 'a'"),
        (["--label", "y", *PEGASOS], "column 'colour' is text"),
    ],
)
def test_invalid_input_is_refused(options, message, files, tmp_path):
    shown = error("train", files.csv, *options, "-o", tmp_path / "model.msvm")
    assert message in shown
    assert not (tmp_path / "model.msvm").exists()


@pytest.mark.parametrize("method", ["pegasos", "kernel"])
def test_rows_of_one_class_or_none_are_refused(method, tmp_path):
    options = ["--label", "y", "--method", method, "-o", tmp_path / "model.msvm"]
    (tmp_path / "one.csv").write_text("x,y\n1,yes\n2,yes\n")
    assert "All rows are of class 'yes'" in error("train", tmp_path / "one.csv", *options)
    (tmp_path / "missing.csv").write_text("x,y\n,yes\n,no\n")
    message = error("train", tmp_path / "missing.csv", *options, "--missing", "drop")
    assert "There is nothing to learn" in message
    assert "all rows have missing values" in message
    assert not (tmp_path / "model.msvm").exists()


def test_outputs_are_not_overwritten(files, tmp_path):
    (tmp_path / "model.msvm").write_text("mine")
    assert "--force" in error("train", files.csv, *READ, *PEGASOS, "-o", tmp_path / "model.msvm")
    assert "is an input of this command" in error("train", files.csv, *READ, *PEGASOS, "-o", files.csv, "--force")
    assert (tmp_path / "model.msvm").read_text() == "mine"


def test_a_terminal_shows_what_is_being_done(files):
    script = "from mergesvm.cli import console; console.PROGRESS_DELAY_SECONDS = 0.0; " + SCRIPT
    shown = run_in_terminal(script, "train", files.csv, *READ, *PEGASOS, "-o", files.output, "--force")
    assert "training" in shown
