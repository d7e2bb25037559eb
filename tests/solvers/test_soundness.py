from __future__ import annotations

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.solvers.soundness import check_sound
from reference import blobs


@pytest.mark.parametrize("per_class", [True, False])
def test_taking_back_other_rows_is_found_out_when_solving(per_class):
    X, y = blobs(n=50, classes=2)
    wrong = ms.learn(X, y, per_class=per_class) - ms.learn(X[:40] * 5, y[:40], per_class=per_class)
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
        left = left - ms.learn(X[part], y[part], precision=precision)
        check_sound(left)
    assert left.rows.sum() == 10


def test_what_was_taken_back_wrongly_is_not_hidden_by_what_comes_after():
    X, y = blobs(n=50, classes=2)
    wrong = ms.learn(X, y) - ms.learn(X[:40] * 5, y[:40])
    more = ms.learn(X[:5] / 10, y[:5])
    for later in (wrong + more, more + wrong, (wrong + more) - more):
        with pytest.raises(ms.errors.IndefiniteError):
            ms.solve(later)


def test_the_largest_sums_are_remembered_through_all_that_follows():
    X, y = blobs(n=90, d=4, classes=2, offset=1.0)
    whole, one, two = ms.learn(X, y), ms.learn(X[:30], y[:30]), ms.learn(X[30:60], y[30:60])
    diagonals = np.array([gram.diagonal() for gram in whole.grams])
    assert (whole.peaks == 0).all()
    for left in (whole - one, (whole - one) - two, ((whole - one) - two) + one, one + ((whole - one) - two)):
        assert (left.peaks >= diagonals).all()


def test_a_negative_variance_is_found_where_the_sum_of_squares_is_still_positive():
    X = np.r_[np.arange(10.0) + 3.0, -100.0, 100.0][:, None]
    whole = ms.learn(X, ["a"] * 10 + ["b"] * 2, anchor=np.zeros(1))
    wrong = whole - ms.learn(np.full((5, 1), 2.0), ["a"] * 5, anchor=np.zeros(1))
    assert wrong.anchor[0] == 0
    assert 0 < wrong.grams[0][0, 0] < wrong.sums[0, 0] ** 2 / wrong.counts[0]
    with pytest.raises(ms.errors.IndefiniteError, match="class 'a'"):
        ms.solve(wrong)
