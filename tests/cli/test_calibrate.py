"""``mergesvm calibrate``."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, log_loss

import mergesvm as ms
from cli.commandline import error, ok


def frame(rows, seed, classes=("no", "yes")):
    generator = np.random.default_rng(seed)
    X = generator.exponential(size=(rows, 3))
    cuts = np.linspace(1, 4, len(classes) + 1)[1:-1]
    y = np.array(classes)[np.digitize(X @ [1.0, 1.0, 0.5] + generator.normal(size=rows), cuts)]
    return pd.DataFrame(X, columns=list("abc")).assign(w=generator.integers(0, 3, rows), y=y)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrating")
    train, held = frame(600, 1), frame(1500, 2)
    held.to_parquet(folder / "heldout.parquet")
    held[:300].to_csv(folder / "few.csv", index=False)
    ms.solve(ms.learn(train[["a", "b", "c"]], train["y"])).save(folder / "model.msvm")
    return folder, held


@pytest.mark.parametrize("method", ["isotonic", "platt"])
@pytest.mark.parametrize("weighted", [False, True])
def test_calibrate_equals_calibrated_in_python_and_scores_equal_scikit_learn(method, weighted, prepared, tmp_path):
    folder, held = prepared
    weights = held["w"] if weighted else None
    output = tmp_path / "calibrated.msvm"
    options = ["--label", "y", "--method", method, "--batch-rows", "400", "-o", output, "--json"]
    options += ["--weight", "w"] if weighted else []
    files = folder / "model.msvm", folder / "heldout.parquet"
    result = json.loads(ok("calibrate", *files, *options, cwd=tmp_path))
    model, X, y = ms.load_model(folder / "model.msvm"), held[["a", "b", "c"]], held["y"]
    expected, found = model.calibrated(X, y, weights, method), ms.load_model(output)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    counted = int((held["w"] > 0).sum()) if weighted else 1500
    assert (result["rows"], result["method"], result["few_rows"], result["dropped"]) == (
        counted,
        method,
        method == "isotonic" and counted < 1000,
        0,
    )
    for name, one in (("before", model), ("after", expected)):
        shares = one.predict_proba(X)
        assert result[name]["brier"] == pytest.approx(
            brier_score_loss(y, shares[:, 1], pos_label="yes", sample_weight=weights), rel=1e-9
        )
        assert result[name]["log_loss"] == pytest.approx(log_loss(y, shares, sample_weight=weights), rel=1e-9)
    assert result["after"]["log_loss"] < result["before"]["log_loss"]


def test_calibrate_warns_that_scores_are_in_sample_and_of_few_rows(prepared, tmp_path):
    folder, _ = prepared
    files = [folder / "model.msvm", folder / "few.csv", "--label", "y", "--weight", "w", "--force"]
    message = ok("calibrate", *files, "-o", tmp_path / "m.msvm", cwd=tmp_path)
    assert "on the calibration rows" in message
    assert "was calibrated on these rows" in message
    assert "isotonic regression overfits on fewer than" in message
    message = ok("calibrate", *files, "--method", "platt", "-o", tmp_path / "m.msvm", cwd=tmp_path)
    assert "overfits" not in message
    assert ok("calibrate", *files, "-q", "-o", tmp_path / "m.msvm", cwd=tmp_path) == ""


def test_inspect_shows_the_calibration_of_a_model(prepared, tmp_path):
    folder, held = prepared
    ms.load_model(folder / "model.msvm").calibrated(held[["a", "b", "c"]], held["y"]).save(tmp_path / "m.msvm")
    assert "isotonic, on 1,500 rows held out" in ok("inspect", "m.msvm", cwd=tmp_path)
    assert json.loads(ok("inspect", "m.msvm", "--json", cwd=tmp_path))["calibration"] == {
        "method": "isotonic",
        "rows": 1500,
    }
    assert json.loads(ok("inspect", folder / "model.msvm", "--json", cwd=tmp_path))["calibration"] is None


def test_invalid_input_is_rejected_and_writes_nothing(prepared, tmp_path):
    folder, held = prepared
    model, few = folder / "model.msvm", folder / "few.csv"
    held.assign(y="maybe").to_csv(tmp_path / "strange.csv", index=False)
    held[held["y"] == "no"].to_csv(tmp_path / "one.csv", index=False)
    output = ["--weight", "w", "-o", "out.msvm"]
    for arguments, message in (
        ([few, "--label", "y", "--method", "beta"], "method must be one of 'isotonic', 'platt', not 'beta'"),
        ([few], "Set label= to the column or file"),
        (["strange.csv", "--label", "y"], "rows of class 'maybe', which the model does not know"),
        (["one.csv", "--label", "y"], "No row is of class 'yes'"),
    ):
        # One line, however it was broken.
        found = " ".join(error("calibrate", model, *arguments, *output, cwd=tmp_path).split())
        assert message in found
        assert not (tmp_path / "out.msvm").exists()
    (tmp_path / "out.msvm").write_text("mine")
    assert "--force" in error("calibrate", model, few, "--label", "y", *output, cwd=tmp_path)
    assert (tmp_path / "out.msvm").read_text() == "mine"
