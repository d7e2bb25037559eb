"""Without an intercept: against the closed form on the stacked rows, in everything that solves."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mergesvm as ms
from reference import blobs, side_weights


def coefs_by_qr(X, y, weights, C):
    """w of a binary problem without an intercept, y in {-1, +1}, by least squares on the stacked rows."""
    root = np.sqrt(weights)
    stacked = np.vstack([X * root[:, None], np.eye(X.shape[1]) / np.sqrt(C)])
    return np.linalg.lstsq(stacked, np.concatenate([root * y, np.zeros(X.shape[1])]), rcond=None)[0]


def one_vs_rest(X, y, C, scheme=None):
    rows = []
    for label in np.unique(y):
        inside = y == label
        sides = side_weights(scheme, float(inside.sum()), float((~inside).sum()))
        rows.append(coefs_by_qr(X, np.where(inside, 1, -1), np.where(inside, *sides), C))
    return np.array(rows)


@pytest.mark.parametrize("offset", [0.0, 3.0, 1e4])
@pytest.mark.parametrize("scheme", [None, "balanced"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e4])
def test_an_intercept_of_zero_is_not_anywhere_but_at_the_original_origin(offset, scheme, C):
    X, y = blobs(seed=1, n=90, d=4, classes=3, offset=offset)
    model = ms.solve(ms.learn(X, y), C, scheme, fit_intercept=False)
    expected = one_vs_rest(X, y, C, scheme)
    np.testing.assert_allclose(model.scores(X), X @ expected.T, atol=1e-9)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-9)
    assert (model.intercept_ == 0).all()
    merged = ms.merge([ms.learn(X[i::4], y[i::4]) for i in range(4)])
    np.testing.assert_allclose(ms.solve(merged, C, scheme, fit_intercept=False).scores(X), model.scores(X), atol=1e-9)


def test_pairs_units_and_pooled_sums_do_not_bring_an_intercept_back():
    X, y = blobs(seed=2, n=120, d=3, classes=3, offset=4.0)
    k = ms.learn(X, y)
    pairwise = ms.solve(k, 2.0, multiclass="ovo", fit_intercept=False)
    for problem, (first, second) in enumerate(pairwise.pairs_):
        pair = (y == first) | (y == second)
        expected = coefs_by_qr(X[pair], np.where(y[pair] == second, 1, -1), np.ones(pair.sum()), 2.0)
        np.testing.assert_allclose(pairwise.coef_[problem], expected, atol=1e-11)
    standardized = ms.solve(k, 2.0, standardize=True, fit_intercept=False)
    np.testing.assert_allclose(standardized.coef_, one_vs_rest(X / X.std(axis=0), y, 2.0) / X.std(axis=0), atol=1e-11)
    pooled = ms.solve(ms.learn(X, y, per_class=False), 2.0, fit_intercept=False)
    np.testing.assert_allclose(pooled.coef_, one_vs_rest(X, y, 2.0), atol=1e-11)
    for model in (pairwise, standardized, pooled):
        assert (model.intercept_ == 0).all()


@pytest.mark.parametrize("standardize", [False, True])
def test_no_analysis_solves_with_an_intercept_after_all(standardize):
    X, y = blobs(seed=3, n=100, d=3, classes=3, offset=2.0)
    options = {"standardize": standardize, "fit_intercept": False}
    k = ms.learn(X, y)
    for C, model in zip([0.1, 1e5], ms.path(k, [0.1, 1e5], **options), strict=True):
        np.testing.assert_allclose(model.scores(X), ms.solve(k, C, **options).scores(X), atol=1e-10)
        assert (model.intercept_ == 0).all()
    pieces = [ms.learn(X[i::4], y[i::4]) for i in range(4)]
    found = ms.influence(pieces, keep_coefs=True, **options)
    for left_out in range(4):
        kept = np.arange(100) % 4 != left_out
        expected = ms.solve(ms.learn(X[kept], y[kept]), **options).coef_
        np.testing.assert_allclose(found.coefs_without[left_out], expected, atol=1e-10)
    elimination = ms.eliminate(k, **options)
    left = elimination.features(2)
    rest = ms.solve(k.select(left), **options).scores(X[:, left])
    loss = np.mean([((1 - np.where(y == c, 1, -1) * rest[:, c]) ** 2).mean() for c in range(3)])
    assert elimination.loss[1] == pytest.approx(loss, rel=1e-9)


def test_held_out_losses_are_those_of_models_without_an_intercept():
    X, y = blobs(seed=4, n=100, d=3, classes=2, offset=2.0)
    numbers = np.arange(100) % 4
    validation = ms.validate(ms.learn(X, y, folds=numbers), Cs=[0.5, 20.0], fit_intercept=False)
    for at, C in enumerate([0.5, 20.0]):
        losses = []
        for fold in range(4):
            w = coefs_by_qr(X[numbers != fold], 2 * y[numbers != fold] - 1, np.ones(75), C)
            signs = 2 * y[numbers == fold] - 1
            losses.append(((1 - signs * (X[numbers == fold] @ w)) ** 2).mean())
        assert -validation.mean()[at] == pytest.approx(np.mean(losses), rel=1e-10)
    assert (validation.solve().intercept_ == 0).all()


def test_estimators_and_files_keep_the_choice(tmp_path):
    X, y = blobs(seed=5, n=80, d=3, classes=3, offset=1.0)
    machine = ms.MergeSVC(fit_intercept=False).fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    np.testing.assert_allclose(machine.coef_, one_vs_rest(X, y, 1.0), atol=1e-11)
    assert (machine.intercept_ == 0).all()
    assert machine.resolve(fit_intercept=True).intercept_.all()
    chosen = ms.MergeSVCCV(Cs=[1.0], cv=4, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(chosen.coef_, one_vs_rest(X, y, 1.0), atol=1e-11)
    model = ms.solve(ms.learn(X, y), fit_intercept=False)
    model.save(tmp_path / "m.msvm")
    loaded = ms.load_model(tmp_path / "m.msvm")
    assert loaded.domain.options["fit_intercept"] is False
    assert (loaded.intercept_ == 0).all()
    assert loaded.rounding_ == model.rounding_
    np.testing.assert_array_equal(loaded.scores(X), model.scores(X))
    ms.report(ms.learn(X, y, folds=3), tmp_path / "r.json", fit_intercept=False)
    json.loads((tmp_path / "r.json").read_text())


def test_flags_that_are_not_boolean_are_refused():
    X, y = blobs(seed=5, n=30, d=2, classes=2)
    with pytest.raises(ms.errors.ParameterError, match="fit_intercept must be"):
        ms.solve(ms.learn(X, y), fit_intercept="no")
