"""On the command line no piece counts twice, and none is subtracted that is not inside."""

from __future__ import annotations

import json

import numpy as np

import mergesvm as ms
from cli.commandline import ok, run


def test_pieces_are_not_merged_or_subtracted_twice(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 2
    days = [ms.learn(X[day::3], y[day::3]) for day in range(3)]
    for number, day in enumerate(days):
        day.save(tmp_path / f"{number}.knowledge")
        day.save(tmp_path / f"copy{number}.knowledge")
    ok("merge", "0.knowledge", "1.knowledge", "-o", "all.knowledge", cwd=tmp_path)
    ok("subtract", "all.knowledge", "1.knowledge", "-o", "rest.knowledge", cwd=tmp_path)
    for arguments, what in {
        ("merge", "all.knowledge", "copy1.knowledge"): "inside already: rows in memory (id",
        ("subtract", "all.knowledge", "2.knowledge"): "Cannot subtract 2.knowledge from all.knowledge",
        ("subtract", "rest.knowledge", "1.knowledge"): "not inside: rows in memory (id",
        ("subtract", "all.knowledge", "1.knowledge", "copy1.knowledge"): "Cannot subtract copy1.knowledge",
    }.items():
        done = run(*arguments, "-o", "out.knowledge", "--force", cwd=tmp_path)
        assert done.returncode == 2
        assert what in done.stderr
        assert "--force-pieces" in done.stderr
        assert not (tmp_path / "out.knowledge").exists()
    ok("merge", "all.knowledge", "copy1.knowledge", "--force-pieces", "-o", "twice.knowledge", cwd=tmp_path)
    assert ms.Knowledge.load(tmp_path / "twice.knowledge").rows.sum() == 90
    ms.learn(X[:9:3], y[:9:3]).save(tmp_path / "row.knowledge")
    ok("subtract", "all.knowledge", "row.knowledge", "--force-pieces", "-o", "left.knowledge", cwd=tmp_path)
    shown = json.loads(ok("inspect", "left.knowledge", "--json", cwd=tmp_path))["provenance"]
    assert [(origin["rows"], origin["taken_back"]) for origin in shown] == [(30, False), (30, False), (3, True)]
    assert "(retired)" in ok("inspect", "left.knowledge", cwd=tmp_path)
