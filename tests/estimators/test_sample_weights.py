"""Weights mean the same in every estimator and in ms.solve: a row of weight n counts as n rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.class_weight import compute_class_weight

import mergesvm as ms
from mergesvm import MergeSVC, MergeSVCCV, PegasosSVC, RecursiveSVC
from reference import blobs

MACHINES = [
    MergeSVC(class_weight="balanced"),
    MergeSVC(class_weight="balanced", multiclass="ovo", standardize=True),
    MergeSVC(class_weight="inverse"),
    MergeSVC(class_weight="complement", penalize_intercept=False),
    MergeSVCCV([0.1, 10.0], "balanced", cv=3),
    PegasosSVC(0.01, 2000, class_weight="balanced"),
    PegasosSVC(0.01, 2000, "ovr", class_weight="complement"),
    RecursiveSVC(class_weight="balanced"),
]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("machine", MACHINES, ids=repr)
def test_class_weights_do_not_count_rows_where_samples_have_weights(machine, classes):
    X, y = blobs(seed=50, n=200, d=3, classes=classes)
    weights = np.random.default_rng(0).integers(0, 5, len(y)) * (1 + 2 * (y == 0))
    repeated = np.repeat(np.arange(len(y)), weights)
    weighted = clone(machine).fit(X, y, sample_weight=weights)
    stacked = clone(machine).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(weighted.decision_function(X), stacked.decision_function(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(weighted.predict_proba(X), stacked.predict_proba(X), rtol=1e-6, atol=1e-8)


def test_balanced_weights_are_those_of_scikit_learn():
    X, y = blobs(seed=51, n=100, d=3, classes=2)
    weights = np.random.default_rng(1).exponential(size=len(y))
    given = compute_class_weight("balanced", classes=np.array([0, 1]), y=y, sample_weight=weights)
    by_hand = ms.solve(ms.learn(X, y, weights), class_weight=dict(enumerate(given)))
    balanced = ms.solve(ms.learn(X, y, weights), class_weight="balanced")
    np.testing.assert_allclose(balanced.coef_, by_hand.coef_, rtol=1e-12)
    recursive = RecursiveSVC(class_weight="balanced").fit(X, y, weights)
    np.testing.assert_allclose(recursive.coef_, balanced.coef_, rtol=1e-9)
