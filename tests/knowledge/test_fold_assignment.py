"""Assignment of rows to folds: by groups, from files, and invalid folds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mergesvm as ms
from knowledge.test_folds import X, Y, assert_is_of, rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import (
    DataError,
    FormError,
    ParameterError,
)
from mergesvm.knowledge.fold_assignment import FoldAssignment


def test_rows_of_a_group_are_always_held_out_together():
    X, y, _ = rows(500)
    groups = np.random.default_rng(2).integers(0, 60, len(X))
    numbers = FoldAssignment(4, "groups").numbers(as_rows(X), groups)
    assert all(len(set(numbers[groups == group])) == 1 for group in range(60))
    folds = ms.learn(X, y, folds=4, groups=groups)
    for fold in range(4):
        kept = numbers != fold
        assert 0 < kept.sum() < len(X)
        assert_is_of(folds.train(fold), X[kept], y[kept])
    pieces = [ms.learn(X[part::2], y[part::2], folds=4, groups=groups[part::2]) for part in range(2)]
    assert sum(pieces).rows.tolist() == folds.rows.tolist()


@pytest.mark.parametrize(
    "groups",
    [
        pa.array([f"p{row % 17}" for row in range(200)]),
        pa.array([f"p{row % 17}" for row in range(200)]).dictionary_encode(),
        pa.array([row % 17 for row in range(200)], pa.int16()),
        pa.array([float(row % 17) for row in range(200)]),
        pa.array([row % 3 == 0 for row in range(200)]),
    ],
    ids=["text", "dictionary", "whole numbers", "decimals", "booleans"],
)
def test_a_column_of_groups_is_kept_and_is_not_a_feature(groups, tmp_path):
    X, y, _ = rows(200)
    columns = {f"x{j}": X[:, j] for j in range(5)}
    pq.write_table(pa.table({**columns, "who": groups, "y": y}), tmp_path / "t.parquet", row_group_size=60)
    for batch_rows in (None, 33):
        scan = ms.scan(tmp_path / "t.parquet", label="y", keep=["who"], batch_rows=batch_rows)
        found = ms.learn(scan, folds=3, groups="who")
        expected = ms.learn(X, y, folds=3, groups=groups.to_pylist())
        assert found.signature.names == tuple(columns)
        assert found.assignment == FoldAssignment(3, "groups", "who")
        assert [part.rows.tolist() for part in found] == [part.rows.tolist() for part in expected]


def test_rows_that_are_dropped_need_no_group(tmp_path):
    table = pa.table({"x": [1.0, None, 3.0, 4.0], "who": ["a", None, "b", "a"], "y": [0, 1, 0, 1]})
    pq.write_table(table, tmp_path / "t.parquet")
    scan = ms.scan(tmp_path / "t.parquet", label="y", keep=["who"], missing="drop")
    assert ms.learn(scan, folds=2, groups="who").total.rows.tolist() == [2, 1]
    pq.write_table(table.set_column(1, "who", pa.array(["a", "b", None, None])), tmp_path / "t.parquet")
    scan = ms.scan(tmp_path / "t.parquet", label="y", keep=["who"], missing="drop")
    with pytest.raises(DataError, match=r"t\.parquet: 2 rows have no group in 'who'"):
        ms.learn(scan, folds=2, groups="who")


def test_an_error_about_invalid_groups_names_the_file(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": [0.5, 1.0], "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet.*groups must contain one string.*row 0 is 0\.5"):
        ms.learn(ms.scan(tmp_path / "t.parquet", label="y", keep=["who"]), folds=2, groups="who")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"folds": 1}, ParameterError, "from 2 to 1,000, not 1"),
        ({"folds": 1001}, ParameterError, "not 1001"),
        ({"folds": 2.0}, ParameterError, r"not 2\.0"),
        ({"folds": True}, ParameterError, "not True"),
        ({"folds": "5"}, ParameterError, "not '5'"),
        ({"folds": [0.0] * 30}, ParameterError, "one integer per row"),
        ({"folds": [[0, 1]] * 15}, ParameterError, "one integer per row"),
        ({"folds": [-2] * 30}, ParameterError, "-1 for a row"),
        ({"folds": [0, 1000] * 15}, ParameterError, "not 1001"),
        ({"folds": [0, 1] * 10}, DataError, "30 rows, 20 folds"),
        ({"groups": ["a"] * 30}, ParameterError, "groups needs a number of folds"),
        ({"folds": [0, 1] * 15, "groups": ["a"] * 30}, ParameterError, "groups cannot be combined"),
        ({"folds": 3, "groups": ["a"] * 20}, DataError, "30 rows, 20 groups"),
        ({"folds": 3, "groups": ["a", None] * 15}, DataError, "row 1 has no group"),
        ({"folds": 3, "groups": "who"}, ParameterError, "'who' names a column of files"),
        ({"folds": 3, "per_class": False}, FormError, "per_class=True"),
    ],
)
def test_invalid_folds_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        ms.learn(X, Y, **options)


def test_for_files_folds_is_a_number_and_groups_a_kept_column(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": ["a", "b"], "y": [0, 1]}), tmp_path / "t.parquet")
    path = tmp_path / "t.parquet"
    with pytest.raises(ParameterError, match="folds is a number"):
        ms.learn(ms.scan(path, label="y", keep=["who"]), folds=[0, 1])
    with pytest.raises(ParameterError, match=r"groups .* the name of a column"):
        ms.learn(ms.scan(path, label="y", keep=["who"]), folds=2, groups=["a", "b"])
    with pytest.raises(ParameterError, match=r"column 'who' of the groups\. Keep it: scan\(\.\.\., keep=\['who'\]\)"):
        ms.learn(ms.scan(path, label="y", features=["x"]), folds=2, groups="who")
    with pytest.raises(ParameterError, match="column 'whom'"):
        ms.learn(ms.scan(path, label="y", keep=["who"]), folds=2, groups="whom")
