"""Every way to sum rows agrees with the formula."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from mergesvm.data.batch import Batch
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.engines import Threads
from mergesvm.features import Fourier
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT
from mergesvm.knowledge.gram.narrow import narrow_sums
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.sparse import multiplied_sums, scattered_sums
from mergesvm.knowledge.gram.triangles import add_to_triangle, fill_lower
from mergesvm.knowledge.gram.wide import wide_sums


def narrow(batch, anchor, workers):
    return narrow_sums(batch, batch.labels.codes, len(batch.labels.classes), anchor, Threads(workers), GRAM_JIT.load())


def wide(batch, anchor, workers, precision="float64", jit=None, features=None):
    running = RunningSums(len(anchor))
    wide_sums(batch, running.for_classes(batch.labels.classes), anchor, Threads(workers), precision, jit, features)
    for gram in running.grams:
        fill_lower(gram)
    return np.array(running.totals), running.grams


def compact(batch, anchor, workers, precision="float64"):
    return wide(batch, anchor, workers, precision, GRAM_JIT.load())


def scattered(batch, anchor, workers):
    return scattered_sums(batch, batch.labels.codes, len(batch.labels.classes), Threads(workers), GRAM_JIT.load())


def multiplied(batch, anchor, workers):
    return multiplied_sums(batch, batch.labels.codes, len(batch.labels.classes))


def by_formula(X, codes, weights, anchor, n_classes):
    centred = X.astype(np.float64) - anchor
    totals = [(weights[codes == c, None] * centred[codes == c]).sum(axis=0) for c in range(n_classes)]
    grams = [(weights[codes == c, None] * centred[codes == c]).T @ centred[codes == c] for c in range(n_classes)]
    return np.array(totals), grams


def assert_sums(method, X, y, weights, anchor, workers, tolerance=1e-12):
    batch = Batch.of(X, y, weights)
    totals, grams = method(batch, anchor, workers)
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    codes = batch.labels.codes
    row_weights = np.ones(len(codes)) if weights is None else weights
    expected_totals, expected_grams = by_formula(dense, codes, row_weights, anchor, len(batch.labels.classes))
    scale = max(1.0, max(np.abs(gram).max() for gram in expected_grams))
    np.testing.assert_allclose(totals, expected_totals, atol=tolerance * scale)
    for gram, expected in zip(grams, expected_grams, strict=True):
        np.testing.assert_allclose(gram, expected, atol=tolerance * scale)
        np.testing.assert_array_equal(gram, gram.T)


@pytest.mark.parametrize("method", [narrow, wide, compact])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 4), (5_000, 29), (70_000, 5), (3_000, 130)])
def test_dense_sums_match_the_formula(method, workers, weighted, shape):
    generator = np.random.default_rng(shape[0])
    X, y = generator.normal(size=shape) + 3.0, generator.integers(0, 5, shape[0])
    weights = generator.choice([0.0, 0.25, 2.0], shape[0], p=[0.2, 0.4, 0.4]) if weighted else None
    if weighted:
        weights[0] = 1.0
    assert_sums(method, X, y, weights, generator.normal(size=shape[1]), workers)


@pytest.mark.parametrize("method", [narrow, wide, compact])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.uint32, np.float16, np.float32, ">f8"])
def test_any_numeric_dtype_gives_the_same_sums(method, dtype):
    generator = np.random.default_rng(0)
    X = np.asfortranarray(generator.integers(0, 2 if dtype is bool else 100, (900, 12)).astype(dtype))
    assert_sums(method, X, generator.integers(0, 2, 900), None, np.full(12, 0.3), 2)


@pytest.mark.parametrize("method", [scattered, multiplied])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, bool])
def test_sparse_sums_match_the_formula(method, workers, weighted, dtype):
    generator = np.random.default_rng(0)
    X = sparse.random_array((40_000, 60), density=0.05, random_state=generator, format="csr")
    X = (X > 0.5 if dtype is bool else (10 * X).astype(dtype)).tocsr()
    y = generator.integers(0, 3, X.shape[0])
    weights = generator.choice([0.0, 0.25, 2.0], X.shape[0]) if weighted else None
    assert isinstance(Batch.of(X, y).rows, SparseRows)
    assert_sums(method, X, y, weights, np.zeros(60), workers, tolerance=1e-6 if dtype is np.float32 else 1e-12)


def test_sparse_rows_with_duplicate_and_unsorted_entries_are_summed():
    rows, columns = np.array([0, 0, 0, 1, 2]), np.array([3, 1, 3, 0, 2])
    X = sparse.coo_array((np.array([1.0, 2.0, 4.0, 1.0, 0.0]), (rows, columns)), shape=(3, 40))
    before = X.copy()
    for method in (scattered, multiplied):
        assert_sums(method, X, np.array([0, 0, 1]), None, np.zeros(40), 1)
    assert (before != X).nnz == 0
    assert X.nnz == before.nnz


@pytest.mark.parametrize("method", [wide, compact])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool])
def test_pixels_are_summed_exactly(method, dtype):
    generator = np.random.default_rng(0)
    top = {np.uint8: 256, np.int8: 128, bool: 2}[dtype]
    X = generator.integers(0, top, (5_000, 120)).astype(dtype)
    X[:, 7] = top - 1
    y = generator.integers(0, 2, 5_000)
    _, grams = method(Batch.of(X, y), np.zeros(120), 2)
    for label, gram in enumerate(grams):
        members = X[y == label].astype(np.int64)
        np.testing.assert_array_equal(gram, members.T @ members)


@pytest.mark.parametrize("method", [wide, compact])
@pytest.mark.parametrize("at", [0.0, 0.5, 0.1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_that_equal_the_anchor_for_many_rows_are_not_lost(method, at, dtype):
    generator = np.random.default_rng(0)
    X, y = np.full((6_000, 150), at), generator.integers(0, 2, 6_000)
    X[:, :40] = generator.normal(size=(6_000, 40))
    X[3_000:, 40:90] = generator.normal(size=(3_000, 50))
    X[::2, 100], X[1::2, 100] = 1.0, -1.0  # sums to zero, but is never zero
    X[5_999, 149] = 2.0
    assert_sums(method, X.astype(dtype), y, None, np.full(150, at), 2)


@pytest.mark.parametrize("method", [wide, compact])
def test_zero_rows_sum_to_zero(method):
    assert_sums(method, np.zeros((900, 100)), np.arange(900) % 2, None, np.zeros(100), 2)


@pytest.mark.parametrize("method", [wide, compact])
def test_float32_products_are_close(method):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(20_000, 200)).astype(np.float32), generator.integers(0, 2, 20_000)
    batch = Batch.of(X, y)
    _, single = method(batch, np.zeros(200), 2, precision="float32")
    _, double = method(batch, np.zeros(200), 2)
    for one, other in zip(single, double, strict=True):
        difference = np.abs(one - other).max() / np.abs(other).max()
        assert 0 < difference < 1e-6


@pytest.mark.parametrize("method", [wide, compact])
def test_only_unweighted_8_bit_integers_about_integers_are_multiplied_in_float32(method):
    generator = np.random.default_rng(0)
    X, y = generator.integers(0, 256, (900, 12)), generator.integers(0, 2, 900)
    whole, between = np.full(12, 100.0), np.full(12, 100.3)
    assert_sums(method, X.astype(np.uint8), y, generator.random(900), whole, 2)
    assert_sums(method, X.astype(np.uint8), y, None, between, 2)
    assert_sums(method, X.astype(np.uint8), y, None, np.full(12, 1000.0), 2)
    assert_sums(method, (100 * X).astype(np.int16), y, None, whole, 2)


@pytest.mark.parametrize("dtype", ["f2", ">f8", ">i4", "g"])
def test_dtypes_without_compiled_functions_are_summed(dtype):
    generator = np.random.default_rng(0)
    X, y = generator.integers(0, 9, (900, 100)).astype(dtype), generator.integers(0, 2, 900)
    assert_sums(compact, X, y, None, np.zeros(100), 2)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("rows", "features"), [(3_000, 7), (1, 3), (50, 1100)])
def test_sums_of_mapped_rows_are_sums_of_the_features(compiled, workers, rows, features):
    generator = np.random.default_rng(rows)
    X, y = generator.normal(size=(rows, 5)) * (generator.random((rows, 5)) < 0.1), generator.integers(0, 3, rows)
    one = Fourier(features, precision="float64").freeze(generator.normal(size=(50, 5)))
    weights, anchor = generator.choice([0.25, 2.0], rows), generator.normal(size=features)
    for source, given in ((X, None), (np.asfortranarray(X), weights), (sparse.csr_array(X), weights)):
        batch = Batch.of(source, y, given)
        totals, grams = wide(batch, anchor, workers, jit=GRAM_JIT.load() if compiled else None, features=one)
        counted = np.ones(rows) if given is None else given
        expected = by_formula(one.transform(X), batch.labels.codes, counted, anchor, len(batch.labels.classes))
        scale = np.abs(expected[1]).max()
        assert np.abs(totals - expected[0]).max() < 1e-12 * scale
        assert np.abs(np.array(grams) - expected[1]).max() < 1e-12 * scale


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_mostly_zero_columns_are_multiplied_with_all_others(kind, weighted, seed):
    generator = np.random.default_rng(seed)
    width, rows = int(generator.integers(65, 120)), int(generator.integers(1, 3_000))
    # Columns of each density in runs, which are too short to be separated for every third seed.
    length = 1 if seed % 3 == 2 else 6
    densities = np.repeat(generator.choice([0.0, 0.001, 0.01, 0.05, 1 / 6, 0.3, 1.0], width), length)[:width]
    X = (generator.integers(1, 256, (rows, width)) * (generator.random((rows, width)) < densities)).astype(kind)
    weights = generator.choice([0.0, 0.25, 2.0], rows) if weighted else None
    if weighted:
        weights[0] = 1.0
    anchor = np.where(generator.random(width) < 0.2, generator.choice([3.0, 0.5], width), 0.0)
    X[:, anchor > 0] = np.where(X[:, anchor > 0] == 0, anchor[anchor > 0], X[:, anchor > 0]).astype(kind)
    assert_sums(compact, X, generator.integers(0, 2, rows), weights, anchor, 2)
    if kind is np.uint8 and not weighted:
        _, grams = compact(Batch.of(X, np.zeros(rows, dtype=int)), np.zeros(width), 2)
        np.testing.assert_array_equal(grams[0], X.T.astype(np.int64) @ X.astype(np.int64))


def test_nan_or_infinity_in_a_mostly_zero_column_reaches_the_sums():
    X = np.zeros((600, 80))
    X[:, :40] = np.random.default_rng(0).normal(size=(600, 40))
    for value in (np.nan, np.inf):
        X[17, 70] = value
        _, grams = compact(Batch.of(X, np.zeros(600, dtype=int)), np.zeros(80), 1)
        assert not np.isfinite(grams[0][70, 70])


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 100])
@pytest.mark.parametrize("fixed", [False, True])
def test_compiled_triangles_match_numpy(width, fixed):
    rng = np.random.default_rng(width)
    gram = rng.normal(size=(width, width))
    gram += gram.T
    line, whole = np.empty(width * (width + 1) // 2), np.empty((width, width))
    gram.flags.writeable = not fixed
    jit = GRAM_JIT.load().triangles
    jit.pack(gram, line)
    np.testing.assert_array_equal(line, gram[np.triu_indices(width)])
    line.flags.writeable = not fixed
    jit.unpack(line, whole)
    jit.mirror(whole)
    np.testing.assert_array_equal(whole, gram)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 40])
def test_numbers_are_added_to_a_triangle_from_any_entry_on(width, compiled, monkeypatch):
    GRAM_JIT.load()
    monkeypatch.setattr(GRAM_JIT, "enabled", compiled)
    rng, upper = np.random.default_rng(width), np.triu_indices(width)
    gram, line = rng.normal(size=(width, width)), rng.normal(size=len(upper[0]))
    expected = gram.copy()
    expected[upper] += line
    for size in {1, 2, width - 1, width, width + 1, 3 * width, len(line)} - {0}:
        total = gram.copy()
        for first in range(0, len(line), size):
            add_to_triangle(line[first : first + size], first, total)
        np.testing.assert_array_equal(total, expected)
