"""Learners of a tag, and the scores of their models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.svm import SVC

from mergesvm.estimators.parallel_kernel_svc import ParallelKernelSVC
from mergesvm.tagging.learners import KernelScorer


def rows(scale: float, seed: int = 0) -> NDArray[np.float32]:
    """Rows of which one value in ten is not zero, one of them empty."""
    generator = np.random.default_rng(seed)
    X = scale * generator.random((120, 40)) * (generator.random((120, 40)) < 0.1)
    X[7] = 0
    return X.astype(np.float32)


@pytest.mark.parametrize(
    ("kernel", "scale", "gamma"),
    [("rbf", 5.0, 0.004), ("rbf", 5e4, 0.1), ("linear", 1.0, 1.0)],  # the second does not fit float32
)
@pytest.mark.parametrize("stored", [np.asarray, sparse.csr_array])
def test_scores_of_a_kernel_model_are_those_of_scikit_learn(
    kernel: str, scale: float, gamma: float, stored: Any
) -> None:
    X, new = rows(scale), rows(scale, seed=1)
    y = X[:, :20].sum(axis=1) > X[:, 20:].sum(axis=1)
    options = {"kernel": kernel, "gamma": gamma, "C": 10.0, "tol": 1e-6}
    scorer = KernelScorer(ParallelKernelSVC(**options).fit(stored(X), y).model_)
    expected = SVC(**options).fit(X, y).decision_function(new)
    scores = scorer.scores(sparse.csr_array(new))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected, atol=2e-4 * np.abs(expected).max())
