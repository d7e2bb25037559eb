"""Hashes of rows and groups: the same wherever they are read, and spread evenly over folds."""

from __future__ import annotations

import hashlib
import re
import struct

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from scipy.stats import chisquare

import mergesvm as ms
import samples
from mergesvm.data.hashing import group_hashes, row_hashes
from mergesvm.data.rows.convert import as_rows
from mergesvm.engines import Threads
from mergesvm.errors import DataError

rng = np.random.default_rng(11)
PINNED_ROWS = ["0000000000000000", "f55c5d8f3894ec4a", "f0e430bd9f45e65d", "fddb35b75533ba94"]
PINNED_TEXTS = ["588d95b0482c555e", "d132b6761c675770", "26ab1b6da00b8dd3", "14d6db8d2752cc2d"]
PINNED_NUMBERS = ["4d40f9cde8cf1a0c", "92c291fd66f7e386", "7df6f36a28a54406", "6ef71989fd45cf83"]

WHOLE = rng.integers(0, 4, size=(500, 6)).astype(np.uint8)


def hashes(X, **how):
    return row_hashes(as_rows(X), **how)


def doubled(array):
    """The same CSR rows with every value in two halves, an explicit zero in each row, and columns out of order."""
    rows, columns = np.nonzero(array)
    values = array[rows, columns] / 2
    zeros = np.arange(len(array)), np.full(len(array), 0)
    rows, columns = np.concatenate([rows, rows, zeros[0]]), np.concatenate([columns, columns, zeros[1]])
    values = np.concatenate([values, values, np.zeros(len(array))])
    order = np.lexsort((-columns, rows))
    starts = np.searchsorted(rows[order], np.arange(len(array) + 1))
    return sparse.csr_array((values[order], columns[order], starts), shape=array.shape)


def test_hashes_do_not_change_between_versions():
    """Pieces that were learned with folds years ago have to add to those of today."""
    X = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], [-0.5, 1e300, 5e-324]])
    assert [f"{number:016x}" for number in hashes(X)] == PINNED_ROWS
    groups = ["", "north", "süd", "1"]
    assert [f"{number:016x}" for number in group_hashes(groups)] == PINNED_TEXTS
    assert [f"{number:016x}" for number in group_hashes([0, 1, -7, 2**70])] == PINNED_NUMBERS


def mixed(number):
    number = number * 0x9E3779B97F4A7C15 % 2**64
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % 2**64
    return number ^ (number >> 31)


def test_hashes_are_those_of_the_description_of_the_file_format():
    """By whole numbers of Python, as docs/file-format.md has it."""
    X = rng.normal(size=(20, 7))
    X[3] = -0.0
    for row, found in zip(X.tolist(), hashes(X).tolist(), strict=True):
        bits = [struct.unpack("<Q", struct.pack("<d", value + 0.0))[0] for value in row]
        total = sum((mixed(column) | 1) * (each ^ (each >> 32)) for column, each in enumerate(bits, 1))
        assert found == mixed(total % 2**64)
    for group, text, kind in (("süd", "süd", b"text"), (-7, "-7", b"number"), (True, "1", b"number")):
        digest = hashlib.blake2b(text.encode(), digest_size=8, person=kind).digest()
        assert group_hashes([group]).tolist() == [int.from_bytes(digest, "little")]


@pytest.mark.parametrize(
    "same",
    [
        *(np.int8, np.uint16, np.int32, np.int64, np.uint64, np.float16, np.float32, ">f8", ">i4", object),
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: np.where(X == 0, -0.0, X),
        lambda X: X.tolist(),
        lambda X: sparse.csr_array(X),
        lambda X: sparse.csc_matrix(X.astype(np.float32)),
        lambda X: sparse.coo_array(X),
        doubled,
        lambda X: pd.DataFrame(X),
        lambda X: pd.DataFrame({f"c{j}": X[:, j].astype(["u1", "f4", "i8"][j % 3]) for j in range(X.shape[1])}),
        lambda X: pl.DataFrame({f"c{j}": X[:, j] for j in range(X.shape[1])}),
        lambda X: pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}),
    ],
)
def test_equal_rows_have_equal_hashes_in_any_type_order_and_container(same):
    X = WHOLE * (rng.random(WHOLE.shape) < 0.15)  # few enough for sparse rows to stay sparse
    other = X.astype(same) if not callable(same) or isinstance(same, type) else same(X)
    np.testing.assert_array_equal(hashes(other), hashes(X.astype(np.float64)))


def test_sparse_rows_that_are_read_as_dense_ones_have_the_same_hashes():
    X = rng.normal(size=(50, 5))
    np.testing.assert_array_equal(hashes(sparse.csr_array(X)), hashes(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8, np.int16, np.bool_])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_compiled_function_gives_the_same_hashes(dtype, workers):
    X = (rng.normal(size=(6000, 60)) * 50).astype(dtype)
    np.testing.assert_array_equal(hashes(X, engine=Threads(workers), compiled=True), hashes(X))


def test_hashes_of_rows_do_not_depend_on_the_rows_around_them():
    X = rng.normal(size=(5000, 60))
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(hashes(X[order], engine=Threads(2)), hashes(X)[order])
    np.testing.assert_array_equal(np.concatenate([hashes(part) for part in np.array_split(X, 7)]), hashes(X))


def test_rows_of_no_columns_or_none_at_all_have_hashes():
    assert row_hashes(as_rows(np.empty((0, 3)), empty=True)).shape == (0,)
    wide = sparse.csr_array(([1.0, 2.0], ([0, 2], [7, 300_000])), shape=(3, 400_000))
    assert len(set(hashes(wide).tolist())) == 3


@pytest.mark.parametrize("writer", samples.WRITERS, ids=lambda writer: writer.__name__)
def test_files_of_every_kind_fall_into_the_same_folds(writer, tmp_path):
    X, y = samples.rows(400)
    expected = ms.learn(X, y, folds=3)
    path, label = writer(tmp_path, "rows", X, y)
    for batch_rows in (None, 37):
        folds = ms.learn(ms.scan(path, label=label, batch_rows=batch_rows), folds=3)
        assert [part.rows.tolist() for part in folds] == [part.rows.tolist() for part in expected]
        for part, other in zip(folds, expected, strict=True):
            np.testing.assert_allclose(part.about(other.anchor).sums, other.sums, rtol=1e-9, atol=1e-9)


def one_hot(n_rows):
    """Rows of 400 x 400 categories."""
    array = sparse.lil_array((n_rows, 800))
    array[np.arange(n_rows), np.arange(n_rows) % 400] = 1.0
    array[np.arange(n_rows), 400 + np.arange(n_rows) // 400] = 1.0
    return array.tocsr()


def last_column_differs(n_rows):
    X = np.full((n_rows, 4), 0.25)
    X[:, 3] = np.arange(n_rows) / 1000
    return X


@pytest.mark.parametrize(
    "rows",
    [
        lambda n: rng.normal(size=(n, 3)),
        lambda n: rng.uniform(size=(n, 1)).astype(np.float32),
        lambda n: np.stack([np.arange(n) % 50, np.arange(n) // 50 % 40, np.arange(n) // 2000], axis=1),
        lambda n: np.arange(n)[:, None] >> np.arange(17) & 1,
        one_hot,
        last_column_differs,
        lambda n: np.arange(n, dtype=np.float64)[:, None] * 1e6,
        lambda n: np.arange(1.0, n + 1)[:, None] * 2.0**-1060,
    ],
    ids=[
        "normal",
        "float32",
        "small numbers",
        "bits",
        "one-hot",
        "one column differs",
        "large numbers",
        "tiny numbers",
    ],
)
@pytest.mark.parametrize("count", [2, 5, 10])
def test_folds_are_of_about_equal_size(rows, count):
    X = rows(100_000)
    sizes = np.bincount((hashes(X) % np.uint64(count)).astype(int), minlength=count)
    assert chisquare(sizes).pvalue > 1e-4, sizes


def test_groups_are_spread_evenly_too():
    for groups in (np.arange(100_000), [f"patient {number}" for number in range(100_000)]):
        sizes = np.bincount((group_hashes(groups) % np.uint64(5)).astype(int), minlength=5)
        assert chisquare(sizes).pvalue > 1e-4, sizes


@pytest.mark.parametrize(
    "same",
    [
        [0, 1, 1, 0],
        [False, True, True, False],
        [0.0, 1.0, 1.0, -0.0],
        np.array([0, 1, 1, 0], dtype=np.uint64),
        np.array([0, 1, 1, 0], dtype=np.float32),
        pd.Series([0, 1, 1, 0], index=[9, 8, 7, 6]),
        pd.Categorical([0, 1, 1, 0]),
        pl.Series([0, 1, 1, 0]),
        pa.array([0, 1, 1, 0]),
    ],
    ids=lambda groups: f"{type(groups).__module__}.{type(groups).__name__}",
)
def test_groups_are_the_same_whatever_they_are_kept_in(same):
    np.testing.assert_array_equal(group_hashes(same), group_hashes([0, 1, 1, 0]))


@pytest.mark.parametrize("kind", [np.array, pd.Series, pd.Categorical, pl.Series, pa.array, lambda g: np.array(g, "O")])
def test_groups_of_text_are_the_same_whatever_they_are_kept_in(kind):
    groups = ["a", "ü", "", "a"]
    np.testing.assert_array_equal(group_hashes(kind(groups)), group_hashes(groups))


def test_text_and_numbers_are_different_groups():
    assert group_hashes(["1"]) != group_hashes([1])


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (["a", None, "b"], "row 1 has no group"),
        ([1.0, 2.0, np.nan], "row 2 has no group"),
        (np.array([1.0, np.nan]), "row 1 has no group"),
        (pd.Series(["a", None]), "row 1 has no group"),
        (pa.array(["a", None]), "row 1 has no group"),
        (pd.Series(["a", None], dtype="string"), "row 1 is"),
        ([0.5, 1.0], "row 0 is 0.5"),
        ([np.inf, 1.0], "infinity"),
        (["a", 1], "different kinds"),
        ([b"\xff", b"b"], "not UTF-8"),
        (np.array(["2026-01-01"], dtype="M8[D]"), "datetime64"),
        (np.zeros((2, 2)), r"shape \(2, 2\)"),
        (5, "got int"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, said):
    with pytest.raises(DataError, match=f"groups must contain one string, .* per row: .*{said}") as error:
        group_hashes(groups)
    assert not re.search(r"\by\b|label|class", str(error.value)), "groups are not labels"
