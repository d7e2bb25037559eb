"""Compiled score updates against sums of kernel values."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_reference import KERNELS, normal_rows
from mergesvm.methods.kernel.jit.scores import add_between_classes, add_within_classes


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_uncached_updates_add_steps_times_kernel_values(kernel):
    """Classes of 20, 15 and 15 rows; problems of the first two with the third. The second class has no steps."""
    X, Z, steps = normal_rows(50), normal_rows(9, seed=1), np.random.default_rng(5).normal(size=6)
    dtype, codes = np.dtype(np.float64), np.array([2, 2, 1, 0, 0, 1, 0, 2, 0])
    pairs, starts = np.array([[0, 2], [1, 2]]), np.array([[0, 20], [35, 50]])
    counts, offsets = np.array([[20, 15], [15, 15]]), np.array([[0, 35], [20, 35]])
    step_starts, ids, score = np.array([0, 4, 6]), np.array([8, 0, 3, 7, 7, 1]), np.ones(65)
    shared = kernel.turn(kernel.lift(Z, dtype)).matrix
    arguments = starts, counts, offsets, kernel.lift(X, dtype).matrix, step_starts, ids, steps, shared
    sides, side_starts = np.array([0, 2, 1, 3]), np.array([0, 1, 2, 4])
    used, used_starts = np.array([3, 8, 0, 1, 7]), np.array([0, 2, 2, 5])
    add_within_classes(score, sides, side_starts, *arguments, used, used_starts, kernel.jit_parameters)
    add_between_classes(score, pairs, codes, *arguments, kernel.jit_parameters)
    first = kernel(X[np.r_[:20, 35:50]], Z[ids[:4]]) @ steps[:4]
    second = kernel(X[20:], Z[ids[4:]]) @ steps[4:]
    np.testing.assert_allclose(score, 1 + np.concatenate([first, second]), rtol=1e-12, atol=1e-12)
