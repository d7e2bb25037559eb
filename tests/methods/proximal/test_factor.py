"""Factors, and what is done where there is none."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.errors import SolverWarning
from mergesvm.features import HiddenLayer
from mergesvm.methods.proximal.factor import MAX_FLOAT64_NOISE, factorise
from reference import blobs

NOISE = 2.0**-20


def nearly_singular(width=40, rank=25, seed=0):
    """A matrix that products in float32 have filled with rounding where it should be empty."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(500, rank)) @ generator.normal(size=(rank, width))
    exact = rows.T @ rows
    single = rows.astype(np.float32)
    return exact, (single.T @ single).astype(np.float64)


def test_a_sound_matrix_needs_no_ridge_however_large_the_noise():
    generator = np.random.default_rng(0)
    rows, right = generator.normal(size=(300, 20)), generator.normal(size=20)
    for noise in (0.0, NOISE):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            factor = factorise(rows.T @ rows, noise)
        assert factor.solver == "cholesky"
        np.testing.assert_allclose(factor.solve(right), np.linalg.solve(rows.T @ rows, right), rtol=1e-10)


def test_noise_of_float32_is_met_by_a_ridge_that_is_named():
    exact, noisy = nearly_singular()
    right = exact @ np.random.default_rng(1).normal(size=(40, 3))
    with pytest.warns(
        SolverWarning, match=r"a ridge of \de-0\d of the diagonal was added \(solver 'ridge'\)"
    ) as caught:
        factor = factorise(noisy, NOISE)
    solve = factor.solve
    assert factor.solver == "ridge"
    share = float(str(caught[0].message).split("a ridge of ")[1].split(" ")[0])
    assert NOISE / 2 < share < 64 * NOISE
    # The solution of the exact matrix with a ridge of that size, as far as the data tell.
    expected = np.linalg.solve(exact + share * np.diag(exact.diagonal()), right)
    np.testing.assert_allclose(exact @ solve(right), exact @ expected, atol=1e-3 * np.abs(right).max())
    np.testing.assert_allclose(exact @ solve(right), right, atol=1e-3 * np.abs(right).max())
    assert np.linalg.norm(solve(right)) < 2 * np.linalg.norm(expected)
    assert solve(right[:, 0]).shape == (40,)
    np.testing.assert_allclose(solve(right[:, 0]), solve(right)[:, 0])


def test_noise_of_float64_is_met_by_eigenvectors():
    exact, _ = nearly_singular()
    for noise in (0.0, MAX_FLOAT64_NOISE / 2):
        with pytest.warns(SolverWarning, match="solved by 'eigh'"):
            assert factorise(exact, noise).solver == "eigh"


def test_a_ridge_grows_until_it_is_enough():
    exact, _ = nearly_singular()
    spoiled = exact - 1e-4 * np.diag(exact.diagonal())  # more than the noise that was said
    with pytest.warns(SolverWarning, match="a ridge of"):
        factor = factorise(spoiled, NOISE)
    assert factor.solver == "ridge"
    assert np.isfinite(factor.solve(np.ones(40))).all()


def test_a_matrix_that_no_ridge_mends_is_left_to_eigenvectors():
    with pytest.warns(SolverWarning, match="solved by 'eigh'"):
        factor = factorise(np.array([[1.0, 50.0], [50.0, 1.0]]), NOISE)
    assert np.isfinite(factor.solve(np.ones(2))).all()


def test_features_of_float32_at_a_large_c_are_solved_with_a_ridge_close_to_float64(tmp_path):
    X, y = blobs(seed=3, n=2_000, d=3, classes=3)
    found = {}
    for precision in ("float64", "float32"):
        features = HiddenLayer(150, activation="tanh", spread=0.3, seed=1, precision=precision).freeze(X)
        knowledge = ms.learn(X, y, features=features)
        if precision == "float64":
            found[precision] = ms.solve(knowledge, C=1e3)
            continue
        with pytest.warns(SolverWarning, match="solver 'ridge'"):
            found[precision] = ms.solve(knowledge, C=1e6)
    assert found["float32"].solver_ == "ridge"
    assert np.mean(found["float32"].predict(X) == found["float64"].predict(X)) > 0.99
    found["float32"].save(tmp_path / "m.msvm")
    assert ms.load_model(tmp_path / "m.msvm").solver_ == "ridge"
