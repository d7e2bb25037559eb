from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mergesvm as ms
from mergesvm.data.batch import Batch
from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.errors import DataError

KINDS = {
    "list of text": (["b", "a", "b"], "text", ("a", "b")),
    "numpy text": (np.array(["b", "a", "b"]), "text", ("a", "b")),
    "numpy variable text": (np.array(["b", "a", "b"], dtype=np.dtypes.StringDType()), "text", ("a", "b")),
    "objects": (np.array(["b", "a", "b"], dtype=object), "text", ("a", "b")),
    "pandas": (pd.Series(["b", "a", "b"]), "text", ("a", "b")),
    "pandas categories": (pd.Series(["b", "a", "b"], dtype="category"), "text", ("a", "b")),
    "polars": (pl.Series(["b", "a", "b"]), "text", ("a", "b")),
    "polars categories": (pl.Series(["b", "a", "b"], dtype=pl.Categorical), "text", ("a", "b")),
    "arrow": (pa.array(["b", "a", "b"]), "text", ("a", "b")),
    "arrow chunks": (pa.chunked_array([["b"], ["a", "b"]]), "text", ("a", "b")),
    "booleans": ([True, False, True], "boolean", (False, True)),
    "numpy booleans": (np.array([True, False, True]), "boolean", (False, True)),
    "int8 over its range": (np.array([127, -128, 127], dtype=np.int8), "whole number", (-128, 127)),
    "large unsigned": (np.array([2**63 + 9, 2**63, 2**63 + 9], dtype=np.uint64), "whole number", (2**63, 2**63 + 9)),
    "far apart": (np.array([10**15, -(10**15), 10**15]), "whole number", (-(10**15), 10**15)),
    "python numbers": ([7, 3, 7], "whole number", (3, 7)),
    "pandas nullable": (pd.Series([7, 3, 7], dtype="Int64"), "whole number", (3, 7)),
    "whole floats": (np.array([1.0, -1.0, 1.0]), "decimal", (-1.0, 1.0)),
    "half precision": (np.array([1, -1, 1], dtype=np.float16), "decimal", (-1.0, 1.0)),
    "beyond 64 bits": ([2**70, 3, 2**70], "whole number", (3, 2**70)),
    "a column": (np.array([["b"], ["a"], ["b"]]), "text", ("a", "b")),
}


@pytest.mark.parametrize("case", KINDS)
def test_labels_of_every_kind_become_codes(case):
    y, kind, classes = KINDS[case]
    labels = EncodedLabels.encode(y)
    assert labels.kind == kind
    assert labels.classes == classes
    assert [type(label) for label in labels.classes] == [type(label) for label in classes]
    assert labels.codes.tolist() == [1, 0, 1]
    assert labels.rows.tolist() == [1, 2]


@pytest.mark.parametrize("n_classes", [100, 200, 40_000])
def test_many_classes_are_encoded_correctly(n_classes):
    y = np.random.default_rng(0).permutation(np.arange(n_classes).repeat(2))
    for labels in (EncodedLabels.encode(y), EncodedLabels.encode([str(value).zfill(6) for value in y])):
        np.testing.assert_array_equal(labels.codes, y)
        assert (labels.rows == 2).all()


WRONG = {
    "missing": (["a", None], "row 1 has no label"),
    "missing number": (np.array([1.0, np.nan]), "Input y contains NaN: row 1"),
    "missing in pandas": (pd.Series(["a", None]), "row 1 has no label|NaN: row 1"),
    "infinite": (np.array([1.0, np.inf]), "infinity.*row 1"),
    "not whole": (np.array([1.0, 1.5]), "Unknown label type: continuous, row 1 is 1.5"),
    "mixed": (["a", 1], "row 0 is the text 'a', row 1 is the whole number 1"),
    "booleans among numbers": ([1, True], "row 0 is the whole number 1, row 1 is the boolean True"),
    "masked": (np.ma.masked_array([1, 2], [False, True]), "row 1 is masked"),
    "a set": ({"a", "b"}, "got set instead"),
    "a number": (5, "got int instead"),
    "bytes that are not text": ([b"a", b"\xff"], "row 1 is b'.xff', not UTF-8"),
    "bytes and text": ([b"a", "b"], "row 0 is the bytes b'a', row 1 is 'b'"),
    "dates": (np.array(["2020-01-01"] * 2, dtype="datetime64[D]"), "y is of type datetime64"),
    "date objects": ([datetime.date(2020, 1, 1)] * 2, "row 0 is datetime.date"),
    "lists": ([("a", 1), ("b",)], "row 0 is .'a', 1. of type tuple"),
    "a table": (np.ones((2, 2)), r"1d array of one label per row, got an array of shape \(2, 2\)"),
    "none": (None, "y is None"),
    "too short": (["a"], "unequal length: 2 rows, 1 labels; row 1"),
    "too long": (["a", "b", "c"], "unequal length: 2 rows, 3 labels; row 2"),
}


@pytest.mark.parametrize("case", WRONG)
def test_labels_that_cannot_be_learned_are_named(case):
    y, message = WRONG[case]
    with pytest.raises(DataError, match=f"(?i){message}"):
        ms.learn([[1.0], [2.0]], y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "not negative: row 1 has -1.0"),
        ([np.nan, 1.0], "finite and not negative: row 0 has nan"),
        ([1.0, np.inf], "row 1 has inf"),
        ([1.0], "unequal length: 2 rows, 1 weights"),
        ([[1.0], [2.0]], r"shape \(2, 1\)"),
        (["heavy", "light"], "one number per row"),
        (np.array([1j, 1]), "one number per row"),
        (np.array(["2020", "2021"], dtype="datetime64[Y]"), "one number per row"),
        ([1.0, 1.0, 1.0], "unequal length: 2 rows, 3 weights"),
    ],
)
def test_weights_that_make_no_sense_are_named(weights, message):
    with pytest.raises(DataError, match=message):
        ms.learn([[1.0], [2.0]], ["a", "b"], weights)


def test_rows_without_weight_belong_to_no_class():
    batch = Batch.of([[1.0], [2.0], [3.0]], ["a", "b", "c"], [1.0, 0.0, 2.0])
    assert batch.labels.classes == ("a", "c")
    assert batch.labels.codes.tolist() == [0, -1, 1]
    nothing = Batch.of([[1.0]], [5], [0.0])
    assert (nothing.labels.classes, nothing.labels.kind) == ((), None)


def test_labels_of_any_size_come_back_as_they_were():
    y = [1, 2**63 + 1, 2**63 + 3]
    model = ms.solve(ms.learn(np.eye(3), y), C=1e6)
    assert model.predict(np.eye(3)).tolist() == y


def test_unequal_lengths_are_found_before_anything_is_made_of_them():
    for y in ([1, 2, 1], np.array([1, 2, 1]), ["a", "b", "a"]):
        with pytest.raises(DataError, match="unequal length: 2 rows, 3 labels"):
            ms.learn(np.eye(2), y, [1.0, 1.0])
