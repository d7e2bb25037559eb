"""Folds in files: exact round trips, and errors for invalid content."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import mergesvm as ms
from knowledge.test_folds import X, Y, assert_same, rows
from mergesvm.errors import InvalidContentError, InvalidHeaderError, WrongKindError
from mergesvm.files import container
from mergesvm.files.container import read_container
from mergesvm.knowledge.fold_assignment import FoldAssignment


def made(name):
    X, y, weights = rows(200, offset=1e6)
    return {
        "rows": lambda: ms.learn(X, y, weights, folds=5),
        "numpy": lambda: ms.learn(X, y, folds=np.int64(5)),
        "given": lambda: ms.learn(X, y, folds=np.where(y == "cow", 3, np.arange(len(y)) % 3 - 1)),
        "groups": lambda: ms.Folds(ms.learn(X, y, folds=2).parts, assignment=FoldAssignment(2, "groups", "who")),
        "sums": lambda: ms.subtract(
            ms.learn(X, y, folds=5) + ms.learn(X + 100, y, folds=5), ms.learn(X[:50], y[:50], folds=5), force=True
        ),
        "days": lambda: ms.Folds([ms.learn(X + 1e5 * day, y) for day in range(3)]),
        "joined": lambda: ms.learn(X, y, folds=np.where(y == "cow", 1, 0)).join({1: ["ape", "bee"], 2: ["cow"]}),
        "float32": lambda: ms.learn(np.tile(X, 20), y, folds=3, precision="float32"),
        "mapped": lambda: ms.learn(X, y, folds=3, features=ms.features.Fourier(8).freeze(X)),
        "bits": lambda: ms.learn(X, y == "cow", folds=3, feature_names=list("abcde")),
        "nothing": lambda: ms.learn(X, y, np.zeros(len(X)), folds=3),
    }[name]()


@pytest.mark.parametrize(
    "name",
    ["rows", "numpy", "given", "groups", "sums", "days", "joined", "float32", "mapped", "bits", "nothing"],
)
def test_saving_and_loading_is_exact(name, tmp_path):
    folds = made(name)
    folds.save(tmp_path / "k")
    assert_same(ms.Folds.load(tmp_path / "k"), folds)
    assert_same(pickle.loads(pickle.dumps(folds)), folds)


def test_a_pickle_does_not_contain_the_total():
    folds = made("rows")
    before = len(pickle.dumps(folds))
    folds.train(0)
    assert len(pickle.dumps(folds)) == before


def test_loading_another_kind_of_file_names_the_right_function(tmp_path):
    folds = made("rows")
    folds.save(tmp_path / "folds")
    folds.total.save(tmp_path / "knowledge")
    ms.solve(folds.total).save(tmp_path / "model")
    with pytest.raises(WrongKindError, match=r"holds knowledge of folds\. Load it with ms\.Folds\.load"):
        ms.Knowledge.load(tmp_path / "folds")
    with pytest.raises(WrongKindError, match=r"without folds\. Load it with ms\.Knowledge\.load, or learn .* folds=5"):
        ms.Folds.load(tmp_path / "knowledge")
    with pytest.raises(WrongKindError, match="holds a model"):
        ms.Folds.load(tmp_path / "model")
    for load in (ms.load_model, ms.features.load):
        with pytest.raises(WrongKindError, match=r"holds knowledge of folds.*ms\.Folds\.load"):
            load(tmp_path / "folds")


def forged(path, fields=None, **arrays):
    """Rewrite a file with other fields and arrays and a valid digest."""
    header, held = read_container(path, "folds")
    header, held = header.fields | (fields or {}), held | arrays
    container.write_container(path, "folds", header, {k: v for k, v in held.items() if v is not None}, lambda *_: None)


RULE = {"count": 3, "by": "rows", "column": None}


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ([], "not have exactly one rule"),
        ([RULE, RULE], "not have exactly one rule"),
        ([RULE | {"count": 1}], "from 2 to 1,000, not 1"),
        ([RULE | {"count": 1001}], "not 1001"),
        ([RULE | {"count": 2.0}], "where int is expected"),
        ([RULE | {"by": "luck"}], "'luck' in field 'by', not one of 'rows', 'groups', 'given'"),
        ([RULE | {"column": 3}], "3 in field 'column'"),
        ([RULE | {"column": "who"}], "a column of groups for folds by rows"),
        ([{"count": 3, "by": "rows"}], "no field 'column'"),
        (RULE, "where list is expected"),
    ],
)
def test_an_invalid_assignment_is_refused(rule, message, tmp_path):
    ms.learn(X, Y, folds=3).save(tmp_path / "k")
    forged(tmp_path / "k", {"folds": rule})
    with pytest.raises(InvalidHeaderError, match=message):
        ms.Folds.load(tmp_path / "k")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda cells: cells[::-1], "cells that are not sorted"),
        (lambda cells: np.concatenate([cells[:1], cells[:-1]]), "cells that are not sorted"),
        (lambda cells: cells + np.array([1, 0]), "a cell of no class or fold"),
        (lambda cells: cells - [1, 0], "a cell of no class or fold"),
        (lambda cells: cells + np.array([0, 3]), "a cell of no class or fold"),
        (lambda cells: cells - [0, 2], "a cell of no class or fold"),
        (lambda cells: cells[:-3], "a class without rows"),
        (lambda cells: cells[:-1], "'rows' of type int64 and shape"),
        (lambda cells: cells[:, :1], "'cells' of type int64 and shape"),
        (lambda cells: cells.ravel(), "'cells' of type int64 and shape"),
        (lambda cells: cells.astype(np.float64), "'cells' of type float64"),
        (lambda _: None, "no array 'cells'"),
    ],
)
def test_invalid_cells_are_refused(change, message, tmp_path):
    ms.learn(X, Y, folds=np.arange(30) % 3).save(tmp_path / "k")
    _, arrays = read_container(tmp_path / "k", "folds")
    assert arrays["cells"].tolist() == [[label, fold] for label in range(3) for fold in range(3)]
    changed = change(arrays["cells"])
    forged(tmp_path / "k", cells=changed)
    with pytest.raises(InvalidContentError, match=message):
        ms.Folds.load(tmp_path / "k")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"anchors": np.zeros((3, 5))}, r"shape \(3, 5\) instead of <f8 and \(4, 5\)"),
        ({"anchors": np.full((4, 5), np.nan)}, "a number in 'anchors' that is not finite"),
        ({"anchors": None}, "no array 'anchors'"),
        ({"anchor": np.zeros(5)}, "an unexpected array 'anchor'"),
        ({"rows": np.zeros(9, dtype=np.int64)}, "a count that is not positive"),
        ({"sums": np.full((9, 5), 1e9)}, "sums that are not those of any set of rows"),
    ],
)
def test_invalid_sums_are_refused(arrays, message, tmp_path):
    ms.learn(X, Y, folds=np.arange(30) % 3).save(tmp_path / "k")
    forged(tmp_path / "k", **arrays)
    with pytest.raises(InvalidContentError, match=message):
        ms.Folds.load(tmp_path / "k")


def test_folds_of_the_pooled_form_are_refused(tmp_path):
    ms.learn(X, Y, folds=3).save(tmp_path / "k")
    forged(tmp_path / "k", {"per_class": False})
    with pytest.raises(InvalidHeaderError, match="folds in the pooled form"):
        ms.Folds.load(tmp_path / "k")


def test_older_versions_ask_for_an_upgrade(tmp_path):
    """Versions that read format 4, without folds, ask for an upgrade for any higher number."""
    ms.learn(X, Y, folds=3).save(tmp_path / "k")
    assert container.read_format(tmp_path / "k") == container.FORMAT >= 5
    assert container.read_kind(tmp_path / "k") == "folds"
