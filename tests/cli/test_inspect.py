"""Rows and weights have the same names in all commands: a number called weight is one."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mergesvm as ms
from cli.commandline import ok


@pytest.fixture
def folder(tmp_path):
    X, y = np.arange(6.0)[:, None], ["a", "a", "b", "b", "b", "b"]
    learned = ms.learn(X, y, np.array([3.0, 3.0, 0.5, 0.5, 0.5, 0.5]), feature_names=["x"])
    learned.save(tmp_path / "k")
    ms.solve(learned).save(tmp_path / "m")
    lines = "".join(f"{x},{label},2.5\n" for x, label in zip(X[:, 0], y, strict=True))
    (tmp_path / "t.csv").write_text("x,y,w\n" + lines)
    return tmp_path


def table(text, name):
    """The cells of a row by the names of the columns."""
    lines = [[cell.strip() for cell in line.strip("┃│ ").replace("┃", "│").split("│")] for line in text.splitlines()]
    heading = next(cells for cells in lines if cells[0] == "class")
    return dict(zip(heading, next(cells for cells in lines if cells[0] == name), strict=True))


def test_a_model_does_not_show_rows_as_weight(folder):
    known = table(ok("inspect", folder / "k"), "a")
    assert known == {
        "class": "a",
        "rows": "2",
        "fraction of rows": "33.3%",
        "weight": "6",
        "fraction of weight": "75.0%",
    }
    assert table(ok("inspect", folder / "m"), "a") == {"class": "a", "rows": "2", "fraction of rows": "33.3%"}
    facts = json.loads(ok("inspect", folder / "k", "--json"))
    assert (facts["counts"], facts["weights"]) == ([2, 4], [6.0, 2.0])


def test_an_evaluation_does_not_show_weights_as_rows(folder):
    weighted = ["evaluate", folder / "m", folder / "t.csv", "--label", "y", "--weight", "w"]
    assert table(ok(*weighted, "--report", folder / "e.html"), "a")["weight"] == "5"
    page = (folder / "e.html").read_text()
    assert "True weight" in page
    assert "True rows" not in page
    plain = ["evaluate", folder / "m", folder / "t.csv", "--label", "y"]
    assert table(ok(*plain, "--report", folder / "e.html", "--force"), "a")["rows"] == "2"
    assert "True rows" in (folder / "e.html").read_text()
