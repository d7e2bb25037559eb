"""Rows of files in memory: in which types they are kept, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

import mergesvm as ms
from mergesvm.data.loading import load
from mergesvm.engines import machine
from mergesvm.errors import DataError, ParameterError


def write(folder, **tables):
    for name, table in tables.items():
        pd.DataFrame(table).to_parquet(folder / f"{name}.parquet", row_group_size=3)
    return ms.scan(folder, label="y")


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        (("u1", "u1"), "u1"),
        (("i2", "i2"), "i2"),
        (("f4", "f4"), "f4"),
        (("i4", "i4"), "f8"),
        (("u1", "f4"), "f4"),
        (("u2", "i1"), "f8"),  # a type of 32-bit integers would hold both
        (("bool", "u1"), "u1"),
    ],
)
def test_the_narrowest_type_that_methods_keep(kinds, kept, tmp_path):
    values = np.array([1, 0, 1, 1, 0, 0, 1, 0])
    a, b = (values.astype(kind) for kind in kinds)
    scan = write(tmp_path, day1={"x": a, "y": values}, day2={"x": b, "y": values})
    batch = load(scan)
    block = batch.rows.block(0, 16)
    assert block.dtype == kept
    np.testing.assert_array_equal(block[:, 0], np.tile(values, 2))
    assert batch.rows.names == ("x",)


def test_labels_and_weights_of_several_files(tmp_path):
    (tmp_path / "a.csv").write_text("x,w,y\n1,1,dog\n2,0,fox\n3,2,cat\n")
    (tmp_path / "b.csv").write_text("x,w,y\n4,1,elk\n5,3,cat\n")
    scan = ms.scan(tmp_path / "*.csv", label="y", weight="w", batch_rows=2)
    batch = load(scan)
    assert batch.labels.classes == ("cat", "dog", "elk")  # the fox has weight 0
    np.testing.assert_array_equal(batch.labels.codes, [1, -1, 0, 2, 0])
    np.testing.assert_array_equal(batch.labels.rows, [2, 1, 1])
    np.testing.assert_array_equal(batch.weights, [1, 0, 2, 1, 3])
    assert (scan.rows, scan.fraction) == (5, 1.0)


def test_sparse_rows_stay_sparse(tmp_path):
    X = sparse.random_array((60, 40), density=0.05, rng=np.random.default_rng(0), format="csr")
    for part in range(2):
        dump_svmlight_file(
            X[30 * part : 30 * part + 30], np.arange(30) % 2, str(tmp_path / f"{part}.svm"), zero_based=False
        )
    rows = load(ms.scan(tmp_path / "*.svm", format="libsvm", width=40)).rows
    assert sparse.issparse(rows.block(0, 60))
    np.testing.assert_allclose(rows.block(0, 60).toarray(), X.toarray(), rtol=1e-12)


def test_rows_that_do_not_fit_are_refused_with_their_size(tmp_path, monkeypatch):
    values = np.arange(1000)
    scan = write(tmp_path, day1={"x": values.astype("f4"), "y": values % 2})
    (tmp_path / "day1.csv").write_text("x,y\n" + "1.25,0\n" * 1000)
    for source, rows, size in ((scan, "1,000", 4000), (ms.scan(tmp_path / "day1.csv", label="y"), "about 1,000", 8000)):
        monkeypatch.setattr(machine, "memory_limit", lambda size=size: int(1.9 * size))
        load(source)  # with 60 % of the memory
        monkeypatch.setattr(machine, "memory_limit", lambda size=size: int(1.5 * size))
        with pytest.raises(ParameterError, match=re.escape(f"needs its rows in memory: {rows} rows x 1 features")):
            load(source)
        monkeypatch.setattr(machine, "memory_limit", lambda size=size: int(1.9 * size))
        with pytest.raises(ParameterError, match=r"takes 0\.0 GB"):
            load(source, copies=2)


def test_labels_of_different_kinds_are_refused(tmp_path):
    scan = write(tmp_path, day1={"x": [1.0], "y": ["a"]}, day2={"x": [1.0], "y": [3]})
    with pytest.raises(DataError, match="some are text such as 'a', others whole number such as 3"):
        load(scan)


def test_missing_values_name_the_file(tmp_path):
    scan = write(tmp_path, day1={"x": [1.0], "y": [0]}, day2={"x": [1.0, np.nan], "y": [0, 1]})
    with pytest.raises(DataError, match=r"day2\.parquet contains NaN: row 1, column 'x'"):
        load(scan)


def test_an_estimator_refuses_labels_beside_a_scan(tmp_path):
    scan = write(tmp_path, day1={"x": [1.0, 2.0], "y": [0, 1]})
    for kind in (ms.MergeSVC, ms.PegasosSVC, ms.ParallelKernelSVC, ms.RecursiveSVC):
        with pytest.raises(ParameterError, match="leave out y and sample_weight"):
            kind().fit(scan, [0, 1])
        with pytest.raises(ParameterError, match="leave out y and sample_weight"):
            kind().fit(scan, sample_weight=[1, 2])


@pytest.mark.parametrize("kind", [ms.MergeSVC, ms.PegasosSVC, ms.ParallelKernelSVC, ms.RecursiveSVC])
def test_estimators_continue_with_arrays_after_files(kind, tmp_path):
    table = {"size": [1.0, 2.0, 3.0, 4.5], "colour": ["red", "blue", "red", "blue"], "y": ["a", "a", "b", "b"]}
    pd.DataFrame(table).to_csv(tmp_path / "rows.csv", index=False)
    options = {"n_iter": 50} if kind is ms.PegasosSVC else {}
    scan = ms.scan(tmp_path / "rows.csv", label="y", categories={"colour": ["red", "blue"]})
    X = np.array([[1.0, 1, 0], [2, 0, 1], [3, 1, 0], [4.5, 0, 1]])
    found, expected = kind(**options).fit(scan), kind(**options).fit(X, table["y"])
    assert found.feature_names_in_.tolist() == ["size", "colour=red", "colour=blue"]
    assert found.n_features_in_ == 3
    new = pd.DataFrame([[2.5, 1, 0], [0.5, 0, 1]], columns=found.feature_names_in_)
    np.testing.assert_allclose(found.decision_function(new), expected.decision_function(new.to_numpy()), atol=1e-12)
    found.partial_fit(new, ["c", "a"])
    expected.partial_fit(new.to_numpy(), ["c", "a"])
    assert found.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(found.decision_function(new), expected.decision_function(new.to_numpy()), atol=1e-12)
    assert found.model_.signature.categories == (("colour", ("red", "blue")),)
    assert kind(**options).fit(scan).fit(X, table["y"]).model_.signature.categories == ()
