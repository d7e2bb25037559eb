"""Learn, merge, subtract, solve, predict, evaluate and inspect on the command line."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mergesvm as ms
from cli.commandline import SCRIPT, ok, run, run_in_terminal
from mergesvm.cli.lazy_group import COMMANDS

README = Path(__file__).parents[2] / "README.md"


def frame(rows, seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    y = np.array(["high", "low", "middle"])[np.digitize(X @ [1.0, 2.0, -1.0] + generator.normal(size=rows), [-1, 1])]
    return pd.DataFrame(X, columns=list("abc")).assign(id=np.arange(rows), y=y)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with data, knowledge and a model."""
    folder = tmp_path_factory.mktemp("prepared")
    for name, rows in (("day1", 400), ("day2", 300), ("test", 200), ("heldout", 250)):
        frame(rows, len(name) + rows).drop(columns="id").to_parquet(folder / f"{name}.parquet")
    frame(50, 9).drop(columns="y").to_csv(folder / "new.csv", index=False)
    ok("learn", "day1.parquet", "--label", "y", "-o", "day1.knowledge", cwd=folder)
    ok("learn", "day2.parquet", "--label", "y", "-o", "day2.knowledge", cwd=folder)
    ok("learn", "day1.parquet", "--label", "y", "--folds", "5", "-o", "folds.knowledge", cwd=folder)
    ok("merge", "day*.knowledge", "-o", "all.knowledge", cwd=folder)
    ok("solve", "all.knowledge", "-o", "model.msvm", cwd=folder)
    return folder


EXAMPLES = [
    (name, example)
    for name in COMMANDS
    if name not in ("reproduce", "tag")
    for example in import_module(f"mergesvm.cli.commands.{name}").__dict__[f"{name}_command"].examples
    if not example.startswith("mpiexec")
]


def readme_commands():
    blocks = re.findall(r"```(?:sh|console|bash)\n(.*?)```", README.read_text(), flags=re.DOTALL)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip().startswith("mergesvm ")]


def test_the_commands_of_the_readme_run_one_after_another(tmp_path):
    frame(400, 1).drop(columns="id").to_parquet(tmp_path / "day1.parquet")
    frame(400, 2).drop(columns="id").to_parquet(tmp_path / "day2.parquet")
    frame(100, 3).drop(columns="id").to_parquet(tmp_path / "test.parquet")
    frame(250, 5).drop(columns="id").to_parquet(tmp_path / "heldout.parquet")
    frame(50, 4).drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    commands = readme_commands()
    assert {shlex.split(command)[1] for command in commands} >= set(COMMANDS) - {"demo", "reproduce", "tag"}
    for command in commands:
        ok(*shlex.split(command, comments=True)[1:], cwd=tmp_path)
    for name in ("all.knowledge", "rest.knowledge", "model.msvm", "predictions.parquet", "report.html"):
        assert (tmp_path / name).exists()


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_the_examples_in_help_run(name, example, prepared, tmp_path):
    shown = " ".join(ok(name, "--help").split())
    assert example in shown.replace("│", "")
    for file in prepared.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "rest.knowledge").write_bytes((prepared / "day2.knowledge").read_bytes())
    ok(*shlex.split(example)[1:], *{"inspect": ["--json"], "demo": []}.get(name, ["--force"]), cwd=tmp_path)


def test_subtracting_after_merging_gives_the_model_of_the_remaining_rows(prepared, tmp_path):
    ok("subtract", prepared / "all.knowledge", prepared / "day1.knowledge", "-o", tmp_path / "rest.knowledge")
    ok("solve", tmp_path / "rest.knowledge", "--C", "10", "--multiclass", "ovo", "-o", tmp_path / "model.msvm")
    day2 = pd.read_parquet(prepared / "day2.parquet")
    expected = ms.solve(ms.learn(day2[["a", "b", "c"]], day2["y"]), C=10, multiclass="ovo")
    np.testing.assert_allclose(ms.load_model(tmp_path / "model.msvm").coef_, expected.coef_, rtol=1e-9)


@pytest.mark.parametrize("suffix", ["parquet", "feather", "csv"])
def test_predict_writes_predictions_in_row_order(suffix, prepared, tmp_path):
    output = tmp_path / f"out.{suffix}"
    ok(
        "predict",
        prepared / "model.msvm",
        prepared / "new.csv",
        "-o",
        output,
        "--keep",
        "id",
        "--proba",
        "--batch-rows",
        "7",
    )
    found = {"parquet": pd.read_parquet, "feather": pd.read_feather, "csv": pd.read_csv}[suffix](output)
    new, model = pd.read_csv(prepared / "new.csv"), ms.load_model(prepared / "model.msvm")
    assert found["id"].astype(str).tolist() == new["id"].astype(str).tolist()
    np.testing.assert_array_equal(found["prediction"], model.predict(new[["a", "b", "c"]]))
    shares = found[[f"probability {label}" for label in model.labels]].to_numpy()
    np.testing.assert_allclose(shares, model.predict_proba(new[["a", "b", "c"]]), rtol=1e-9)


@pytest.mark.parametrize("source", ["new.csv", "new.tsv", "new.csv.gz", "large.csv", "new.parquet"])
def test_predict_does_not_change_what_it_copies(source, prepared, tmp_path, monkeypatch):
    if source == "large.csv":
        monkeypatch.setattr("mergesvm.data.readers.csv.MIN_BYTES_FOR_JIT", 0)
    ids = ["007", "12345678901234567890", "0x1F", "NA", "null", "2020-01-01", "12:30", " x ", "", "1e5", "true", "é"]
    table = frame(12, 9).drop(columns="y").assign(id=ids)
    if source == "new.parquet":
        table.to_parquet(tmp_path / source)
    else:
        table.to_csv(tmp_path / source, index=False, sep="\t" if source == "new.tsv" else ",")
    for output in ("out.csv", "out.parquet", "out.feather"):
        ok("predict", prepared / "model.msvm", source, "--keep", "id", "--batch-rows", "5", "-o", output, cwd=tmp_path)
    printed = ok("predict", prepared / "model.msvm", source, "--keep", "id", cwd=tmp_path)
    for text in (printed, (tmp_path / "out.csv").read_text()):
        assert [row["id"] for row in csv.DictReader(io.StringIO(text))] == ids
    for read, name in ((pd.read_parquet, "out.parquet"), (pd.read_feather, "out.feather")):
        assert read(tmp_path / name)["id"].tolist() == ids


def test_labels_of_a_model_and_of_text_are_compared_alike(tmp_path):
    (tmp_path / "text.csv").write_text("a,y\n1,01\n2,1\n3,01\n4,1\n")
    (tmp_path / "one.csv").write_text("a,y\n1,1\n2,1\n")
    ok("learn", "text.csv", "--label", "y", "-o", "k", cwd=tmp_path)
    ok("solve", "k", "-o", "m.msvm", cwd=tmp_path)
    done = json.loads(ok("evaluate", "m.msvm", "one.csv", "--label", "y", "--json", cwd=tmp_path))
    assert [(row["label"], row["known"]) for row in done["classes"]] == [("01", True), ("1", True)]
    ok("learn", "one.csv", "--label", "y", "--like", "k", "-o", "more", cwd=tmp_path)
    ok("merge", "k", "more", "-o", "all", cwd=tmp_path)
    assert ms.Knowledge.load(tmp_path / "all").labels == ("01", "1")


def test_predict_without_output_prints_csv(prepared):
    lines = ok("predict", prepared / "model.msvm", prepared / "new.csv").splitlines()
    assert lines[0] == '"prediction"'
    assert len(lines) == 51


def test_dropped_rows_have_an_empty_prediction(prepared, tmp_path):
    (tmp_path / "holes.csv").write_text("a,b,c\n1,2,3\n,2,3\n3,2,1\n")
    assert "contains NaN: row 1" in run("predict", prepared / "model.msvm", tmp_path / "holes.csv").stderr
    ok("predict", prepared / "model.msvm", tmp_path / "holes.csv", "--missing", "drop", "-o", tmp_path / "out.parquet")
    found = pd.read_parquet(tmp_path / "out.parquet")["prediction"]
    assert found.isna().tolist() == [False, True, False]


def test_evaluate_equals_scikit_learn(prepared, tmp_path):
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, classification_report

    report = tmp_path / "report.html"
    answer = json.loads(
        ok("evaluate", prepared / "model.msvm", prepared / "test.parquet", "--label", "y", "--report", report, "--json")
    )
    test = pd.read_parquet(prepared / "test.parquet")
    predicted = ms.load_model(prepared / "model.msvm").predict(test[["a", "b", "c"]])
    assert answer["accuracy"] == pytest.approx(accuracy_score(test.y, predicted), abs=1e-12)
    assert answer["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(test.y, predicted), abs=1e-12)
    shown = ok("evaluate", prepared / "model.msvm", prepared / "test.parquet", "--label", "y")
    for label, values in classification_report(test.y, predicted, output_dict=True).items():
        if label in ("high", "low", "middle"):
            line = next(line for line in shown.splitlines() if f" {label} " in line)
            assert f"{values['precision']:.4f}" in line
            assert f"{values['recall']:.4f}" in line
    page = report.read_text()
    assert page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>")
    assert "http" not in page


def test_evaluate_rejects_labels_of_another_type(prepared, tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c,y\n1,2,3,4\n")
    done = run("evaluate", prepared / "model.msvm", tmp_path / "x.csv", "--label", "y")
    assert done.returncode == 2
    assert "has whole number labels such as 4, but the model was learned from text labels" in done.stderr


def test_inspect_prints_text_or_json(prepared):
    shown = ok("inspect", prepared / "all.knowledge")
    for part in ("700 rows in 3 classes", "a, b, c", "day1.parquet", "day2.parquet", "middle"):
        assert part in shown
    answer = json.loads(ok("inspect", prepared / "model.msvm", "--json"))
    assert answer["kind"] == "model"
    assert answer["rows"] == 700
    assert answer["terms"]["C"] == 1.0


def test_json_output_is_one_object_and_quiet_prints_nothing(prepared, tmp_path):
    output = tmp_path / "x.knowledge"
    answer = json.loads(ok("learn", prepared / "day1.parquet", "--label", "y", "-o", output, "--json"))
    assert answer["rows"] == 400
    assert answer["output"] == str(output)
    assert ok("learn", prepared / "day1.parquet", "--label", "y", "-o", output, "--force", "--quiet") == ""


def test_outputs_are_not_overwritten_without_force(prepared, tmp_path):
    output = tmp_path / "x.knowledge"
    output.write_text("precious")
    done = run("learn", prepared / "day1.parquet", "--label", "y", "-o", output)
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert output.read_text() == "precious"
    ok("learn", prepared / "day1.parquet", "--label", "y", "-o", output, "--force")
    assert ms.Knowledge.load(output).rows.sum() == 400


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["learn", "nowhere.csv", "--label", "y", "-o", "x.knowledge"], "There is no file or folder nowhere.csv"),
        (["learn", "day1.parquet", "--label", "z", "-o", "x.knowledge"], "there is no column 'z'"),
        (["learn", "day1.parquet", "--label", "y", "-o", "no/where.knowledge"], "There is no folder no"),
        (["learn", "day1.parquet", "--label", "y", "-o", "x", "--category", "a"], "column=value"),
        (["merge", "all.knowledge", "model.msvm", "-o", "x"], "model.msvm holds a model, not knowledge"),
        (["merge", "all.knowledge", "all.knowledge", "-o", "x"], "all.knowledge is named twice"),
        (["merge", "none*.knowledge", "-o", "x"], "No file matches none*.knowledge"),
        (["merge", "new.csv", "-o", "x"], "new.csv is not a mergesvm file"),
        (["subtract", "day1.knowledge", "all.knowledge", "-o", "x"], "Cannot subtract"),
        (["solve", "model.msvm", "-o", "x"], "holds a model, not knowledge"),
        (["solve", "all.knowledge", "--C", "-1", "-o", "x"], "C must be a positive number"),
        (["solve", "all.knowledge", "--class-weight", "many", "-o", "x"], "many"),
        (["solve", "all.knowledge", "--class-weight", "huge=2", "-o", "x"], "There is no class 'huge'"),
        (["solve", "all.knowledge", "--class-weight", "high=2,", "-o", "x"], "ends with a comma"),
        (["solve", "all.knowledge", "--class-weight", "high=b", "-o", "x"], "must be a number, not 'b'"),
        (["predict", "all.knowledge", "new.csv"], "holds knowledge, not a model"),
        (["predict", "model.msvm", "new.csv", "-o", "x.docx"], "must end in .parquet"),
        (["predict", "model.msvm", "all.knowledge"], "unrecognised file extension"),
        (["evaluate", "model.msvm", "new.csv"], "has no labels"),
        (["inspect", "day1.parquet"], "is not a mergesvm file"),
    ],
)
def test_invalid_input_is_an_error_with_exit_code_2(arguments, what, prepared):
    before = sorted(path.name for path in prepared.iterdir())
    done = run(*arguments, cwd=prepared)
    assert done.returncode == 2, done.stdout + done.stderr
    assert what in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in prepared.iterdir()) == before


def test_debug_prints_a_traceback(prepared):
    done = run("inspect", prepared / "day1.parquet", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_class_weights_and_onnx_on_the_command_line(prepared, tmp_path):
    arguments = ["--class-weight", "high=2,low=1,middle=0.5", "--onnx", tmp_path / "m.onnx"]
    ok("solve", prepared / "all.knowledge", *arguments, "-o", tmp_path / "m.msvm")
    terms = ms.load_model(tmp_path / "m.msvm").domain.options
    assert terms["class_weight"] == {"high": 2.0, "low": 1.0, "middle": 0.5}
    assert (tmp_path / "m.onnx").stat().st_size > 100


def test_like_uses_the_categories_of_another_piece(tmp_path):
    (tmp_path / "1.csv").write_text("size,colour,y\n1,red,a\n2,blue,b\n")
    (tmp_path / "2.csv").write_text("size,colour,y\n1,blue,a\n2,blue,b\n")
    ok("learn", "1.csv", "--label", "y", "--category", "auto", "-o", "1.knowledge", cwd=tmp_path)
    ok("learn", "2.csv", "--label", "y", "--like", "1.knowledge", "-o", "2.knowledge", cwd=tmp_path)
    ok("merge", "1.knowledge", "2.knowledge", "-o", "all.knowledge", cwd=tmp_path)
    assert ms.Knowledge.load(tmp_path / "all.knowledge").signature.names == ("size", "colour=blue", "colour=red")


def test_progress_is_shown_on_a_terminal_only(prepared, tmp_path):
    script = "import mergesvm.cli.console as console; console.PROGRESS_DELAY_SECONDS = 0.0; " + SCRIPT
    arguments = [
        "learn",
        str(prepared / "day1.parquet"),
        "--label",
        "y",
        "--batch-rows",
        "10",
        "-o",
        str(tmp_path / "x"),
    ]
    shown = run_in_terminal(script, *arguments)
    assert "learning" in shown
    assert "rows/s" in shown
    done = subprocess.run([sys.executable, "-c", script, *arguments, "--force"], capture_output=True, check=True)
    assert done.stderr == b""


def test_merging_many_files_shows_progress(prepared, tmp_path):
    script = "import mergesvm.cli.console as console; console.PROGRESS_DELAY_SECONDS = 0.0; " + SCRIPT
    pieces = [prepared / "day1.knowledge", prepared / "day2.knowledge"]
    assert "merging" in run_in_terminal(script, "merge", *pieces, "-o", tmp_path / "x")
    subtracted = ("subtract", prepared / "all.knowledge", pieces[0], "-o", tmp_path / "y")
    assert "subtracting" in run_in_terminal(script, *subtracted)


def test_a_closed_pipe_is_not_an_error(prepared):
    command = f"{shlex.quote(sys.executable)} -c '{SCRIPT}' predict model.msvm new.csv | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, cwd=prepared)
    assert "Traceback" not in done.stderr


def test_constant_columns_are_not_passed_over_in_silence(tmp_path):
    frame(60, 1).drop(columns="id").assign(unit=7.0, site=0).to_csv(tmp_path / "day.csv", index=False)
    said = "2 of 5 features are constant, and do not tell classes apart: unit, site."
    done = ok("learn", "day.csv", "--label", "y", "-o", "day.knowledge", cwd=tmp_path)
    assert said in " ".join(done.split())
    assert re.search(r"constant\W+unit, site", ok("inspect", "day.knowledge", cwd=tmp_path))
    shown = json.loads(ok("inspect", "day.knowledge", "--json", cwd=tmp_path))
    assert shown["constant"] == ["unit", "site"]
    ok("report", "day.knowledge", "-o", "day.html", cwd=tmp_path)
    assert said in (tmp_path / "day.html").read_text()


def test_no_intercept_is_not_a_free_one(tmp_path):
    data = frame(80, 2).drop(columns="id")
    data.to_csv(tmp_path / "day.csv", index=False)
    ok("learn", "day.csv", "--label", "y", "-o", "day.knowledge", cwd=tmp_path)
    ok("solve", "day.knowledge", "--no-intercept", "-o", "m.msvm", cwd=tmp_path)
    assert (ms.load_model(tmp_path / "m.msvm").intercept_ == 0).all()
    assert re.search(r"intercept\W+none", ok("inspect", "m.msvm", cwd=tmp_path))
    refused = run("solve", "day.knowledge", "--no-intercept", "--free-intercept", "-o", "n.msvm", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--no-intercept leaves no intercept for --free-intercept" in " ".join(refused.stderr.split())
