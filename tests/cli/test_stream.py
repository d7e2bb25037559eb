"""Following a stream from the command line."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

import mergesvm as ms
from cli.commandline import SCRIPT, ok, run, run_in_terminal


@pytest.fixture
def folder(tmp_path):
    """Two days; on the second, what tells the classes apart is another column."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(6000, 4))
    y = np.where(np.arange(6000) < 3000, X[:, 0] > 0, X[:, 3] < 0)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=np.where(y, "yes", "no"))
    frame[:3000].to_csv(tmp_path / "day1.csv", index=False)
    frame[3000:].to_csv(tmp_path / "day2.csv", index=False)
    return tmp_path


def test_every_row_is_predicted_then_learned(folder):
    output = ok("stream", "day1.csv", "--label", "y", "-o", "m.msvm", "--knowledge", "k.knowledge",
                "--picture", "a.png", "--C", "5", cwd=folder)  # fmt: skip
    assert "3,000 rows, each predicted before it was learned: accuracy 9" in output
    assert "most frequent class 50" in output or "most frequent class 49" in output
    assert "█" in output
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    rows = ms.scan(folder / "day1.csv", label="y")
    expected = ms.solve(ms.learn(rows), C=5.0)
    X = next(iter(rows)).rows
    model = ms.load_model(folder / "m.msvm")
    np.testing.assert_allclose(model.scores(X), expected.scores(X), atol=1e-9)
    assert ms.Knowledge.load(folder / "k.knowledge").rows.sum() == 3000
    assert "recursive" in ok("inspect", "m.msvm", cwd=folder)
    assert "k.knowledge already exists" in run("stream", "day1.csv", "--label", "y", "--knowledge", "k.knowledge",
                                                 cwd=folder).stderr  # fmt: skip


def test_window_and_forgetting_adapt_to_change(folder):
    def accuracy(*options):
        return json.loads(ok("stream", "day*.csv", "--label", "y", "--json", *options, cwd=folder))["accuracy"]

    steady = accuracy()
    assert steady < 0.82
    assert accuracy("--window", "300") > 0.93
    assert accuracy("--forgetting", "0.99") > 0.93
    assert accuracy("--window", "300", "--free-intercept", "--class-weight", "yes=2") > 0.9


def test_stream_continues_from_knowledge(folder):
    ok("learn", "day1.csv", "--label", "y", "-o", "1.knowledge", cwd=folder)
    done = json.loads(
        ok(
            "stream",
            "day2.csv",
            "--label",
            "y",
            "--from",
            "1.knowledge",
            "--knowledge",
            "all.knowledge",
            "--json",
            cwd=folder,
        )
    )
    assert done["rows"] == 3000
    assert done["counts"] == ms.learn(ms.scan(folder / "day*.csv", label="y")).rows.tolist()
    knowledge = ms.Knowledge.load(folder / "all.knowledge")
    assert [os.path.basename(origin.source) for origin in knowledge.provenance] == ["day1.csv", "day2.csv"]  # noqa: PTH119
    ok("solve", "1.knowledge", "-o", "1.msvm", cwd=folder)
    assert (
        "does not contain knowledge" in run("stream", "day2.csv", "--label", "y", "--from", "1.msvm", cwd=folder).stderr
    )


def test_class_weights_are_those_of_labels_that_all_rows_decide(tmp_path):
    lines = [f"{row},{row % 2}" for row in range(300)] + ["7,01"] * 5
    (tmp_path / "x.csv").write_text("\n".join(["a,y", *lines, ""]))
    ok("stream", "x.csv", "--label", "y", "--class-weight", "01=2", "-o", "m.msvm", "--batch-rows", "50", cwd=tmp_path)
    assert ms.load_model(tmp_path / "m.msvm").labels == ("0", "01", "1")


def test_stream_with_a_feature_map(folder):
    output = ok("stream", "day1.csv", "--label", "y", "--features", "fourier:60", "-o", "m.msvm", cwd=folder)
    assert "3,000 rows" in output
    assert ms.load_model(folder / "m.msvm").signature.features.width == 60


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--forgetting", "2"], "forgetting must be greater than 0 and at most 1"),
        (["--class-weight", "balanced"], "write class=weight,class=weight"),
        (["--C", "-1"], "C must be a positive number"),
        (["--picture", "a.txt"], "a.txt must end in"),
        (["--from", "nowhere.knowledge"], "There is no file nowhere.knowledge"),
    ],
)
def test_invalid_input_is_named(folder, options, message):
    done = run("stream", "day1.csv", "--label", "y", *options, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr


def test_missing_value_is_an_error_that_names_the_file_and_writes_nothing(folder):
    with (folder / "day2.csv").open("a") as file:
        file.write("1,2,,4,yes\n")
    done = run("stream", "day*.csv", "--label", "y", "-o", "m.msvm", cwd=folder)
    assert done.returncode == 2
    assert "day2.csv" in done.stderr
    assert not (folder / "m.msvm").exists()
    output = ok("stream", "day*.csv", "--label", "y", "--missing", "drop", cwd=folder)
    assert "1 rows with missing values dropped" in output


def test_plot_is_updated_in_a_terminal(folder):
    script = f"from mergesvm.cli.commands import stream; stream.REFRESH_SECONDS = 0.0; {SCRIPT}"
    text = run_in_terminal(script, "stream", "day1.csv", "--label", "y", "--batch-rows", "500", cwd=folder)
    assert "rows/s" in text
    assert "recent" in text
    assert "█" in text


def test_stream_of_few_rows(folder):
    (folder / "few.csv").write_text("a,y\n1,x\n2,x\n5,z\n")
    assert "3 rows, each predicted before it was learned" in ok("stream", "few.csv", "--label", "y", cwd=folder)
    output = ok("stream", "few.csv", "--label", "y", "--class-weight", "x=2,q=3", cwd=folder)
    assert "No row was of class q" in output
    done = run("stream", "few.csv", "--label", "y", "-o", "x", "--knowledge", "x", cwd=folder)
    assert done.returncode == 2
    assert "Choose two names" in done.stderr


def test_class_weights_have_the_type_of_the_labels(folder):
    (folder / "whole.csv").write_text("a,y\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(60)))
    plain, heavy = (
        json.loads(ok("stream", "whole.csv", "--label", "y", "--json", "-o", name, *options, cwd=folder))
        for name, options in (("1.msvm", []), ("2.msvm", ["--class-weight", "1=50"]))
    )
    assert plain["rows"] == heavy["rows"] == 60
    one, two = (ms.load_model(folder / name) for name in ("1.msvm", "2.msvm"))
    assert abs(one.intercept_ - two.intercept_).max() > 0.1
    done = run("stream", "whole.csv", "--label", "y", "--class-weight", "yes=50", cwd=folder)
    assert "with whole number labels" in done.stderr
