"""Rows that are appended in batches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from kernel_reference import normal_rows
from mergesvm.methods.kernel.row_store import RowStore


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_a_store_holds_all_appended_rows(convert):
    generator, store, whole = np.random.default_rng(0), RowStore(), np.zeros((0, 5))
    for seed, size in enumerate([3, 0, 1, 1, 10, 2, 40, 1, 1, 1]):
        store.append(convert(normal_rows(size, seed=seed)))
        whole = np.vstack([whole, normal_rows(size, seed=seed)])
        assert len(store) == len(whole)
        positions = generator.integers(0, len(whole), 2 * len(whole))
        taken = store.take(positions)
        np.testing.assert_array_equal(taken if convert is np.asarray else taken.toarray(), whole[positions])
    assert store.take(np.zeros(0, np.int64)).shape == (0, 5)
