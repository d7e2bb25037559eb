"""Reports of knowledge: numbers against refits on the rows, and pages with hostile names."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

import mergesvm as ms
from cli.commandline import error, ok, run
from mergesvm.methods.proximal.path import DEFAULT_CS
from mergesvm.reports.answers import MAX_OPERATIONS
from mergesvm.reports.formatting import plain
from reports.pages import HOSTILE, Page, assert_self_contained


@pytest.fixture
def report(tmp_path):
    """Run the report command: its JSON and its page, or its error."""

    def run_report(*arguments, code=0):
        output = tmp_path / "report.html"
        done = run("report", *arguments, "-o", output, "--json", "--force")
        assert done.returncode == code, done.stderr
        if code:
            assert not output.exists()
            return done.stderr
        text = output.read_text()
        assert [path.name for path in tmp_path.glob("*report*")] == ["report.html"]
        return json.loads(done.stdout), text

    return run_report


def iris_pieces(folder, count=5):
    """Save Iris as pieces of knowledge; return the rows and labels of each."""
    data, order = load_iris(), np.random.default_rng(3).permutation(150)
    pieces = []
    for number, at in enumerate(np.array_split(order, count)):
        X, y = data.data[at], data.target_names[data.target[at]].astype(object)
        ms.learn(X, y, feature_names=data.feature_names).save(folder / f"node {number}.knowledge")
        pieces.append((X, y))
    return pieces


def cancer_pieces(folder, count=4):
    data, order = load_breast_cancer(), np.random.default_rng(4).permutation(569)
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    pieces = []
    for number, at in enumerate(np.array_split(order, count)):
        ms.learn(X[at, :6], data.target[at]).save(folder / f"clinic{number}.knowledge")
        pieces.append((X[at, :6], data.target[at]))
    return pieces


def stacked(pieces, without=None):
    kept = [piece for number, piece in enumerate(pieces) if number != without]
    return np.concatenate([X for X, _ in kept]), np.concatenate([y for _, y in kept])


def refit(X, y, labels, C, balanced=False):
    """One-vs-rest coefficients and intercepts by the normal equations."""
    E = np.column_stack([X, np.ones(len(X))])
    hyperplanes = []
    for label in labels if len(labels) > 2 else labels[1:]:
        t = np.where(y == label, 1.0, -1.0)
        omega = np.where(t > 0, len(t) / (2 * (t > 0).sum()), len(t) / (2 * (t < 0).sum())) if balanced else 1.0
        E_omega = E * np.broadcast_to(omega, len(t))[:, None]
        hyperplanes.append(np.linalg.solve(np.eye(E.shape[1]) / C + E.T @ E_omega, E_omega.T @ t))
    return np.array(hyperplanes)


def loss(hyperplanes, X, y, labels):
    scores = np.column_stack([X, np.ones(len(X))]) @ hyperplanes.T
    wanted = labels if len(labels) > 2 else labels[1:]
    signs = np.column_stack([np.where(y == label, 1.0, -1.0) for label in wanted])
    return float(((1 - signs * scores) ** 2).mean())


def test_held_out_loss_and_chosen_c_equal_refits_on_the_rows(report, tmp_path):
    folder = tmp_path / "nodes"
    folder.mkdir()
    pieces = iris_pieces(folder)
    result, text = report(folder)
    labels = ["setosa", "versicolor", "virginica"]

    def held_out(C, balanced=False):
        folds = range(len(pieces))
        models = [refit(*stacked(pieces, fold), labels, C, balanced) for fold in folds]
        return np.mean([loss(models[fold], *pieces[fold], labels) for fold in folds])

    losses = [held_out(C) for C in DEFAULT_CS]
    assert result["C"] == pytest.approx(DEFAULT_CS[int(np.argmin(losses))])
    assert result["estimates"]["loss"] == pytest.approx(min(losses), rel=1e-8)
    found = {(row["C"], row["class_weight"]): -row["neg_squared_loss"] for row in result["path"]}
    assert len(found) == 50
    for at in (4, 12, 20):
        C = float(DEFAULT_CS[at])
        assert found[C, None] == pytest.approx(losses[at], rel=1e-8)
        assert found[C, "balanced"] == pytest.approx(held_out(C, balanced=True), rel=1e-8)
    assert result["held_out"] == "5 pieces, each in turn"
    assert result["how"] == "by the least held-out squared loss"
    assert f"{min(losses):.4f}" in Page(text).texts


def test_estimates_of_two_classes_equal_the_formulas_for_normal_scores(report, tmp_path):
    folder = tmp_path / "clinics"
    folder.mkdir()
    pieces = cancer_pieces(folder)
    result, text = report(folder / "*.knowledge", "--C", "0.5")
    recalls, accuracies, aucs = [], [], []
    for fold, (X, y) in enumerate(pieces):
        (plane,) = refit(*stacked(pieces, fold), [0, 1], 0.5)
        scores = X @ plane[:-1] + plane[-1]
        (low, narrow), (high, wide) = [(scores[y == c].mean(), scores[y == c].std()) for c in (0, 1)]
        recall = np.array([norm.cdf(-low / narrow), norm.cdf(high / wide)])
        recalls.append(recall * [(y == 0).sum(), (y == 1).sum()])
        accuracies.append(recalls[-1].sum() / len(y))
        aucs.append(norm.cdf((high - low) / np.hypot(narrow, wide)))
    assert (result["C"], result["how"]) == (0.5, "as given")
    estimates = result["estimates"]
    assert estimates["accuracy"] == pytest.approx(np.mean(accuracies), rel=1e-8)
    assert estimates["deviations"]["accuracy"] == pytest.approx(np.std(accuracies), rel=1e-8)
    assert estimates["auc"] == pytest.approx(np.mean(aucs), rel=1e-8)
    pooled = np.sum(recalls, axis=0) / [(stacked(pieces)[1] == c).sum() for c in (0, 1)]
    np.testing.assert_allclose([row["recall"] for row in estimates["recalls"]], pooled, rtol=1e-8)
    shown = Page(text).texts
    for number in (f"{np.mean(accuracies):.1%}", f"{np.mean(aucs):.3f}", *(f"{recall:.1%}" for recall in pooled)):
        assert number in shown


def test_operating_points_equal_the_formulas_for_normal_scores(report, tmp_path):
    folder = tmp_path / "clinic"
    folder.mkdir()
    (piece,) = cancer_pieces(folder, count=1)
    result, text = report(folder / "clinic0.knowledge")
    (plane,) = refit(*piece, [0, 1], 1.0)
    scores, y = piece[0] @ plane[:-1] + plane[-1], piece[1]
    threshold = norm.ppf(0.1, scores[y == 1].mean(), scores[y == 1].std())
    points = {point["wanted"]: point for point in result["curve"]["points"]}
    assert points["recall 90 %"]["threshold"] == pytest.approx(threshold, rel=1e-8)
    false = norm.sf(threshold, scores[y == 0].mean(), scores[y == 0].std())
    assert points["recall 90 %"]["false_positive_rate"] == pytest.approx(false, rel=1e-6)
    assert points["false positives 1 %"]["false_positive_rate"] == pytest.approx(0.01, rel=1e-8)
    assert result["how"] == "by default"
    assert result["estimates"]["on"] == "the rows learned from"
    assert result["estimates"]["loss"] == pytest.approx(loss(plane[None], *piece, [0, 1]), rel=1e-8)
    assert {"path", "influence", "drift"} == set(result["missing"])
    assert "--folds 5" in result["missing"]["path"]
    assert "in sample" in text
    assert f"{points['recall 90 %']['threshold']:.4g}" in Page(text).texts


def test_influence_drift_and_coefficients_equal_refits_on_the_rows(report, tmp_path):
    folder = tmp_path / "clinics"
    folder.mkdir()
    pieces = cancer_pieces(folder, count=6)
    X, y = pieces[2][0] + [0, 0, 4.0, 0, 0, 0], 1 - pieces[2][1]
    pieces[2] = X, y
    ms.learn(X, y).save(folder / "clinic2.knowledge")
    result, text = report(folder, "--C", "1")
    worst = result["influence"][0]
    assert worst["piece"] == "clinic2"
    others = stacked(pieces, 2)
    with_it, without = (loss(refit(*rows, [0, 1], 1.0), *others, [0, 1]) for rows in (stacked(pieces), others))
    assert worst["relative_loss_reduction"] == pytest.approx((with_it - without) / with_it, rel=1e-8)
    assert f"{(with_it - without) / with_it:.2%}" in Page(text).texts
    assert result["drift"]["drifted"][0] == "clinic2"
    furthest = result["drift"]["classes"][0]
    mine, rest = X[y == furthest["class"]], others[0][others[1] == furthest["class"]]
    scatter = sum((rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0)) for rows in (mine, rest))
    gap = mine.mean(axis=0) - rest.mean(axis=0)
    distance = np.sqrt(gap @ np.linalg.solve(scatter / (len(mine) + len(rest) - 2), gap))
    assert furthest["distance"] == pytest.approx(distance, rel=1e-8)
    every = stacked(pieces)
    sizes = np.abs(refit(*every, [0, 1], 1.0)[0, :-1] * every[0].std(axis=0))
    largest = result["importance"][0]
    assert largest["feature"] == f"column {sizes.argmax()}"
    assert largest["importance"] == pytest.approx(sizes.max(), rel=1e-8)
    assert "<b>" in text


def test_folds_of_several_files_are_added(report, tmp_path):
    data = load_iris()
    whole = ms.learn(data.data, data.target, feature_names=data.feature_names, folds=4)
    whole.save(tmp_path / "whole.knowledge")
    (tmp_path / "halves").mkdir()
    for half in range(2):
        some = slice(half, None, 2)
        part = ms.learn(data.data[some], data.target[some], feature_names=data.feature_names, folds=4)
        part.save(tmp_path / "halves" / f"{half}.knowledge")
    one, _ = report(tmp_path / "whole.knowledge")
    two, text = report(tmp_path / "halves")
    for key in ("C", "held_out", "rows"):
        assert one[key] == two[key]
    for name in ("loss", "accuracy", "log_loss"):
        assert one["estimates"][name] == pytest.approx(two["estimates"][name], rel=1e-8)
    assert [row["loss"] for row in one["elimination"]["steps"]] == pytest.approx(
        [row["loss"] for row in two["elimination"]["steps"]], rel=1e-8
    )
    validation = ms.validate(whole, Cs=[one["C"]], scoring=["neg_squared_loss", "accuracy", "neg_log_loss"])
    assert one["estimates"]["log_loss"] == pytest.approx(-validation.mean("neg_log_loss")[0], rel=1e-8)
    assert "influence" in two
    assert "influence" not in one
    assert "petal width (cm)" in Page(text).texts


def test_many_pieces_are_held_out_in_groups_and_the_worst_are_shown(report, tmp_path):
    X, y = load_digits(return_X_y=True)
    names = [f"node{number:02d}" for number in range(55)]
    for number, name in enumerate(names):
        ms.learn(X[number::55, 20:28], y[number::55] % 2).save(tmp_path / f"{name}.knowledge")
    result, text = report(tmp_path)
    assert result["held_out"] == "55 pieces, in 10 groups"
    assert len(result["influence"]) == 55
    groups = ms.Folds(
        [ms.merge([ms.learn(X[n::55, 20:28], y[n::55] % 2) for n in range(g, 55, 10)]) for g in range(10)]
    )
    assert result["estimates"]["loss"] == pytest.approx(-ms.validate(groups, Cs=[result["C"]]).best_score, rel=1e-8)
    shown = [row for row in re.findall(r"<tr>.*?</tr>", text) if "node" in row]
    assert len(shown) == 100
    assert "the 50 largest of 55" in text
    assert "The 50 worst of 110 classes of pieces" in text
    assert len(text) < 400_000


@pytest.mark.parametrize(
    ("options", "terms"),
    [
        (["--class-weight", "auto"], {"class_weights": [None, "balanced"], "scoring": "neg_balanced_loss"}),
        (["--class-weight", "balanced"], {"class_weights": "balanced", "scoring": "neg_balanced_loss"}),
        (["--class-weight", "inverse"], {"class_weights": "inverse", "scoring": "neg_balanced_loss"}),
        (["--multiclass", "ovo", "--standardize"], {"multiclass": "ovo", "standardize": True}),
        (["--free-intercept"], {"penalize_intercept": False}),
    ],
)
def test_chosen_options_equal_validate(options, terms, report, tmp_path):
    data = load_iris()
    folds = ms.learn(data.data[:130], data.target[:130], folds=3)
    folds.save(tmp_path / "iris.knowledge")
    result, text = report(tmp_path / "iris.knowledge", *options)
    best = ms.validate(folds, **terms).best
    assert result["C"] == pytest.approx(best.C)
    assert (result["class_weight"], result["multiclass"]) == (best.class_weight, best.multiclass)
    Page(text)


@pytest.mark.parametrize("two", [False, True])
def test_hostile_labels_feature_names_and_file_names_are_escaped(two, report, tmp_path):
    generator = np.random.default_rng(0)
    labels = [name.replace("\ud800", "") for name in (HOSTILE[:2] if two else HOSTILE[:8])]
    names = [name.replace("\ud800", "") or "empty" for name in HOSTILE]
    folder = tmp_path / "<b>"
    folder.mkdir()
    for at, name in enumerate(("<img src=x onerror=alert(1)>", '" onload="x', "ordinary")):
        X, y = generator.normal(size=(160, len(names))), np.array(labels, dtype=object)[np.arange(160) % len(labels)]
        ms.learn(X + at, y, feature_names=names).save(folder / f"{name}.knowledge")
    _, text = report(folder)
    page = assert_self_contained(text)
    assert not re.search("[\x00-\x08\u202e\ud800]", text)
    shown = "".join(page.texts)
    for label in labels:
        assert plain(label, 32) in shown
        assert plain(label) in page.values("title")


def test_pages_of_pooled_knowledge_list_missing_answers_and_reasons(report, tmp_path):
    data = load_iris()
    for number in range(3):
        some = slice(number, None, 3)
        ms.learn(data.data[some], data.target[some], per_class=False).save(tmp_path / f"{number}.knowledge")
    result, text = report(tmp_path)
    assert_self_contained(text)
    assert {"path", "drift"} <= set(result["missing"])
    assert "pooled" in result["missing"]["path"]
    assert len(result["influence"]) == 3
    assert result["elimination"]["best"] is None
    assert result["missing"]["drift"] in Page(text).texts
    total = ms.learn(data.data, data.target, per_class=False)
    expected = ms.expected(ms.solve(total), total)
    assert result["estimates"]["accuracy"] == pytest.approx(expected.accuracy, abs=2e-3)


def test_one_class_one_piece_and_one_feature_are_reasons(report, tmp_path):
    generator = np.random.default_rng(0)
    for number in range(2):
        ms.learn(generator.normal(size=(40, 2)), ["only"] * 40).save(tmp_path / f"{number}.knowledge")
    result, text = report(tmp_path)
    assert_self_contained(text)
    assert "only one class, 'only'" in result["missing"]["path"]
    assert (result["C"], len(result["drift"]["classes"])) == (None, 2)
    result, text = report(tmp_path / "0.knowledge")
    assert_self_contained(text)
    assert "only one piece" in result["missing"]["drift"]
    ms.learn([[0.0], [1.0], [2.0], [3.5]], [0, 0, 1, 1]).save(tmp_path / "narrow.knowledge")
    result, text = report(tmp_path / "narrow.knowledge")
    assert_self_contained(text)
    assert result["missing"]["elimination"] == "There is only one feature."


def test_pieces_that_lack_classes_or_rows_are_reported(report, tmp_path):
    X, y = load_iris(return_X_y=True)
    ms.learn(X[:50], y[:50]).save(tmp_path / "first.knowledge")
    ms.learn(X[50:], y[50:]).save(tmp_path / "others.knowledge")
    some = ms.learn(X[::3], y[::3])
    some.save(tmp_path / "some.knowledge")
    (some - some).save(tmp_path / "none.knowledge")
    result, text = report(tmp_path)
    assert_self_contained(text)
    assert result["rows"] == 200
    assert result["held_out"] == "3 pieces, each in turn"
    result, text = report(tmp_path / "first.knowledge", tmp_path / "others.knowledge")
    assert_self_contained(text)
    assert [row["note"] for row in result["influence"]] == [
        "all rows of class 0 are in this piece: no model without it",
        "all rows of class 1, 2 are in this piece: no model without it",
    ]
    assert "No class is in two folds or pieces" in result["missing"]["path"]
    assert result["estimates"]["on"] == "the rows learned from"
    assert result["estimates"]["loss"] is not None


def test_slow_parts_are_left_out_with_a_remark(report, tmp_path, monkeypatch):
    X, y = load_digits(return_X_y=True)
    ms.learn(X[:, 20:40], y, folds=3).save(tmp_path / "digits.knowledge")
    for name in MAX_OPERATIONS:
        monkeypatch.setitem(MAX_OPERATIONS, name, 1.0)
    result, text = report(tmp_path / "digits.knowledge")
    assert_self_contained(text)
    assert {row["class_weight"] for row in result["path"]} == {None}
    assert "accuracy" not in result["path"][0]
    assert "too long with 20 features" in result["missing"]["elimination"]
    assert ["constant" in remark for remark in result["remarks"]] == [True, False, False]
    monkeypatch.setitem(MAX_OPERATIONS, "elimination", 2.1 * 3.5 * 20**3)
    result, text = report(tmp_path / "digits.knowledge")
    assert any("scored on 1 fold of 3" in remark for remark in result["remarks"])
    assert "scored on 1 fold of 3" in text


def test_rows_in_two_pieces_are_refused(report, tmp_path):
    X, y = load_iris(return_X_y=True)
    day, other = ms.learn(X, y), ms.learn(X + 1, y)
    for name, piece in {"all": day + other, "day": day}.items():
        piece.save(tmp_path / f"{name}.knowledge")
    assert "all and day both contain rows in memory (id" in report(tmp_path, code=2)


def test_rows_without_ids_in_two_pieces_are_a_warning(report, tmp_path):
    X, y = load_iris(return_X_y=True)
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_csv(tmp_path / "day.csv", index=False)
    source = ms.scan(str(tmp_path / "day.csv"), label="y")
    day, other = ms.learn(source), ms.learn(pd.DataFrame(X + 1, columns=list("abcd")), y)
    day = replace(day, provenance=(day.provenance[0]._replace(id=None),))
    day.save(tmp_path / "day.knowledge")
    (day + other).save(tmp_path / "all.knowledge")
    result, text = report(tmp_path)
    assert "all and day were both learned from" in result["remarks"][0]
    assert "its rows count twice" in text
    printed = ok("report", tmp_path, "-o", tmp_path / "printed.html")
    assert "its rows count twice" in printed
    assert "largest loss reduction without" in printed
    assert "C=" in printed


def test_invalid_input_is_rejected(report, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no *.knowledge file in the folder" in report(empty, code=2)
    assert "No file matches" in report(tmp_path / "x*.knowledge", code=2)
    assert "nowhere" in report(tmp_path / "nowhere.knowledge", code=2)
    one, other = ms.learn([[0.0], [1.0]], ["a", "b"]), ms.learn([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    one.save(tmp_path / "one.knowledge")
    other.save(tmp_path / "other.knowledge")
    assert "other.knowledge does not match" in report(tmp_path, code=2)
    ms.learn(np.arange(8.0)[:, None], list("abababab"), folds=2).save(tmp_path / "two.folds")
    ms.learn(np.arange(8.0)[:, None], list("abababab"), folds=4).save(tmp_path / "four.folds")
    assert "cannot be combined" in report(tmp_path / "one.knowledge", tmp_path / "two.folds", code=2)
    assert "four.folds does not match" in report(tmp_path / "two.folds", tmp_path / "four.folds", code=2)
    ms.solve(one).save(tmp_path / "model.msvm")
    assert "model.msvm" in report(tmp_path / "model.msvm", code=2)
    (one - one).save(tmp_path / "none.knowledge")
    assert "contains no rows" in report(tmp_path / "none.knowledge", code=2)
    assert "named twice" in report(tmp_path / "one.knowledge", tmp_path / "one.knowledge", code=2)
    for option, value, message in (
        ("--C", "-1", "C must be a positive number"),
        ("--C", "much", "--C must be a number"),
        ("--level", "2", "level must be between 0 and 1"),
        ("--class-weight", "heavy", "heavy"),
        ("--class-weight", "z=2", "no class 'z'"),
        ("--multiclass", "auto", "multiclass must be"),
    ):
        assert message in report(tmp_path / "one.knowledge", option, value, code=2)


def test_existing_pages_are_not_overwritten_without_force(tmp_path):
    ms.learn([[0.0], [1.0]], ["a", "b"]).save(tmp_path / "one.knowledge")
    (tmp_path / "page.html").write_text("mine")
    for name, message in (
        ("page.html", "already exists"),
        ("page.pdf", "must end in .html"),
        ("x/p.html", "no folder"),
    ):
        assert message in error("report", tmp_path / "one.knowledge", "-o", tmp_path / name)
    assert (tmp_path / "page.html").read_text() == "mine"


def test_too_many_pairs_of_classes_leave_out_accuracy_only(report, tmp_path):
    generator = np.random.default_rng(5)
    y = np.arange(780) % 26
    X = generator.normal(size=(26, 5))[y] + generator.normal(size=(780, 5))
    ms.learn(X, y, folds=3).save(tmp_path / "letters.knowledge")
    result, page = report(tmp_path / "letters.knowledge", "--multiclass", "ovo", "--C", "1")
    assert result["estimates"]["accuracy"] is None
    found = ms.validate(ms.learn(X, y, folds=3), Cs=[1.0], multiclass="ovo", scoring=["neg_squared_loss", "roc_auc"])
    assert result["estimates"]["loss"] == pytest.approx(-found.mean("neg_squared_loss")[0], rel=1e-9)
    assert result["estimates"]["auc"] == pytest.approx(found.mean("roc_auc")[0], rel=1e-9)
    assert any("too many pairs of classes" in remark for remark in result["remarks"])
    assert "too many pairs of classes" in page


def test_a_c_at_the_edge_of_the_grid_is_a_remark(report, tmp_path):
    X, y = load_wine(return_X_y=True)
    ms.learn(X, y, folds=5).save(tmp_path / "wine.knowledge")
    result, page = report(tmp_path / "wine.knowledge")
    assert any("1e+06 is the largest C tried" in remark for remark in result["remarks"])
    assert "largest C tried" in page
    result, _ = report(tmp_path / "wine.knowledge", "--C", "1e6")
    assert not result["remarks"]
