"""Rows of every kind are the same rows, and what is wrong with them is named."""

from __future__ import annotations

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import mergesvm as ms
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import MergeSVMError
from reference import assert_same_knowledge

WHOLE = np.random.default_rng(0).integers(0, 5, (700, 3))
LABELS = np.arange(700) % 2

TYPES = ["?", "b", "B", "h", "H", "i", "I", "l", "L", "e", "f", "d", "g", "O", ">f4", "<i2"]
FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr"]
COLUMNS = {name: WHOLE[:, i] for i, name in enumerate("abc")}

SOURCES = {
    **{f"numpy {dtype}": WHOLE.astype(dtype) for dtype in TYPES},
    "Fortran order": np.asfortranarray(WHOLE, dtype=float),
    "every other row, backwards": np.repeat(WHOLE, 2, axis=0)[::-2][::-1],
    "read-only": np.frombuffer(WHOLE.astype(float).tobytes()).reshape(WHOLE.shape),
    "lists": WHOLE.tolist(),
    "pandas": pd.DataFrame(WHOLE),
    "pandas mixed": pd.DataFrame({"a": WHOLE[:, 0], "b": WHOLE[:, 1] / 1.0, "c": WHOLE[:, 2].astype("uint8")}),
    "pandas nullable": pd.DataFrame(WHOLE).astype("Int64"),
    "pandas objects": pd.DataFrame(WHOLE).astype(object),
    "polars": pl.DataFrame(WHOLE),
    "polars mixed": pl.DataFrame({"a": WHOLE[:, 0], "b": WHOLE[:, 1] / 1.0, "c": WHOLE[:, 2].astype("uint8")}),
    "arrow": pa.table(COLUMNS),
    "arrow chunks": pa.concat_tables(
        [pa.table({n: WHOLE[s, i] for i, n in enumerate("abc")}) for s in np.s_[:99, 99:]]
    ),
    "arrow batch": pa.record_batch({name: pa.array(column) for name, column in COLUMNS.items()}),
    "arrow decimals": pa.table({n: [decimal.Decimal(int(v)) for v in column] for n, column in COLUMNS.items()}),
    **{f"sparse {kind}": sparse.coo_array(WHOLE).asformat(kind) for kind in FORMATS},
    "sparse matrix": sparse.csr_matrix(WHOLE.astype(float)),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_rows_gives_the_same_knowledge(source):
    rows = SOURCES[source]
    k = ms.learn(rows, LABELS)
    truth = WHOLE.astype(bool) if source == "numpy ?" else WHOLE
    expected = ms.learn(truth.astype(float), LABELS)
    assert_same_knowledge(k, expected)


def test_booleans_of_a_table_are_zero_and_one():
    table = {"a": [True, False, True], "b": [1.0, 2.0, 3.0]}
    expected = [[1.0, 1.0], [0.0, 2.0], [1.0, 3.0]]
    for frame in (pd.DataFrame(table), pl.DataFrame(table), pa.table(table)):
        rows = as_rows(frame)
        assert rows.names == ("a", "b")
        assert rows.block(0, 3).tolist() == expected


def hole(value):
    X = WHOLE.astype(float)
    X[123, 1] = value
    return X


def sparse_hole(value):
    X = sparse.random_array((700, 50), density=0.05, random_state=np.random.default_rng(0), format="lil")
    X[300, 7] = value
    X[123, 9] = value
    return X.tocsc()


NAMES = list("abc")
WRONG = {
    "NaN": (hole(np.nan), r"contains NaN: row 123, column 1\."),
    "infinity": (hole(-np.inf), r"contains infinity: row 123, column 1\."),
    "float32 NaN": (hole(np.nan).astype(np.float32), r"contains NaN: row 123, column 1\."),
    "pandas NaN": (pd.DataFrame(hole(np.nan), columns=NAMES), r"contains NaN: row 123, column 'b'\."),
    "pandas NA": (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), r"NaN: row 1, column 'a'\."),
    "polars null": (pl.DataFrame({"a": [1, 2, None]}), r"NaN: row 2, column 'a'\."),
    "arrow null": (pa.table({"a": [1, 2], "b": [True, None]}), r"NaN: row 1, column 'b'\."),
    "sparse NaN": (sparse_hole(np.nan), r"contains NaN: row 123, column 9\."),
    "wide NaN": (np.hstack([hole(np.nan)] * 50), r"contains NaN: row 123, column 1\."),
    "ragged": ([[1.0, 2.0], [1.0, 2.0], [3.0]], r"ragged: row 0 has 2 values, row 2 has 1\."),
    "no rows": (np.empty((0, 3)), "X is empty"),
    "no columns": (np.empty((3, 0)), "X has no columns"),
    "empty frame": (pd.DataFrame({"a": []}), "X is empty"),
    "one dimension": (np.ones(5), r"Reshape your data"),
    "three dimensions": (np.ones((5, 2, 2)), r"each row is an image"),
    "text": (np.array([["a"], ["b"]]), "every column is of type <U1"),
    "text object": (np.array([[1, 2], [3, "x"]], dtype=object), r"row 1, column 1 holds 'x'"),
    "text of a frame": (pd.DataFrame({"n": [1], "name": ["Ann"]}), "column 'name' is of type .*row 0 holds 'Ann'"),
    "text of polars": (pl.DataFrame({"n": [1], "name": ["Ann"]}), "column 'name' is of type String, row 0 holds 'Ann'"),
    "text of arrow": (pa.table({"n": [1], "name": ["Ann"]}), "column 'name' is of type string, row 0 holds 'Ann'"),
    "categories": (pd.DataFrame({"c": pd.Categorical(["x", "y"])}), "column 'c' is of type category"),
    "dates": (np.array([["2020-01-01"]], dtype="datetime64[D]"), "dates"),
    "complex": (np.array([[1j]]), "Complex data not supported"),
    "complex frame": (pd.DataFrame({"z": [1j]}), "Complex data not supported: column 'z'"),
    "text in a list": ([[1.0, 2.0], [3.0, "x"]], r"row 1, column 1 holds 'x'"),
    "a list in a cell": ([[1.0, 2.0], [3.0, [4]]], r"row 1, column 1 holds \[4\]"),
    "text further down": (pd.DataFrame({"a": pd.Series([1, 2, "x"], dtype=object)}), "row 2 holds 'x'"),
    "missing object": (pd.DataFrame({"a": pd.Series([1, None, 3], dtype=object)}), r"NaN: row 1, column 'a'\."),
    "a name twice": (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' occurs more than once"),
    "a name twice in arrow": (pa.table([[1], [2]], names=["a", "a"]), "'a' occurs more than once"),
    "masked": (np.ma.masked_array(np.eye(2), [[0, 0], [1, 0]]), r"NaN: row 1, column 0\."),
    "sparse vector": (sparse.coo_array(np.ones(3)), "Expected 2D array"),
    "beyond any float": (np.array([[10**400]], dtype=object), "row 0, column 0"),
    "far too wide": (sparse.csr_array((3, 10**6)), "takes 16,000.0 GB, and this machine has"),
    "a string": ("data.csv", "Expected 2D array"),
    "nothing": (None, "Expected 2D array"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_learned_from_is_named(case):
    X, message = WRONG[case]
    rows = X.shape[0] if hasattr(X, "shape") else len(X) if X is not None else 1
    with pytest.raises(MergeSVMError, match=message):
        ms.learn(X, np.arange(rows) % 2)


def test_rows_are_never_changed():
    for X in (hole(1.0), sparse.csr_array(hole(0.0)), pd.DataFrame(hole(2.0))):
        before = X.copy()
        k = ms.learn(X, LABELS, np.full(700, 0.5))
        ms.solve(k).predict(X)
        assert ((before != X).nnz == 0) if sparse.issparse(X) else np.array_equal(X, before)


def test_a_sparse_array_that_points_outside_of_itself_is_refused():
    for place, column in ((3, 10**6), (0, 60), (5, -1)):
        X = sparse.random_array((120, 60), density=0.1, format="csr", rng=0)
        X.indices[place] = column
        row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        with pytest.raises(ms.errors.DataError, match=f"row {row} has a value in column {column}, but there are 60"):
            ms.learn(X, [0, 1] * 60)
        with pytest.raises(ms.errors.DataError, match="invalid sparse array"):
            ms.PegasosSVC().fit(X, [0, 1] * 60)
    for starts in ([0, 3, 2, 4], [1, 2, 3, 4], [0, 2, 3, 9]):
        X = sparse.csr_array((np.ones(4), np.array([0, 1, 2, 3]), np.array([0, 2, 3, 4])), shape=(3, 5))
        X.indptr = np.array(starts)
        with pytest.raises(ms.errors.DataError, match="indptr must start at 0"):
            ms.learn(X, [0, 1, 0])
