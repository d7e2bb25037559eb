"""Folds: training without a fold matches learning from the other rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import mergesvm as ms
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import (
    FormError,
    KnowledgeError,
    ParameterError,
    SignatureError,
    SubtractionError,
)
from mergesvm.knowledge.fold_assignment import FoldAssignment

LABELS = np.array(["ape", "bee", "cow"])


def rows(n_rows=600, width=5, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = rng.normal(size=(n_rows, width)) @ rng.normal(size=(width, width)) + y[:, None] + offset
    return X, LABELS[y], rng.uniform(0.1, 3.0, n_rows)


def moments(X, y, weights=None):
    """Rows, weight, mean and scatter matrix of each class, by numpy."""
    weights = np.ones(len(X)) if weights is None else weights
    found = {}
    for label in sorted(set(y[weights > 0].tolist())):
        mine = (y == label) & (weights > 0)
        mean = np.average(X[mine], axis=0, weights=weights[mine])
        centred = X[mine] - mean
        found[label] = mine.sum(), weights[mine].sum(), mean, (centred * weights[mine][:, None]).T @ centred
    return found


def assert_is_of(knowledge, X, y, weights=None, tolerance=1e-9):
    """Assert that counts, means and scatter matrices match the rows."""
    expected = moments(X, y, weights)
    assert list(knowledge.labels) == list(expected)
    for at, (n_rows, count, mean, scatter) in enumerate(expected.values()):
        assert knowledge.rows[at] == n_rows
        np.testing.assert_allclose(knowledge.counts[at], count, rtol=1e-12)
        away = knowledge.sums[at] / knowledge.counts[at]
        np.testing.assert_allclose(knowledge.anchor + away, mean, rtol=1e-12, atol=1e-10)
        found = knowledge.grams[at] - knowledge.counts[at] * np.outer(away, away)
        scale = np.sqrt(np.outer(scatter.diagonal(), scatter.diagonal())).max()
        np.testing.assert_allclose(found, scatter, rtol=0, atol=tolerance * max(scale, 1e-300))


def assert_same(one, other):
    """Assert that two folds are exactly equal."""
    assert one.assignment == other.assignment
    assert one.provenance == other.provenance
    assert (one.rest is None) == (other.rest is None)
    pieces = list(zip(one.pieces(), other.pieces(), strict=True))
    for mine, theirs in [*pieces, (one.total, other.total)]:
        assert (mine.signature, mine.labels, mine.precision) == (theirs.signature, theirs.labels, theirs.precision)
        for array, again in zip(mine.arrays(), theirs.arrays(), strict=True):
            np.testing.assert_array_equal(array, again)


X, Y, _ = rows(30)


# Holding out a fold.


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_total_and_each_part_match_their_rows(offset, weighted):
    X, y, weights = rows(offset=offset)
    weights = np.where(np.arange(len(X)) % 7 == 0, 0.0, weights) if weighted else None
    folds = ms.learn(X, y, weights, folds=5)
    plain = ms.learn(X, y, weights)
    total = folds.total.about(plain.anchor)
    assert total.labels == plain.labels
    for one, other in zip(total.arrays(), plain.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * np.abs(other).max(initial=0.0))
    numbers = FoldAssignment(5).numbers(as_rows(X))
    assert len(folds) == 5
    for fold, part in enumerate(folds):
        out = numbers == fold
        assert out.sum() > 90
        assert_is_of(part, X[out], y[out], None if weights is None else weights[out])
        assert_is_of(folds.train(fold), X[~out], y[~out], None if weights is None else weights[~out])
        assert folds[fold] is part


def test_models_without_a_fold_match_training_on_the_other_rows():
    X, y, weights = rows(offset=1e6)
    folds, numbers = ms.learn(X, y, weights, folds=3), FoldAssignment(3).numbers(as_rows(X))
    for fold in range(3):
        kept = numbers != fold
        one = ms.solve(folds.train(fold), C=0.5, class_weight="balanced")
        other = ms.solve(ms.learn(X[kept], y[kept], weights[kept]), C=0.5, class_weight="balanced")
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-8)
        np.testing.assert_allclose(one.scores(X), other.scores(X), rtol=1e-8, atol=1e-8)


def test_a_class_with_all_rows_in_one_fold_is_absent_without_it():
    X, y, weights = rows(offset=1e6)
    numbers = np.where(y == "cow", 1, np.arange(len(y)) % 3)
    folds = ms.learn(X, y, weights, folds=numbers)
    assert folds.train(1).labels == ("ape", "bee")
    for fold in range(3):
        kept = numbers != fold
        assert_is_of(folds.train(fold), X[kept], y[kept], weights[kept])


@pytest.mark.parametrize("fraction", [0.9, 0.995])
def test_no_digits_are_lost_if_one_fold_has_most_of_a_class(fraction):
    X, y, weights = rows(3000, offset=1e6)
    most = (y == "bee") & (np.random.default_rng(1).random(len(y)) < fraction)
    numbers = np.where(most, 2, np.arange(len(y)) % 3)
    folds = ms.learn(X, y, weights, folds=numbers)
    for fold in range(3):
        kept = numbers != fold
        assert_is_of(folds.train(fold), X[kept], y[kept], weights[kept], tolerance=1e-10)


def test_no_digits_are_lost_if_few_rows_of_a_fold_have_most_of_the_weight():
    X, y, weights = rows(300)
    weights[::50] = 1e10
    numbers = np.where(weights > 1e9, 0, 1 + np.arange(len(y)) % 2)
    folds = ms.learn(X, y, weights, folds=numbers)
    kept = numbers != 0
    assert_is_of(folds.train(0), X[kept], y[kept], weights[kept], tolerance=1e-12)


def test_no_digits_are_lost_if_few_rows_of_a_fold_are_huge():
    X, y, _ = rows(300)
    X[:3] *= 1e9
    numbers = np.where(np.arange(len(y)) < 3, 0, 1 + np.arange(len(y)) % 2)
    folds = ms.learn(X, y, folds=numbers, anchor=np.zeros(5))
    assert_is_of(folds.train(0), X[3:], y[3:], tolerance=1e-12)


def test_no_digits_are_lost_if_pieces_are_far_apart():
    days = [rows(200, seed=day, offset=1e6 * day) for day in range(2)]
    folds = ms.Folds([ms.learn(X, y) for X, y, _ in days])
    assert_is_of(folds.train(0), *days[1][:2], tolerance=1e-12)
    assert_is_of(folds.train(1), *days[0][:2], tolerance=1e-12)


def test_a_fold_may_be_empty_and_rows_may_never_be_held_out():
    X, y, _ = rows(90)
    numbers = np.arange(len(X)) % 3 - 1
    numbers[numbers == 1] = 3
    folds = ms.learn(X, y, folds=numbers)
    assert folds.rows.tolist() == [30, 0, 0, 30]
    assert_is_of(folds.rest, X[numbers == -1], y[numbers == -1])
    assert_is_of(folds.total, X, y)
    for fold in range(4):
        kept = numbers != fold
        assert_is_of(folds.train(fold), X[kept], y[kept])
    assert "Folds of 30, 0, 0, 30 rows, and 30 rows never held out: Knowledge of 90 rows" in repr(folds)
    alone = ms.learn(X, y, folds=np.zeros(len(X), dtype=int))
    assert alone.rows.tolist() == [90, 0]
    assert alone.train(0).labels == ()
    never = ms.learn(X, y, folds=np.full(len(X), -1))
    assert_is_of(never.train(1), X, y)


def test_folds_have_negative_indices_and_others_are_refused():
    X, y, _ = rows(90)
    folds = ms.learn(X, y, folds=3)
    np.testing.assert_array_equal(folds.train(-1).counts, folds.train(2).counts)
    assert folds[-1] is folds.parts[2]
    for fold in (3, -4):
        with pytest.raises(ParameterError, match=f"no fold {fold}: there are 3"):
            folds.train(fold)
        with pytest.raises(ParameterError, match=f"no fold {fold}"):
            folds[fold]


def test_mapped_rows_are_in_the_folds_of_the_unmapped_rows():
    X, y, _ = rows(300)
    features = ms.features.Fourier(12, seed=0, precision="float64").freeze(X)
    folds, plain = ms.learn(X, y, features=features, folds=4), ms.learn(X, y, folds=4)
    assert folds.rows.tolist() == plain.rows.tolist()
    numbers = FoldAssignment(4).numbers(as_rows(X))
    for fold in range(4):
        kept = numbers != fold
        assert_is_of(folds.train(fold), features.transform(X[kept]), y[kept])


def test_sparse_rows_and_tables_have_folds():
    X, y, _ = rows(200)
    X[np.random.default_rng(0).random(X.shape) < 0.9] = 0.0
    expected = ms.learn(X, y, folds=3)
    for same in (sparse.csr_array(X), pd.DataFrame(X)):
        folds = ms.learn(same, y, folds=3)
        assert folds.rows.tolist() == expected.rows.tolist()
        np.testing.assert_allclose(folds.total.about(expected.total.anchor).grams, expected.total.grams, atol=1e-9)


def test_there_may_be_more_cells_than_a_byte_can_count():
    rng = np.random.default_rng(0)
    X, y, numbers = rng.normal(size=(5000, 2)), rng.integers(0, 40, 5000), rng.integers(0, 20, 5000)
    folds = ms.learn(X, y, folds=numbers)
    assert_is_of(folds[7], X[numbers == 7], y[numbers == 7])
    assert_is_of(folds.train(19), X[numbers != 19], y[numbers != 19])


# Algebra.


def test_folds_add_and_subtract_fold_by_fold():
    X, y, weights = rows(900, offset=1e6)
    day = np.arange(len(X)) % 3
    whole = ms.learn(X, y, weights, folds=4)
    pieces = [ms.learn(X[day == d], y[day == d], weights[day == d], folds=4) for d in range(3)]
    numbers = FoldAssignment(4).numbers(as_rows(X))
    for added in (pieces[0] + pieces[1] + pieces[2], sum(pieces), ms.merge(pieces), ms.merge(iter(pieces))):
        assert added.rows.tolist() == whole.rows.tolist()
        for fold in range(4):
            kept = numbers != fold
            assert_is_of(added.train(fold), X[kept], y[kept], weights[kept])
    left = ms.merge(pieces) - pieces[1]
    for fold in range(4):
        kept = (numbers != fold) & (day != 1)
        assert_is_of(left.train(fold), X[kept], y[kept], weights[kept])


def test_rows_that_are_never_held_out_add_and_subtract():
    X, y, _ = rows(120)
    numbers = np.arange(len(X)) % 3 - 1
    first, second = (ms.learn(X[s], y[s], folds=numbers[s]) for s in (slice(60), slice(60, None)))
    assert_is_of((first + second).rest, X[numbers == -1], y[numbers == -1])
    assert ((first + second) - first - second).rest is None
    without = ms.learn(X[:60], y[:60], folds=np.abs(numbers[:60]) % 2)
    with pytest.raises(SubtractionError, match="In rows never held out: Cannot subtract class"):
        ms.subtract(without, first, force=True)
    assert (without + first).rest.rows.sum() == 20


def test_different_folds_do_not_add_and_errors_name_both():
    five, three = ms.learn(X, Y, folds=5), ms.learn(X, Y, folds=3)
    with pytest.raises(SignatureError, match="Cannot add 3 folds by rows to 5 folds by rows"):
        five + three
    given = ms.learn(X, Y, folds=np.arange(30) % 5)
    with pytest.raises(SignatureError, match="Cannot subtract 5 folds by given from 5 folds by rows"):
        five - given
    ward, clinic = (replace(five.assignment, by="groups", column=name) for name in ("ward", "clinic"))
    with pytest.raises(SignatureError, match="Cannot add 5 folds by groups of 'clinic' to 5 folds by groups of 'ward'"):
        ms.merge([ms.Folds(five.parts, assignment=ward), ms.Folds(five.parts, assignment=clinic)])
    with pytest.raises(SignatureError, match="4 features"):
        five + ms.learn(X[:, :4], Y, folds=5)
    with pytest.raises(SubtractionError, match="In fold 0: Cannot subtract"):
        ms.subtract(five, ms.merge([five, five], force=True), force=True)
    with pytest.raises(TypeError, match=r"Use folds\.total"):
        ms.merge([five, five.total])
    for wrong in (1, "x", five.total):
        with pytest.raises(TypeError):
            five + wrong
        with pytest.raises(TypeError):
            five - wrong


def test_any_pieces_can_be_folds():
    days = [rows(100, seed=day) for day in range(3)]
    pieces = [ms.learn(X, y) for X, y, _ in days]
    folds = ms.Folds(pieces[:2], rest=pieces[2])
    for fold in range(2):
        kept = [day for day in range(3) if day != fold]
        assert_is_of(folds.train(fold), *(np.concatenate([days[day][part] for day in kept]) for part in (0, 1)))
    with pytest.raises(ParameterError, match="from 2 to 1,000, not 1"):
        ms.Folds(pieces[:1])
    with pytest.raises(KnowledgeError, match="3 folds need 3 pieces of knowledge, not 2"):
        ms.Folds(pieces[:2], assignment=FoldAssignment(3))
    with pytest.raises(KnowledgeError, match="not LinearModel"):
        ms.Folds([pieces[0], ms.solve(pieces[1])])
    with pytest.raises(SignatureError, match="whole number labels to knowledge of text labels"):
        ms.Folds([pieces[0], ms.learn(X, np.arange(30) % 2)])
    with pytest.raises(FormError, match="per_class=True"):
        ms.Folds([ms.learn(X, Y, per_class=False)] * 2)


def test_features_and_classes_of_folds_can_be_chosen_and_joined():
    X, y, _ = rows(300)
    numbers = np.where(y == "cow", 0, np.arange(len(X)) % 3)
    folds = ms.learn(X, y, folds=numbers, feature_names=list("abcde"))
    for fold in range(3):
        kept = numbers != fold
        assert_is_of(folds.select(["d", "a"]).train(fold), X[kept][:, [3, 0]], y[kept])
        some = kept & (y != "bee")
        assert_is_of(folds.only(["ape", "cow"]).train(fold), X[some], y[some])
        beasts = np.where(y == "bee", "bee", "beast")
        assert_is_of(folds.join({"beast": ["ape", "cow"]}).train(fold), X[kept], beasts[kept])
    assert folds.only("cow").rows.tolist() == [(y == "cow").sum(), 0, 0]
    assert folds.join({"ox": "cow"}).labels == ("ape", "bee", "ox")
    assert folds.join({0: ["ape", "cow"], 1: ["bee"]}).labels == (0, 1)
    assert folds.layout.names == tuple("abcde")
    assert folds.classes.tolist() == ["ape", "bee", "cow"]
    with pytest.raises(ParameterError, match="Unknown class 'dog'"):
        folds.only(["dog"])
    with pytest.raises(ParameterError, match="exists and is not among"):
        folds.join({"bee": ["cow"]})
    with pytest.raises(ParameterError, match="Unknown feature 'z'"):
        folds.select(["z"])


def test_provenance_is_kept(tmp_path):
    X, y, _ = rows(60)
    for day in range(2):
        np.savez(tmp_path / f"{day}.npz", X=X[day::2], y=y[day::2])
    days = [ms.learn(ms.scan(tmp_path / f"{day}.npz", label="y"), folds=2) for day in range(2)]
    both = days[0] + days[1]
    assert [origin.rows for origin in both.provenance] == [30, 30]
    assert both.total.provenance == both.provenance == days[0].provenance + days[1].provenance
    assert (both - days[0]).provenance == days[1].provenance
    both.save(tmp_path / "k")
    assert ms.Folds.load(tmp_path / "k").provenance == both.provenance
    hand = ms.Folds([ms.learn(ms.scan(tmp_path / f"{day}.npz", label="y")) for day in range(2)])
    assert [origin.rows for origin in hand.provenance] == [30, 30]
