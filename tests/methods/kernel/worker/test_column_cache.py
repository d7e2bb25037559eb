"""Cached columns of the kernel matrix are those of the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from kernel_reference import KERNELS, normal_rows
from mergesvm.methods.kernel.row_store import LiftedStore
from mergesvm.methods.kernel.worker.column_cache import ColumnCache


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("capacity", [1, 70, 1000])
def test_columns_are_right_at_any_capacity(capacity, kernel, convert):
    generator, dtype = np.random.default_rng(1), np.dtype(np.float64)
    X, others = normal_rows(50), normal_rows(300, seed=2)
    cache, shared = ColumnCache(kernel, kernel.lift(convert(X.copy()), dtype), dtype, capacity), LiftedStore()
    order = np.arange(50)
    for iteration in range(12):
        shared.append(kernel.turn(kernel.lift(convert(others[25 * iteration : 25 * iteration + 25]), dtype)))
        if iteration in (4, 6):  # half of the active rows are shrunk
            permutation = generator.permutation(cache.n_active)
            order[: cache.n_active] = order[permutation]
            cache.shrink(permutation, cache.n_active // 2)
        if iteration == 8:
            cache.unshrink()
        ids = np.unique(generator.integers(0, len(shared), 200))
        truth = kernel(others[ids], X[order[: cache.n_active]])
        count = 0
        for part, slots in cache.fetch(ids, shared):
            found = cache.columns[slots, : cache.n_active]
            np.testing.assert_allclose(found, truth[part], rtol=1e-9, atol=1e-9)
            count += len(slots)
        assert count == len(ids)
    assert cache.n_cached <= cache.capacity


def test_cached_columns_are_not_computed_again():
    kernel, dtype, shared = KERNELS[0], np.dtype(np.float64), LiftedStore()
    cache = ColumnCache(kernel, kernel.lift(normal_rows(50), dtype), dtype, 100)
    shared.append(kernel.turn(kernel.lift(normal_rows(80, seed=3), dtype)))
    for ids in (np.arange(40), np.arange(20), np.arange(30, 60)):
        list(cache.fetch(ids, shared))
    assert cache.n_computed == 60 * 50
