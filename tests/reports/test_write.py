"""Reports written from Python: pages and JSON, from knowledge, folds, pieces and evaluations."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris

import mergesvm as ms
from mergesvm.errors import ParameterError
from reports.pages import Page


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def test_pieces_in_a_mapping_or_a_sequence_give_the_same_numbers(iris, tmp_path):
    X, y = iris
    pieces = [ms.learn(X[at::3], y[at::3]) for at in range(3)]
    named = ms.report({f"day {at}": piece for at, piece in enumerate(pieces)}, tmp_path / "named.html")
    listed = ms.report(pieces, str(tmp_path / "listed.html"), title="A <title>")
    assert named.estimates.means == listed.estimates.means
    assert list(named.subject.pieces) == ["day 0", "day 1", "day 2"]
    assert "<title>A &lt;title&gt;</title>" in (tmp_path / "listed.html").read_text()
    Page((tmp_path / "named.html").read_text())


def test_a_path_that_ends_in_json_gets_the_numbers_of_the_page(iris, tmp_path):
    X, y = iris
    folds = ms.learn(X, y, folds=3)
    answers = ms.report(folds, tmp_path / "iris.json", C=2.0, class_weight="balanced", multiclass="ovo")
    found = json.loads((tmp_path / "iris.json").read_text())
    assert (found["C"], found["class_weight"], found["multiclass"]) == (2.0, "balanced", "ovo")
    assert found["held_out"] == answers.held_out == "3 folds"
    expected = ms.validate(folds, Cs=[2.0], class_weights="balanced", multiclass="ovo")
    assert found["estimates"]["loss"] == pytest.approx(-expected.best_score, rel=1e-9)


def test_progress_rises_to_the_end(iris, tmp_path):
    seen = []
    ms.report(ms.learn(*iris, folds=3), tmp_path / "iris.html", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[0] == 0.0


def test_an_evaluation_writes_its_own_report(iris, tmp_path):
    X, y = iris
    model = ms.MergeSVC(C=10.0).fit(X[:100], y[:100])
    evaluation = ms.evaluate(model, X[100:], y[100:])
    assert evaluation.accuracy == model.score(X[100:], y[100:])
    evaluation.report(tmp_path / "iris.html", title="Iris", facts={"Data": "held-out rows"})
    page = Page((tmp_path / "iris.html").read_text())
    for text in ("Iris", "held-out rows", "10", "one-vs-rest", "100 rows"):
        assert text in page.texts
    evaluation.report(tmp_path / "iris.json")
    assert json.loads((tmp_path / "iris.json").read_text())["accuracy"] == evaluation.accuracy


def test_evaluations_that_were_added_are_reported(iris, tmp_path):
    X, y = iris
    model = ms.solve(ms.learn(X[:100], y[:100]))
    total = ms.evaluate(model, X[100:120], y[100:120]) + ms.evaluate(model, X[120:], y[120:])
    assert ms.report(total, tmp_path / "total.html") is None
    assert "50" in Page((tmp_path / "total.html").read_text()).texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 2.0}, "level must be between 0 and 1, not 2"),
        ({"C": -1.0}, "C must be a positive number"),
        ({"multiclass": "auto"}, "multiclass must be"),
    ],
)
def test_invalid_options_are_rejected_and_nothing_is_written(options, message, iris, tmp_path):
    with pytest.raises(ParameterError, match=message):
        ms.report(ms.learn(*iris), tmp_path / "iris.html", **options)
    assert not list(tmp_path.iterdir())


def test_unknown_extensions_are_rejected_before_the_work(iris, tmp_path):
    with pytest.raises(ParameterError, match=r"iris\.pdf must end in \.html or \.htm or \.json"):
        ms.report(ms.learn(*iris), tmp_path / "iris.pdf")


def test_objects_other_than_knowledge_are_rejected(tmp_path):
    with pytest.raises(TypeError, match="knowledge"):
        ms.report([1, 2], tmp_path / "x.html")
