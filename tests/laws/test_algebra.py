"""The laws of the algebra of knowledge, also for tiny, one-class, zero-weight, distant and degenerate pieces."""

from __future__ import annotations

import functools
import operator
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mergesvm as ms
from reference import assert_same_knowledge, assert_same_scores

GRID = np.arange(-3.0, 3.25, 0.25)


@st.composite
def rows(draw, min_rows=1, max_rows=14):
    """Rows with labels and weights: offsets, constant and duplicate features, absent classes, zero weights."""
    n, width = draw(st.integers(min_rows, max_rows)), draw(st.shared(st.integers(1, 4), key="width"))
    values = draw(st.lists(st.sampled_from(GRID), min_size=n * width, max_size=n * width))
    X = np.array(values).reshape(n, width) + draw(st.shared(st.sampled_from([0.0, 1e2, 1e6]), key="offset"))
    shape = draw(st.shared(st.sampled_from(["free", "constant", "duplicate"]), key="shape"))
    if shape == "constant":
        X[:, 0] = 5.0
    elif shape == "duplicate":
        X[:, -1] = X[:, 0]
    classes = draw(st.sampled_from(["abc", "ab", "bc", "a", "c"]))
    y = draw(st.lists(st.sampled_from(classes), min_size=n, max_size=n))
    if draw(st.shared(st.booleans(), key="weighted")):
        weights = np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n)))
    else:
        weights = np.ones(n)
    return X, np.array(y), weights


def stack(*parts):
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


per_class = st.shared(st.booleans(), key="form")


def assert_same(one, other, X):
    assert_same_knowledge(one, other)
    if one.labels:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert_same_scores(one, other, X)


@given(rows(), per_class)
def test_zero_is_neutral(part, form):
    k = ms.learn(*part, per_class=form)
    zero = ms.Knowledge.zero(k.signature)
    assert_same(k + zero, k, part[0])
    assert_same(zero + k, k, part[0])
    assert_same_knowledge(k - zero, k)


@given(rows(), rows(), per_class)
def test_addition_commutes(one, other, form):
    a, b = ms.learn(*one, per_class=form), ms.learn(*other, per_class=form)
    assert_same(a + b, b + a, one[0])


@given(rows(), rows(), rows(), per_class)
def test_addition_associates(one, two, three, form):
    a, b, c = (ms.learn(*part, per_class=form) for part in (one, two, three))
    assert_same((a + b) + c, a + (b + c), two[0])
    assert_same(ms.merge([a, b, c]), sum([a, b, c]), two[0])


@given(rows(), rows(), per_class)
def test_a_sum_is_the_knowledge_of_all_rows(one, other, form):
    whole = stack(one, other)
    assert_same(
        ms.learn(*one, per_class=form) + ms.learn(*other, per_class=form), ms.learn(*whole, per_class=form), whole[0]
    )


@given(rows(min_rows=2), st.data(), per_class)
def test_any_partition_and_order_gives_the_batch(part, data, form):
    X, y, weights = part
    order = np.array(data.draw(st.permutations(range(len(X)))))
    cuts = data.draw(st.lists(st.integers(1, len(X) - 1), max_size=4, unique=True))
    pieces = [ms.learn(X[at], y[at], weights[at], per_class=form) for at in np.split(order, sorted(cuts))]
    assert_same(functools.reduce(operator.add, pieces), ms.learn(X, y, weights, per_class=form), X)


@given(rows(), rows(), per_class)
def test_subtraction_undoes_addition(one, other, form):
    a, b = ms.learn(*one, per_class=form), ms.learn(*other, per_class=form)
    assert_same((a + b) - b, a, one[0])


@given(rows(), rows(), per_class)
def test_subtracting_everything_gives_exactly_zero(one, other, form):
    a, b = ms.learn(*one, per_class=form), ms.learn(*other, per_class=form)
    zero = (a + b) - a - b
    assert zero.labels == ()
    assert zero.grams == ()
    assert_same(zero + a, a, one[0])


@given(rows(), st.sampled_from([0.0, -3.0, 1e3]), per_class)
def test_the_anchor_does_not_matter(part, anchor, form):
    k = ms.learn(*part, per_class=form)
    # Rounding errors grow with the squared distance of the anchor.
    moved = k.about(k.anchor + anchor).about(k.anchor)
    assert_same_knowledge(moved, k, tolerance=1e-9 + 1e-13 * anchor**2)


@given(rows(), per_class)
def test_single_classes_add_up_to_the_whole(part, form):
    X, y, weights = part
    pieces = [ms.learn(X[y == c], y[y == c], weights[y == c], per_class=form) for c in np.unique(y)]
    assert_same(ms.merge(pieces), ms.learn(X, y, weights, per_class=form), X)


@given(rows())
def test_a_row_of_weight_zero_does_not_count(part):
    X, y, weights = part
    counted = weights > 0
    k = ms.learn(X, y, weights)
    assert k.rows.sum() == counted.sum()
    if counted.any():
        assert_same(k, ms.learn(X[counted], y[counted], weights[counted]), X)
    else:
        assert k.labels == ()


@given(rows())
def test_a_row_of_weight_two_counts_twice(part):
    X, y, _ = part
    twice = ms.learn(np.concatenate([X, X]), np.concatenate([y, y]))
    weighted = ms.learn(X, y, np.full(len(X), 2.0))
    np.testing.assert_allclose(weighted.counts, twice.counts)
    if weighted.labels:
        assert_same_scores(weighted, twice, X)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_subtracting_most_rows_matches_learning_the_rest(offset):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(20_000, 5)) + offset, generator.integers(0, 3, 20_000)
    few, many = slice(0, 60), slice(60, None)
    rest = ms.subtract(ms.learn(X, y), ms.learn(X[many], y[many]), force=True)
    assert_same_scores(rest, ms.learn(X[few], y[few]), X[:500])
