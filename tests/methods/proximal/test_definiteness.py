from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

import mergesvm as ms
from mergesvm.engines import Threads
from mergesvm.features import Fourier, HiddenLayer, Nystroem, Patches
from mergesvm.methods.proximal.definiteness import check_sound
from reference import blobs


@pytest.mark.parametrize("per_class", [True, False])
def test_taking_back_other_rows_is_found_out_when_solving(per_class):
    X, y = blobs(n=50, classes=2)
    whole, other = ms.learn(X, y, per_class=per_class), ms.learn(X[:40] * 5, y[:40], per_class=per_class)
    wrong = ms.subtract(whole, other, force=True)
    with pytest.raises(ms.errors.IndefiniteError, match="had never been added"):
        ms.solve(wrong)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("width", [3, 120])
def test_honest_retirement_is_never_refused(precision, width):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(30_000, width)).astype(precision) + 5, generator.integers(0, 2, 30_000)
    X[:, 0] *= 1e6
    X[:, 1] = X[:, 2]
    left = ms.learn(X, y, precision=precision)
    for start in range(0, 29_990, 2_999):
        part = slice(start, start + 2_999)
        left = ms.subtract(left, ms.learn(X[part], y[part], precision=precision), force=True)
        check_sound(left)
    assert left.rows.sum() == 10


def test_wrong_subtractions_are_not_hidden_by_later_additions():
    X, y = blobs(n=50, classes=2)
    wrong = ms.subtract(ms.learn(X, y), ms.learn(X[:40] * 5, y[:40]), force=True)
    more = ms.learn(X[:5] / 10, y[:5])
    for later in (wrong + more, more + wrong, (wrong + more) - more):
        with pytest.raises(ms.errors.IndefiniteError):
            ms.solve(later)


def test_the_largest_sums_are_remembered_through_all_that_follows():
    X, y = blobs(n=90, d=4, classes=2, offset=1.0)
    whole, one, two = ms.learn(X, y), ms.learn(X[:30], y[:30]), ms.learn(X[30:60], y[30:60])
    diagonals = np.array([gram.diagonal() for gram in whole.grams])
    assert (whole.peaks == 0).all()
    less = ms.subtract(whole, one, force=True)
    least = ms.subtract(less, two, force=True)
    for left in (less, least, least + one, one + least):
        assert (left.peaks >= diagonals).all()


def test_a_negative_variance_is_found_where_the_sum_of_squares_is_still_positive():
    X = np.r_[np.arange(10.0) + 3.0, -100.0, 100.0][:, None]
    whole = ms.learn(X, ["a"] * 10 + ["b"] * 2, anchor=np.zeros(1))
    wrong = ms.subtract(whole, ms.learn(np.full((5, 1), 2.0), ["a"] * 5, anchor=np.zeros(1)), force=True)
    assert wrong.anchor[0] == 0
    assert 0 < wrong.grams[0][0, 0] < wrong.sums[0, 0] ** 2 / wrong.counts[0]
    with pytest.raises(ms.errors.IndefiniteError, match="class 'a'"):
        ms.solve(wrong)


MAPS = [
    HiddenLayer(200, fields="rectangles"),
    HiddenLayer(200, activation="tanh", fields="rectangles", seed=2),
    Fourier(200, fields="rectangles", seed=1),
    Patches(6, size=3, pooling=7, seed=1),
    Nystroem(200),
]
TOO_FINE = pytest.param(
    Nystroem(200, detail=0.1),
    "float32",
    id="Nystroem(200, detail=0.1)",
)


@pytest.mark.parametrize(
    ("features", "precision"),
    [*(pytest.param(one, kind, id=f"{one} {kind}") for one in MAPS for kind in ("float64", "float32")), TOO_FINE],
)
def test_honest_retirement_of_mapped_rows_is_never_refused(features, precision):
    X, y = load_digits(n_class=3, return_X_y=True)
    features = replace(features, precision=precision).freeze(X)
    left = whole = ms.learn(X, y, features=features)
    parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 12)
    with Threads.single_threaded_blas():
        for part in parts[:-1]:
            left = ms.subtract(left, ms.learn(X[part], y[part], features=features), force=True)
            check_sound(left)
        assert left.rows.sum() == len(parts[-1])
        # And yet other rows are found out.
        with pytest.raises(ms.errors.IndefiniteError):
            check_sound(ms.subtract(whole, ms.learn(X[:100] * 1.5, y[:100], features=features), force=True))


@pytest.mark.parametrize("per_class", [True, False])
@pytest.mark.parametrize("features", [Fourier(20), None])
def test_only_in_a_drawn_feature_that_hardly_varies_rounding_is_forgiven(features, per_class):
    X, y = load_digits(n_class=3, return_X_y=True)
    terms = {"features": features and features.freeze(X), "per_class": per_class}
    left = ms.subtract(ms.learn(X, y, **terms), ms.learn(X[:99], y[:99], **terms), force=True)
    usual = left.peaks.mean()

    def spoiled(share):
        """Column 3 as if its squares had never been more than this share of what is usual, and are negative now."""
        grams, peaks, sums = [gram.copy() for gram in left.grams], left.peaks.copy(), left.sums.copy()
        for gram in grams:
            gram[3], gram[:, 3] = 0.0, 0.0
            gram[3, 3] = -share * usual
        peaks[:, 3], sums[:, 3] = share * usual, 0.0
        return replace(left, grams=tuple(grams), peaks=peaks, sums=sums)

    check_sound(left)
    if features is not None:
        check_sound(spoiled(1e-14))
    for share in (1e-2,) if features is not None else (1e-2, 1e-14):
        with pytest.raises(ms.errors.IndefiniteError):
            check_sound(spoiled(share))


def test_honest_rows_of_very_unequal_weight_are_sound():
    generator = np.random.default_rng(0)
    for _ in range(300):
        X = 100 + generator.normal(size=(3, 2))
        weights = generator.choice([0.1, 1.0, 1000.0], 3)
        check_sound(ms.learn(X, [1, 2, 2], weights))
