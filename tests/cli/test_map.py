"""``mergesvm map``, and learning with the feature map it writes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import mergesvm as ms
from cli.commandline import ok, run


@pytest.fixture
def days(tmp_path):
    rng = np.random.default_rng(1)
    for day in (1, 2):
        X = rng.normal(size=(400, 3))
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        frame["colour"] = rng.choice(["red", "green", "blue"] if day == 1 else ["red", "green"], 400)
        frame["y"] = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 > 1.5, "out", "in")
        frame.to_csv(tmp_path / f"day{day}.csv", index=False)
    return tmp_path


def test_nodes_with_one_map_give_the_model_of_all_rows(days):
    message = ok("map", "day1.csv", "--label", "y", "--category", "auto", "--features", "fourier:80,precision=float64",
              "-o", "map.features", cwd=days)  # fmt: skip
    assert "6 columns become 80 features" in message
    for day in (1, 2):
        ok(
            "learn",
            f"day{day}.csv",
            "--label",
            "y",
            "--features",
            "map.features",
            "-o",
            f"{day}.knowledge",
            cwd=days,
        )
    ok("merge", "1.knowledge", "2.knowledge", "-o", "all.knowledge", cwd=days)
    ok("solve", "all.knowledge", "-o", "model.msvm", cwd=days)
    ok("predict", "model.msvm", "day2.csv", "-o", "predicted.csv", cwd=days)
    frozen = ms.features.load(days / "map.features")
    assert dict(frozen.layout.categories) == {"colour": ("blue", "green", "red")}
    whole = ms.learn(ms.scan(days / "day*.csv", label="y", like=frozen), features=frozen)
    model = ms.solve(whole)
    rows = next(iter(ms.scan(days / "day2.csv", like=frozen))).rows
    np.testing.assert_allclose(ms.load_model(days / "model.msvm").scores(rows), model.scores(rows), atol=1e-9)
    predicted = pd.read_csv(days / "predicted.csv").iloc[:, 0]
    assert (predicted.to_numpy() == model.predict(rows)).all()
    assert (predicted == pd.read_csv(days / "day2.csv")["y"]).mean() > 0.9


def learned_in_parts_and_at_once(folder, features):
    """The models of two merged files and of both files at once, by the command line with its defaults."""
    for name, files in (("1", ["day1.csv"]), ("2", ["day2.csv"]), ("whole", ["day1.csv", "day2.csv"])):
        ok("learn", *files, "--label", "y", "--features", features, "-o", f"{name}.knowledge", cwd=folder)
    ok("merge", "1.knowledge", "2.knowledge", "-o", "merged.knowledge", cwd=folder)
    for name in ("merged", "whole"):
        ok("solve", f"{name}.knowledge", "-o", f"{name}.msvm", cwd=folder)
    return (ms.load_model(folder / f"{name}.msvm") for name in ("merged", "whole"))


def numbers_only(folder):
    for day in (1, 2):
        pd.read_csv(folder / f"day{day}.csv").drop(columns="colour").to_csv(folder / f"day{day}.csv", index=False)


def test_merged_is_batch_to_nine_digits_by_default(days):
    numbers_only(days)
    for features in ("hidden:60", "nystroem:60", "pca:3"):
        message = ok("map", "day1.csv", "--label", "y", "--features", features, "-o", "m.features", "--force", cwd=days)
        assert "precision='float64'" in message
        assert "float32" not in message
    ok("map", "day1.csv", "--label", "y", "--features", "hidden:60", "-o", "m.features", "--force", cwd=days)
    merged, whole = learned_in_parts_and_at_once(days, "m.features")
    X = pd.read_csv(days / "day2.csv")[["a", "b", "c"]].to_numpy()
    np.testing.assert_allclose(merged.scores(X), whole.scores(X), rtol=0, atol=1e-9)


def test_a_printed_layer_needs_no_shared_file(days):
    numbers_only(days)
    generator = np.random.default_rng(5)
    weights, biases = generator.normal(size=(3, 200)), generator.normal(size=200)
    np.savez(days / "layer.npz", weights=weights, biases=biases)
    merged, whole = learned_in_parts_and_at_once(days, "hidden:weights=layer.npz,gain=false,activation=sigmoid")
    frame = pd.concat([pd.read_csv(days / f"day{day}.csv") for day in (1, 2)])
    X, signs = frame[["a", "b", "c"]].to_numpy(), np.where(frame["y"] == "out", 1.0, -1.0)
    features = np.column_stack([1 / (1 + np.exp(-(X @ weights + biases))), -np.ones(len(X))])
    expected = features @ np.linalg.solve(np.eye(201) + features.T @ features, features.T @ signs)
    for model in (merged, whole):
        np.testing.assert_allclose(model.scores(X)[:, 0], expected, rtol=0, atol=1e-9)


def test_where_float32_stays_the_first_message_says_how_exact_it_is(days):
    options = ("day1.csv", "--label", "y", "--columns", "a,b", "--features", "fourier:2000")
    for message in (
        ok("map", *options, "-o", "m.features", cwd=days),
        ok("learn", *options, "-o", "1.knowledge", cwd=days),
    ):
        assert "float32, which is faster: scores of merged pieces differ" in " ".join(message.split())
        assert "With precision=float64 they agree to 1e-9" in " ".join(message.split())


def test_learn_freezes_a_map_given_by_name_and_says_so(days):
    options = ("--label", "y", "--columns", "a,b")
    message = ok("learn", "day1.csv", *options, "--features", "fourier:50,detail=0.5", "-o", "1.knowledge", cwd=days)
    assert "was frozen on the first rows of these files" in message
    done = ok("learn", "day2.csv", *options, "--features", "1.knowledge", "-o", "2.knowledge", "--json", cwd=days)
    assert json.loads(done)["frozen_here"] is False
    ok("learn", "day2.csv", "--label", "y", "--like", "1.knowledge", "-o", "3.knowledge", cwd=days)
    ok("merge", "1.knowledge", "2.knowledge", "3.knowledge", "-o", "all.knowledge", cwd=days)
    ok("learn", "day2.csv", *options, "--features", "fourier:50,detail=0.5", "-o", "other.knowledge", cwd=days)
    done = run("merge", "1.knowledge", "other.knowledge", "-o", "no.knowledge", cwd=days)
    assert done.returncode == 2
    assert done.stderr.count("Fourier(50, detail=0.5, precision='") == 2
    assert not (days / "no.knowledge").exists()


def test_inspect_shows_a_feature_map(days):
    ok("map", "day1.csv", "--label", "y", "--columns", "a,b", "--features", "hidden:30", "--seed", "4",
       "-o", "p.features", cwd=days)  # fmt: skip
    message = ok("inspect", "p.features", cwd=days)
    frozen = ms.features.load(days / "p.features")
    assert "HiddenLayer(30, seed=4, precision='float64')" in message
    assert frozen.fingerprint[:32] in message
    found = json.loads(ok("inspect", "p.features", "--json", cwd=days))
    assert found["fingerprint"] == frozen.fingerprint
    assert found["names"] == ["a", "b"]
    ok("learn", "day1.csv", "--label", "y", "--features", "p.features", "-o", "k.knowledge", cwd=days)
    assert "HiddenLayer(30, seed=4)" in ok("inspect", "k.knowledge", cwd=days)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("map day1.csv --label y --features cosines:9 -o p.features", "no feature map 'cosines'"),
        ("map day1.csv --label y --features identity -o p.features", "nothing to freeze"),
        ("map day1.csv --features hidden:5,weights=constrained --columns a,b -o p.features", "needs labels"),
        ("learn day1.csv --label y --features no.features -o k", "There is no file no.features"),
        ("learn day1.csv --label y --columns a --features linear.knowledge -o k", "without a feature map"),
        ("learn day1.csv --label y --columns a --features ab.features -o k", "Omit features"),
        ("merge ab.features -o k", "a feature map"),
    ],
)
def test_invalid_maps_are_rejected(days, line, what):
    ok("learn", "day1.csv", "--label", "y", "--columns", "a,b", "-o", "linear.knowledge", cwd=days)
    ok("map", "day1.csv", "--label", "y", "--columns", "a,b", "--features", "fourier:9", "-o", "ab.features", cwd=days)
    done = run(*line.split(), cwd=days)
    assert done.returncode == 2
    assert what in done.stderr


def test_a_model_with_a_map_can_be_subtracted_exported_and_evaluated(days):
    options = ("--label", "y", "--columns", "a,b,c", "--features", "hidden:40,precision=float64")
    ok("map", "day1.csv", *options, "-o", "map.features", cwd=days)
    for day in (1, 2):
        learning = ("learn", f"day{day}.csv", "--label", "y", "--features", "map.features", "--pooled")
        ok(*learning, "-o", f"{day}.knowledge", cwd=days)
    ok("merge", "1.knowledge", "2.knowledge", "-o", "all.knowledge", cwd=days)
    ok("subtract", "all.knowledge", "1.knowledge", "-o", "rest.knowledge", cwd=days)
    ok("solve", "rest.knowledge", "-o", "model.msvm", "--onnx", "model.onnx", "--C", "10", cwd=days)
    found = json.loads(
        ok("evaluate", "model.msvm", "day1.csv", "--label", "y", "--report", "report.html", "--json", cwd=days)
    )
    frame = pd.read_csv(days / "day2.csv")
    frozen = ms.features.load(days / "map.features")
    model = ms.solve(ms.learn(frame[["a", "b", "c"]], frame["y"], features=frozen, per_class=False), C=10)
    test = pd.read_csv(days / "day1.csv")
    np.testing.assert_allclose(ms.load_model(days / "model.msvm").coef_, model.coef_, rtol=1e-6, atol=1e-8)
    assert found["accuracy"] == pytest.approx(model.score(test[["a", "b", "c"]], test["y"]), abs=1e-12)
    assert "<html" in (days / "report.html").read_text()
    assert (days / "model.onnx").stat().st_size > 1000
    answer = json.loads(ok("inspect", "model.msvm", "--json", cwd=days))
    assert answer["fingerprint"] == frozen.fingerprint
    assert answer["features"] == 40
    assert answer["names"] == ["a", "b", "c"]
