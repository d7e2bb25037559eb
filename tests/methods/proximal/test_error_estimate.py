"""The estimated error of scores: never far below the true error, and small on everyday data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn import datasets
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import mergesvm as ms
from mergesvm.errors import SolverWarning
from reference import scores_by_mpmath


def ill_conditioned(kind, generator):
    """Rows of which some columns are almost determined by others."""
    rows, width = int(generator.integers(12, 30)), int(generator.integers(3, 8))
    Z = generator.normal(size=(rows, width))
    if kind == "rotated":
        turn = np.linalg.qr(generator.normal(size=(width, width)))[0]
        return Z @ np.diag(10.0 ** generator.uniform(-7, 0, width)) @ turn
    if kind == "powers":
        return np.vander(generator.uniform(-1, 1, rows) + generator.normal(), width + 1)[:, :-1]
    if kind == "copied":
        return np.hstack([Z, Z[:, :1] + 10.0 ** generator.uniform(-7, -1) * generator.normal(size=(rows, 1))])
    return (Z + 10.0 ** generator.uniform(0, 5)) * 10.0 ** generator.uniform(-4, 4, width)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["rotated", "powers", "copied", "far"])
def test_the_true_error_is_not_far_above_the_estimate(kind, seed):
    generator = np.random.default_rng(seed)
    X = ill_conditioned(kind, generator)
    y, C, free = np.arange(len(X)) % 2, 10.0 ** generator.uniform(-3, 8), bool(seed % 2)
    expected = scores_by_mpmath(X, 2 * y - 1, np.ones(len(y)), C, X, not free)
    merged = ms.merge([ms.learn(X[i::3], y[i::3]) for i in range(3)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        models = [ms.solve(k, C, penalize_intercept=not free) for k in (ms.learn(X, y), merged)]
        models.append(ms.path(merged, [C], penalize_intercept=not free)[0])
    for model in models:
        # Scores are themselves rounded, by the size of their terms.
        scoring = 1e-15 * (1 + (np.abs(X - model.anchor_) @ np.abs(model.coef_[0])).max())
        assert np.abs(model.scores(X)[:, 0] - expected).max() < 10 * model.rounding_ + scoring


DATA = [
    (name, scaled)
    for name in ("load_iris", "load_wine", "load_breast_cancer", "load_digits")
    for scaled in (False, True)
]


@pytest.mark.parametrize(("name", "scaled"), DATA)
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_everyday_data_do_not_warn(name, scaled, multiclass):
    X, y = getattr(datasets, name)(return_X_y=True)
    X = StandardScaler().fit_transform(X) if scaled else X
    path = ms.path(ms.learn(X, y), [1.0, 1e6], multiclass=multiclass)
    assert max(model.rounding_ for model in path) < 1e-10
    assert ms.solve(ms.learn(X, y), multiclass=multiclass).rounding_ < 1e-11


def test_digits_lost_to_features_that_determine_each_other_are_not_lost_silently():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    X, y = PolynomialFeatures(2, include_bias=False).fit_transform(X)[::3], y[::3]
    whole, merged = ms.learn(X, y), ms.learn(X[::2], y[::2]) + ms.learn(X[1::2], y[1::2])
    for C in (1.0, 1e6):
        with pytest.warns(SolverWarning, match="Rounding of the sums changes scores by about"):
            one, other = (ms.solve(k, C) for k in (whole, merged))
        assert np.abs(one.scores(X) - other.scores(X)).max() < 10 * one.rounding_


def test_a_direction_that_decides_is_not_dropped_silently():
    generator = np.random.default_rng(0)
    x = generator.normal(size=60)
    y = np.arange(60) % 2
    X = np.c_[x, x + 1e-7 * (2 * y - 1)]  # the difference of two almost equal columns is the label
    with pytest.warns(SolverWarning):
        model = ms.solve(ms.learn(X, y), C=1e30)
    assert model.rounding_ > 1e-8


def test_models_without_an_estimate_have_none(tmp_path):
    X, y = datasets.load_iris(return_X_y=True)
    model = ms.solve(ms.learn(X, y))
    assert 0 < model.rounding_ < 1e-12
    assert ms.MergeSVC().fit(X, y).model_.rounding_ == model.rounding_
    assert ms.solve(ms.learn(X[:100], y[:100])).with_threshold(0.1).rounding_ > 0
    live = ms.RecursiveSVC().fit(X, y).model_
    assert live.rounding_ is None
    live.save(tmp_path / "m.msvm")
    assert ms.load_model(tmp_path / "m.msvm").rounding_ is None
