"""Folds on the command line: learn, merge, subtract and inspect them, and choose options with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, balanced_accuracy_score

import mergesvm as ms
from cli.commandline import error, ok
from mergesvm.data.rows.convert import as_rows
from mergesvm.knowledge.fold_assignment import FoldAssignment
from reference import hyperplane_by_qr, side_weights

BIN = Path(sys.executable).parent
COLUMNS, CLASSES = ["a", "b", "c"], np.array(["high", "low", "middle"])
CS = [1e-3, 1e-2, 1.0]


def frame(rows, seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(rows, 3))
    y = CLASSES[np.digitize(X @ [1.0, 2.0, -1.0] + generator.normal(size=rows), [-1, 3])]
    return pd.DataFrame(X, columns=COLUMNS).assign(who=generator.integers(0, 40, rows).astype(str), y=y)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the rows, knowledge and folds of three days, and a table of all rows."""
    folder = tmp_path_factory.mktemp("folds")
    days = [frame(rows, rows) for rows in (150, 200, 250)]
    for number, day in enumerate(days, 1):
        day.to_parquet(folder / f"day{number}.parquet")
        scan = ms.scan(folder / f"day{number}.parquet", label="y", features=COLUMNS, keep=["who"])
        ms.learn(scan).save(folder / f"day{number}.knowledge")
        ms.learn(scan, folds=4, groups="who").save(folder / f"folds{number}.knowledge")
    ms.merge(ms.Folds.load(folder / f"folds{number}.knowledge") for number in (1, 2, 3)).save(folder / "all.knowledge")
    return folder, pd.concat(days, ignore_index=True)


def fold_numbers(rows):
    return FoldAssignment(4, "groups", "who").numbers(
        as_rows(rows[COLUMNS].to_numpy()), rows["who"].to_numpy(dtype=object)
    )


def assert_same(found, expected):
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.rows, expected.rows)
    X = np.random.default_rng(0).normal(size=(9, 3))
    scores = [ms.solve(each).decision_function(X) for each in (found, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-9, atol=1e-12)


def knowledge_of(rows):
    return ms.learn(rows[COLUMNS].to_numpy(), rows["y"].to_numpy(), feature_names=COLUMNS)


def held_out(rows, numbers, C, weighting=None):
    """Scores of each row by one-vs-rest models refitted without its fold."""
    X, scores = rows[COLUMNS].to_numpy(), np.empty((len(rows), len(CLASSES)))
    for fold in np.unique(numbers):
        train, test = numbers != fold, numbers == fold
        for place, label in enumerate(CLASSES):
            mine = rows["y"].to_numpy()[train] == label
            heavy, light = side_weights(weighting, mine.sum(), (~mine).sum())
            w, b = hyperplane_by_qr(X[train], np.where(mine, 1.0, -1.0), np.where(mine, heavy, light), C)
            scores[test, place] = X[test] @ w + b
    return scores


def losses(rows, scores):
    """The squared loss of each row, averaged over the binary problems."""
    signs = np.where(rows["y"].to_numpy()[:, None] == CLASSES, 1.0, -1.0)
    return ((1 - signs * scores) ** 2).mean(axis=1)


def balanced_loss(y, scores):
    """The squared loss with equal weight for both sides of each binary problem, and for the classes of a side."""
    squares = (1 - np.where(y[:, None] == CLASSES, 1.0, -1.0) * scores) ** 2
    means = np.array([squares[y == label].mean(axis=0) for label in CLASSES])  # (classes, problems)
    own = means.diagonal()
    return ((own + (means.sum(axis=0) - own) / (len(CLASSES) - 1)) / 2).mean()


def by_fold(numbers, score):
    return np.array([score(numbers == fold) for fold in np.unique(numbers)])


def test_learn_with_folds_keeps_groups_together(prepared, tmp_path):
    folder, rows = prepared
    output = tmp_path / "all.knowledge"
    options = ["--label", "y", "--folds", "4", "--groups", "who", "--batch-rows", "70", "-o", output]
    result = json.loads(ok("learn", "day*.parquet", *options, "--json", cwd=folder))
    numbers = fold_numbers(rows)
    sizes = np.bincount(numbers, minlength=4).tolist()
    assert result["folds"] == {"by": "groups", "column": "who", "rows": sizes}
    assert (result["rows"], result["features"]) == (600, 3)
    assert pd.Series(numbers).groupby(rows["who"]).nunique().max() == 1
    found = ms.Folds.load(output)
    for fold in range(4):
        assert_same(found[fold], knowledge_of(rows[numbers == fold]))
        assert_same(found.train(fold), knowledge_of(rows[numbers != fold]))


@pytest.mark.xdist_group("mpi")
def test_two_ranks_learn_the_same_folds(prepared, tmp_path):
    folder, _ = prepared
    command = [BIN / "mpiexec", "-n", "2", BIN / "mergesvm", "learn", f"{folder}/day*.parquet", "--label", "y"]
    command += ["--folds", "4", "--groups", "who", "--engine", "mpi", "-o", tmp_path / "all.knowledge"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found, expected = ms.Folds.load(tmp_path / "all.knowledge"), ms.Folds.load(folder / "all.knowledge")
    assert found.assignment == expected.assignment
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)


def test_files_of_folds_merge_and_subtract_fold_by_fold(prepared, tmp_path):
    folder, rows = prepared
    numbers = fold_numbers(rows)
    ok("merge", "folds*.knowledge", "-o", tmp_path / "all.knowledge", cwd=folder)
    whole = ms.Folds.load(tmp_path / "all.knowledge")
    rest = tmp_path / "rest.knowledge"
    ok("subtract", tmp_path / "all.knowledge", "folds1.knowledge", "folds3.knowledge", "-o", rest, cwd=folder)
    left, second = ms.Folds.load(rest), np.isin(np.arange(600), np.arange(150, 350))
    for fold in range(4):
        assert_same(whole[fold], knowledge_of(rows[numbers == fold]))
        assert_same(left[fold], knowledge_of(rows[(numbers == fold) & second]))
    assert [(origin.source, origin.rows) for origin in whole.provenance] == [
        (str(folder / f"day{number}.parquet"), count) for number, count in ((1, 150), (2, 200), (3, 250))
    ]


def test_like_and_features_accept_files_of_folds(prepared, tmp_path):
    folder, _ = prepared
    options = ["--label", "y", "--folds", "4", "-o", tmp_path / "mapped.knowledge", "--features", "hidden:8", "--quiet"]
    ok("learn", "day1.parquet", *options, "--columns", "a,b,c", cwd=folder)
    mapped = tmp_path / "mapped.knowledge"
    ok("learn", "day2.parquet", "--label", "y", "--like", mapped, "-o", tmp_path / "like", cwd=folder)
    ok("learn", "day2.parquet", "--label", "y", "--features", mapped, "-o", tmp_path / "features", cwd=folder)
    expected = ms.Folds.load(mapped).signature.features
    for name in ("like", "features"):
        assert ms.Knowledge.load(tmp_path / name).features == expected


def test_files_of_folds_are_inspected_and_solved_as_all_rows(prepared, tmp_path):
    folder, rows = prepared
    sizes = np.bincount(fold_numbers(rows), minlength=4)
    shown = ok("inspect", "all.knowledge", cwd=folder)
    for part in ("600 rows in 3 classes", "4, by a hash of the group, column who"):
        assert part in shown
    for fold, count in enumerate(sizes):
        assert f"│ {fold:<4d} │  {count} │    {count / 600:.1%} │" in shown
    result = json.loads(ok("inspect", "all.knowledge", "--json", cwd=folder))
    assert (result["kind"], result["rows"], result["folds"]["rows"]) == ("folds", 600, sizes.tolist())
    assert [origin["rows"] for origin in result["provenance"]] == [150, 200, 250]
    ok("solve", "all.knowledge", "--C", "10", "-o", tmp_path / "model.msvm", cwd=folder)
    expected = ms.solve(knowledge_of(rows), C=10)
    np.testing.assert_allclose(ms.load_model(tmp_path / "model.msvm").coef_, expected.coef_, rtol=1e-9)
    ok("stream", "day1.parquet", "--label", "y", "--from", "all.knowledge", "--quiet", cwd=folder)


def test_auto_minimises_the_loss_of_refits_without_each_fold(prepared, tmp_path):
    folder, rows = prepared
    numbers, output = fold_numbers(rows), tmp_path / "model.msvm"
    options = ["--C", "auto", "--Cs", ",".join(map(str, CS)), "-o", output]
    result = json.loads(ok("solve", "all.knowledge", *options, "--json", cwd=folder))
    for C, row in zip(CS, result["candidates"], strict=True):
        loss = losses(rows, held_out(rows, numbers, C))
        expected = by_fold(numbers, lambda here, loss=loss: -loss[here].mean())
        np.testing.assert_allclose(row["scores"], expected, rtol=1e-9)
        np.testing.assert_allclose((row["score"], row["deviation"]), (expected.mean(), expected.std()), rtol=1e-8)
        assert (row["C"], row["class_weight"], row["multiclass"]) == (C, None, "ovr")
    best = max(result["candidates"], key=lambda row: row["score"])
    assert result["chosen"] == {"C": best["C"], "class_weight": None, "multiclass": "ovr"}
    assert (result["scoring"], result["how"], result["score"]) == ("neg_squared_loss", "exact", best["score"])
    model = ms.load_model(output)
    np.testing.assert_allclose(model.coef_, ms.solve(knowledge_of(rows), C=best["C"]).coef_, rtol=1e-9)
    assert model.domain.options["C"] == best["C"]


def test_auto_class_weights_minimise_the_balanced_loss(prepared, tmp_path):
    folder, rows = prepared
    numbers, y = fold_numbers(rows), rows["y"].to_numpy()
    options = ["--C", "1", "--class-weight", "auto", "-o", tmp_path / "model.msvm"]
    result = json.loads(ok("solve", "all.knowledge", *options, "--json", cwd=folder))
    assert (result["scoring"], result["edge"]) == ("neg_balanced_loss", None)
    for weighting, row in zip([None, "balanced"], result["candidates"], strict=True):
        scores = held_out(rows, numbers, 1.0, weighting)
        expected = [-balanced_loss(y[numbers == fold], scores[numbers == fold]) for fold in range(4)]
        assert row["class_weight"] == weighting
        np.testing.assert_allclose(row["scores"], expected, rtol=1e-9)
    assert result["chosen"]["class_weight"] == "balanced"
    assert ms.load_model(tmp_path / "model.msvm").domain.options["class_weight"] == "balanced"


@pytest.mark.parametrize(
    ("scoring", "score"), [("accuracy", accuracy_score), ("balanced_accuracy", balanced_accuracy_score)]
)
def test_scores_are_measured_with_data_and_estimated_without(scoring, score, prepared, tmp_path):
    folder, rows = prepared
    numbers, y = fold_numbers(rows), rows["y"].to_numpy()
    options = ["--C", "auto", "--Cs", ",".join(map(str, CS)), "--scoring", scoring, "-o", tmp_path / "model.msvm"]
    again = ["--data", "day1.parquet", "--data", "day[23].parquet", "--label", "y", "--batch-rows", "90"]
    result = json.loads(ok("solve", "all.knowledge", *options, *again, "--json", cwd=folder))
    assert (result["how"], result["measured_rows"], result["dropped"]) == ("measured", 600, 0)
    for C, row in zip(CS, result["candidates"], strict=True):
        predicted = CLASSES[held_out(rows, numbers, C).argmax(axis=1)]
        expected = by_fold(numbers, lambda here, predicted=predicted: score(y[here], predicted[here]))
        np.testing.assert_allclose(row["scores"], expected, rtol=1e-12)
    guessed = json.loads(ok("solve", "all.knowledge", *options, "--force", "--json", cwd=folder))
    assert guessed["how"] == "estimated"
    known = ms.validate(ms.Folds.load(folder / "all.knowledge"), Cs=CS, scoring=scoring)
    np.testing.assert_allclose([row["score"] for row in guessed["candidates"]], known.mean(), rtol=1e-12)


def test_several_pieces_are_held_out_in_turn(prepared, tmp_path):
    folder, rows = prepared
    days = np.repeat([0, 1, 2], [150, 200, 250])
    options = ["--C", "auto", "--Cs", "0.01,0.001", "-o", tmp_path / "model.msvm"]
    result = json.loads(ok("solve", "day*.knowledge", *options, "--json", cwd=folder))
    assert result["folds"] == [150, 200, 250]
    for C, row in zip([0.001, 0.01], result["candidates"], strict=True):
        loss = losses(rows, held_out(rows, days, C))
        np.testing.assert_allclose(row["scores"], by_fold(days, lambda here, loss=loss: -loss[here].mean()), rtol=1e-9)
    expected = ms.solve(knowledge_of(rows), C=result["chosen"]["C"])
    np.testing.assert_allclose(ms.load_model(tmp_path / "model.msvm").coef_, expected.coef_, rtol=1e-9)


def test_auto_multiclass_is_chosen_by_accuracy_printed_and_plotted(prepared, tmp_path):
    folder, _ = prepared
    terms = ["--C", "auto", "--class-weight", "auto", "--multiclass", "auto", "--Cs", "0.001,0.01,1"]
    picture = tmp_path / "path.png"
    shown = ok("solve", "all.knowledge", *terms, "-o", tmp_path / "m.msvm", "--picture", picture, cwd=folder)
    known = ms.validate(
        ms.Folds.load(folder / "all.knowledge"),
        Cs=[0.001, 0.01, 1],
        class_weights=[None, "balanced"],
        multiclass=["ovr", "ovo"],
        scoring="balanced_accuracy",
    )
    best = known.best
    assert f"Best of 12 candidates on held-out rows (4 folds): C={best.C:g}" in shown
    assert f"balanced_accuracy {known.best_score:.4f}" in shown
    assert "estimated from knowledge alone" in shown
    assert ms.load_model(tmp_path / "m.msvm").domain.options["multiclass"] == best.multiclass
    # The best candidates are there, and the best of each of the four settings.
    for row in np.argsort(-known.mean())[:5]:
        assert f" {known.mean()[row]:.4f} │" in shown
    for weighting in ("none", "balanced"):
        for scheme in ("one-vs-rest", "one-vs-one"):
            assert any(weighting in line and scheme in line for line in shown.splitlines() if line.startswith("│"))
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_c_chosen_at_the_edge_of_the_grid_is_a_warning(prepared, tmp_path):
    folder, _ = prepared
    options = ["--C", "auto", "--force", "-o", tmp_path / "m.msvm"]
    low = ok("solve", "all.knowledge", *options, "--Cs", "1e-5,1e-4", cwd=folder)
    assert "Warning: 0.0001 is the largest C tried" in low
    assert "Try larger values" in low
    plain = ok("solve", "all.knowledge", *options, cwd=folder)
    assert "Warning" not in plain


def test_two_classes_have_one_multiclass_scheme(prepared, tmp_path):
    _, rows = prepared
    two = rows[rows["y"] != "middle"]
    ms.learn(two[COLUMNS], two["y"], folds=3).save(tmp_path / "two.knowledge")
    options = ["--C", "auto", "--multiclass", "auto", "--class-weight", "low=2,high=1", "-o", "m.msvm", "--json"]
    result = json.loads(ok("solve", "two.knowledge", *options, cwd=tmp_path))
    assert len(result["candidates"]) == 25
    assert result["scoring"] == "neg_balanced_loss"
    assert result["chosen"]["class_weight"] == {"low": 2.0, "high": 1.0}


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["learn", "day1.parquet", "--label", "y", "--folds", "4", "--pooled"], "which --pooled does not keep"),
        (["learn", "day1.parquet", "--label", "y", "--groups", "who"], "groups needs a number of folds"),
        (["learn", "day1.parquet", "--label", "y", "--folds", "1"], "from 2 to 1,000, not 1"),
        (
            ["solve", "all.knowledge", "--C", "auto", "--data", "day1.parquet", "--label", "y"],
            "Give the rows, weights, groups or folds that were learned",
        ),
        (["learn", "day1.parquet", "--label", "y", "--folds", "4", "--groups", "z"], "there is no column 'z'"),
        (
            ["merge", "folds1.knowledge", "day1.knowledge"],
            "folds1.knowledge has folds and day1.knowledge has none",
        ),
        (["merge", "day1.knowledge", "folds2.knowledge"], "Learn both with the same --folds, or both without"),
        (["merge", "folds1.knowledge", "three.knowledge"], "three.knowledge does not match folds1.knowledge. Cannot"),
        (["merge", "folds1.knowledge", "model.msvm"], "model.msvm holds a model, not knowledge"),
        (["subtract", "all.knowledge", "day1.knowledge"], "Learn both with the same --folds"),
        (["subtract", "folds1.knowledge", "all.knowledge"], "Cannot subtract all.knowledge from folds1.knowledge."),
        (["solve", "day1.knowledge", "--C", "auto"], "day1.knowledge has no folds"),
        (["solve", "day1.knowledge", "day2.knowledge"], "2 files were given, but only one can be solved"),
        (["solve", "folds1.knowledge", "folds2.knowledge", "--C", "auto"], "Add them first with mergesvm merge"),
        (["solve", "all.knowledge", "day1.knowledge", "--C", "auto"], "cannot be combined"),
        (["solve", "pooled1.knowledge", "pooled2.knowledge", "--C", "auto"], "Folds need the sums of every class"),
        (["solve", "model.msvm", "--C", "auto"], "holds a model, not knowledge"),
        (["solve", "all.knowledge", "--C", "many"], "--C must be a number, not 'many'"),
        (["solve", "all.knowledge", "--C", "auto", "--Cs", "1,x"], "--Cs must be a number, not 'x'"),
        (["solve", "all.knowledge", "--C", "auto", "--Cs", "1,-1"], "Each of Cs must be a positive number"),
        (["solve", "all.knowledge", "--Cs", "1,2"], "--Cs applies only to choosing options: add --C auto"),
        (["solve", "all.knowledge", "--class-weight", "auto", "--Cs", "1,2"], "--Cs lists values for --C auto"),
        (["solve", "all.knowledge", "--label", "y"], "--data applies only to choosing options"),
        (
            ["solve", "all.knowledge", "--C", "auto", "--label", "y"],
            "name the files that were learned from",
        ),
        (["solve", "all.knowledge", "--C", "auto", "--scoring", "beauty"], "scoring must be one or more of"),
        (
            ["solve", "all.knowledge", "--multiclass", "auto", "--scoring", "neg_squared_loss"],
            "cannot compare one-vs-rest with one-vs-one",
        ),
        (
            ["solve", "all.knowledge", "--C", "auto", "--scoring", "neg_squared_loss", "--data", "day1.parquet"],
            "exactly without data. Omit --data",
        ),
        (["solve", "all.knowledge", "--C", "auto", "--data", "day1.parquet"], "day1.parquet has no labels"),
        (
            ["solve", "day1.knowledge", "day2.knowledge", "--C", "auto", "--data", "day1.parquet", "--label", "y"],
            "it is unknown which rows belong to which fold",
        ),
        (["solve", "all.knowledge", "--C", "auto", "--picture", "path.gif"], "must end in .png"),
        (["predict", "all.knowledge", "day1.parquet"], "mergesvm solve"),
    ],
)
def test_invalid_input_is_one_error_and_writes_nothing(arguments, what, prepared, tmp_path):
    folder, rows = prepared
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    ms.learn(rows[COLUMNS], rows["y"], folds=3).save(tmp_path / "three.knowledge")
    ms.solve(knowledge_of(rows)).save(tmp_path / "model.msvm")
    for number in (1, 2):
        ms.learn(rows[COLUMNS], rows["y"], per_class=False).save(tmp_path / f"pooled{number}.knowledge")
    output = tmp_path / "out.parquet"
    message = error(*arguments, "-o", output, cwd=tmp_path)
    assert message.startswith("Error: ")
    assert what in message
    assert not output.exists()


def test_warnings_have_no_source_location_and_quiet_hides_them(tmp_path):
    rows = pd.DataFrame({"a": np.arange(40.0), "y": ["common"] * 39 + ["rare"]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    command = [sys.executable, "-c", "from mergesvm.cli.main import main; main()"]

    def run(*arguments):
        return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=tmp_path, check=True).stderr

    run("learn", "rows.csv", "--label", "y", "--folds", "5", "-o", "folds.knowledge", "--quiet")
    result = run("solve", "folds.knowledge", "--C", "auto", "-o", "model.msvm")
    assert result.startswith("Warning: All rows of class 'rare' are in fold ")
    assert ".py" not in result
    assert run("solve", "folds.knowledge", "--C", "auto", "-o", "other.msvm", "--quiet") == ""
    page = json.loads(
        subprocess.run(
            [*command, "report", "folds.knowledge", "-o", "page.html", "--json"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=True,
        ).stdout
    )
    assert any("All rows of class 'rare' are in one fold" in remark for remark in page["remarks"])
