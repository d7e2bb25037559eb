"""Folds: the knowledge of all rows but those of a fold is that of the rows that are left, however they were learned."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import mergesvm as ms
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import (
    DataError,
    FormError,
    InvalidContentError,
    InvalidHeaderError,
    KnowledgeError,
    ParameterError,
    SignatureError,
    SubtractionError,
    WrongKindError,
)
from mergesvm.files import container
from mergesvm.files.container import read_container
from mergesvm.knowledge.fold_assignment import FoldAssignment

LABELS = np.array(["ape", "bee", "cow"])


def rows(n_rows=600, width=5, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n_rows)
    X = rng.normal(size=(n_rows, width)) @ rng.normal(size=(width, width)) + y[:, None] + offset
    return X, LABELS[y], rng.uniform(0.1, 3.0, n_rows)


def moments(X, y, weights=None):
    """Of each class rows, weight, mean and scatter about it, by plain numpy."""
    weights = np.ones(len(X)) if weights is None else weights
    found = {}
    for label in sorted(set(y[weights > 0].tolist())):
        mine = (y == label) & (weights > 0)
        mean = np.average(X[mine], axis=0, weights=weights[mine])
        centred = X[mine] - mean
        found[label] = mine.sum(), weights[mine].sum(), mean, (centred * weights[mine][:, None]).T @ centred
    return found


def assert_is_of(knowledge, X, y, weights=None, tolerance=1e-9):
    """Knowledge is that of these rows: counts and means are, and scatter to a share of the variance."""
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
    """Two folds are the same to the last bit."""
    assert one.assignment == other.assignment
    assert one.provenance == other.provenance
    assert (one.rest is None) == (other.rest is None)
    pieces = list(zip(one.pieces(), other.pieces(), strict=True))
    for mine, theirs in [*pieces, (one.total, other.total)]:
        assert (mine.signature, mine.labels, mine.precision) == (theirs.signature, theirs.labels, theirs.precision)
        for array, again in zip(mine.arrays(), theirs.arrays(), strict=True):
            np.testing.assert_array_equal(array, again)


# What is left when a fold is held out.


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_total_and_each_part_are_those_of_their_rows(offset, weighted):
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


def test_models_of_what_is_left_are_those_of_the_rows_that_are_left():
    X, y, weights = rows(offset=1e6)
    folds, numbers = ms.learn(X, y, weights, folds=3), FoldAssignment(3).numbers(as_rows(X))
    for fold in range(3):
        kept = numbers != fold
        one = ms.solve(folds.train(fold), C=0.5, class_weight="balanced")
        other = ms.solve(ms.learn(X[kept], y[kept], weights[kept]), C=0.5, class_weight="balanced")
        np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-8)
        np.testing.assert_allclose(one.scores(X), other.scores(X), rtol=1e-8, atol=1e-8)


def test_a_class_that_lies_wholly_in_one_fold_is_gone_without_it():
    X, y, weights = rows(offset=1e6)
    numbers = np.where(y == "cow", 1, np.arange(len(y)) % 3)
    folds = ms.learn(X, y, weights, folds=numbers)
    assert folds.train(1).labels == ("ape", "bee")
    for fold in range(3):
        kept = numbers != fold
        assert_is_of(folds.train(fold), X[kept], y[kept], weights[kept])


@pytest.mark.parametrize("share", [0.9, 0.995])
def test_no_digits_are_lost_where_one_fold_has_most_of_a_class(share):
    X, y, weights = rows(3000, offset=1e6)
    most = (y == "bee") & (np.random.default_rng(1).random(len(y)) < share)
    numbers = np.where(most, 2, np.arange(len(y)) % 3)
    folds = ms.learn(X, y, weights, folds=numbers)
    for fold in range(3):
        kept = numbers != fold
        assert_is_of(folds.train(fold), X[kept], y[kept], weights[kept], tolerance=1e-10)


def test_no_digits_are_lost_where_few_rows_of_a_fold_weigh_most():
    X, y, weights = rows(300)
    weights[::50] = 1e10
    numbers = np.where(weights > 1e9, 0, 1 + np.arange(len(y)) % 2)
    folds = ms.learn(X, y, weights, folds=numbers)
    kept = numbers != 0
    assert_is_of(folds.train(0), X[kept], y[kept], weights[kept], tolerance=1e-12)


def test_no_digits_are_lost_where_few_rows_of_a_fold_are_enormous():
    X, y, _ = rows(300)
    X[:3] *= 1e9
    numbers = np.where(np.arange(len(y)) < 3, 0, 1 + np.arange(len(y)) % 2)
    folds = ms.learn(X, y, folds=numbers, anchor=np.zeros(5))
    assert_is_of(folds.train(0), X[3:], y[3:], tolerance=1e-12)


def test_no_digits_are_lost_where_pieces_lie_far_apart():
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


def test_folds_are_counted_from_the_end_too_and_others_are_refused():
    X, y, _ = rows(90)
    folds = ms.learn(X, y, folds=3)
    np.testing.assert_array_equal(folds.train(-1).counts, folds.train(2).counts)
    assert folds[-1] is folds.parts[2]
    for fold in (3, -4):
        with pytest.raises(ParameterError, match=f"no fold {fold}: there are 3"):
            folds.train(fold)
        with pytest.raises(ParameterError, match=f"no fold {fold}"):
            folds[fold]


def test_mapped_rows_fall_into_the_folds_of_the_rows_themselves():
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


def test_more_cells_than_a_byte_counts_are_all_there():
    rng = np.random.default_rng(0)
    X, y, numbers = rng.normal(size=(5000, 2)), rng.integers(0, 40, 5000), rng.integers(0, 20, 5000)
    folds = ms.learn(X, y, folds=numbers)
    assert_is_of(folds[7], X[numbers == 7], y[numbers == 7])
    assert_is_of(folds.train(19), X[numbers != 19], y[numbers != 19])


# Groups.


def test_rows_of_a_group_are_always_held_out_together():
    X, y, _ = rows(500)
    groups = np.random.default_rng(2).integers(0, 60, len(X))
    numbers = FoldAssignment(4, "groups").numbers(as_rows(X), groups)
    assert all(len(set(numbers[groups == group])) == 1 for group in range(60))
    folds = ms.learn(X, y, folds=4, groups=groups)
    for fold in range(4):
        kept = numbers != fold
        assert 0 < kept.sum() < len(X)
        assert_is_of(folds.train(fold), X[kept], y[kept])
    pieces = [ms.learn(X[part::2], y[part::2], folds=4, groups=groups[part::2]) for part in range(2)]
    assert sum(pieces).rows.tolist() == folds.rows.tolist()


@pytest.mark.parametrize(
    "groups",
    [
        pa.array([f"p{row % 17}" for row in range(200)]),
        pa.array([f"p{row % 17}" for row in range(200)]).dictionary_encode(),
        pa.array([row % 17 for row in range(200)], pa.int16()),
        pa.array([float(row % 17) for row in range(200)]),
        pa.array([row % 3 == 0 for row in range(200)]),
    ],
    ids=["text", "dictionary", "whole numbers", "decimals", "booleans"],
)
def test_a_column_of_groups_is_kept_and_is_no_feature(groups, tmp_path):
    X, y, _ = rows(200)
    columns = {f"x{j}": X[:, j] for j in range(5)}
    pq.write_table(pa.table({**columns, "who": groups, "y": y}), tmp_path / "t.parquet", row_group_size=60)
    for batch_rows in (None, 33):
        scan = ms.scan(tmp_path / "t.parquet", label="y", keep=["who"], batch_rows=batch_rows)
        found = ms.learn(scan, folds=3, groups="who")
        expected = ms.learn(X, y, folds=3, groups=groups.to_pylist())
        assert found.signature.names == tuple(columns)
        assert found.assignment == FoldAssignment(3, "groups", "who")
        assert [part.rows.tolist() for part in found] == [part.rows.tolist() for part in expected]


def test_rows_that_are_dropped_need_no_group(tmp_path):
    table = pa.table({"x": [1.0, None, 3.0, 4.0], "who": ["a", None, "b", "a"], "y": [0, 1, 0, 1]})
    pq.write_table(table, tmp_path / "t.parquet")
    scan = ms.scan(tmp_path / "t.parquet", label="y", keep=["who"], missing="drop")
    assert ms.learn(scan, folds=2, groups="who").total.rows.tolist() == [2, 1]
    pq.write_table(table.set_column(1, "who", pa.array(["a", "b", None, None])), tmp_path / "t.parquet")
    scan = ms.scan(tmp_path / "t.parquet", label="y", keep=["who"], missing="drop")
    with pytest.raises(DataError, match=r"t\.parquet: 2 rows have no group in 'who'"):
        ms.learn(scan, folds=2, groups="who")


def test_groups_of_a_kind_that_cannot_be_name_the_file(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": [0.5, 1.0], "y": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet.*groups has to be one text.*row 0 is 0\.5"):
        ms.learn(ms.scan(tmp_path / "t.parquet", label="y", keep=["who"]), folds=2, groups="who")


X, Y, _ = rows(30)


@pytest.mark.parametrize(
    ("terms", "kind", "said"),
    [
        ({"folds": 1}, ParameterError, "from 2 to 1,000, not 1"),
        ({"folds": 1001}, ParameterError, "not 1001"),
        ({"folds": 2.0}, ParameterError, r"not 2\.0"),
        ({"folds": True}, ParameterError, "not True"),
        ({"folds": "5"}, ParameterError, "not '5'"),
        ({"folds": [0.0] * 30}, ParameterError, "one integer per row"),
        ({"folds": [[0, 1]] * 15}, ParameterError, "one integer per row"),
        ({"folds": [-2] * 30}, ParameterError, "-1 for a row"),
        ({"folds": [0, 1000] * 15}, ParameterError, "not 1001"),
        ({"folds": [0, 1] * 10}, DataError, "30 rows, 20 folds"),
        ({"groups": ["a"] * 30}, ParameterError, "in how many folds"),
        ({"folds": [0, 1] * 15, "groups": ["a"] * 30}, ParameterError, "not both"),
        ({"folds": 3, "groups": ["a"] * 20}, DataError, "30 rows, 20 groups"),
        ({"folds": 3, "groups": ["a", None] * 15}, DataError, "row 1 is of no group"),
        ({"folds": 3, "groups": "who"}, ParameterError, "'who' names a column of files"),
        ({"folds": 3, "per_class": False}, FormError, "per_class=True"),
    ],
)
def test_folds_that_cannot_be_are_refused(terms, kind, said):
    with pytest.raises(kind, match=said):
        ms.learn(X, Y, **terms)


def test_of_files_folds_are_a_number_and_groups_a_column_that_is_kept(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": ["a", "b"], "y": [0, 1]}), tmp_path / "t.parquet")
    path = tmp_path / "t.parquet"
    with pytest.raises(ParameterError, match="fall into folds by themselves"):
        ms.learn(ms.scan(path, label="y", keep=["who"]), folds=[0, 1])
    with pytest.raises(ParameterError, match=r"groups .* the name of a column"):
        ms.learn(ms.scan(path, label="y", keep=["who"]), folds=2, groups=["a", "b"])
    with pytest.raises(ParameterError, match=r"column 'who' of the groups\. Keep it: scan\(\.\.\., keep=\['who'\]\)"):
        ms.learn(ms.scan(path, label="y", features=["x"]), folds=2, groups="who")
    with pytest.raises(ParameterError, match="column 'whom'"):
        ms.learn(ms.scan(path, label="y", keep=["who"]), folds=2, groups="whom")


# The algebra.


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


def test_rows_never_held_out_add_and_subtract_too():
    X, y, _ = rows(120)
    numbers = np.arange(len(X)) % 3 - 1
    first, second = (ms.learn(X[s], y[s], folds=numbers[s]) for s in (slice(60), slice(60, None)))
    assert_is_of((first + second).rest, X[numbers == -1], y[numbers == -1])
    assert ((first + second) - first - second).rest is None
    without = ms.learn(X[:60], y[:60], folds=np.abs(numbers[:60]) % 2)
    with pytest.raises(SubtractionError, match="In rows never held out: Cannot subtract class"):
        without - first
    assert (without + first).rest.rows.sum() == 20


def test_unlike_folds_do_not_add_and_errors_name_both():
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
        five - (five + five)
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


# Files.


def made(name):
    X, y, weights = rows(200, offset=1e6)
    return {
        "rows": lambda: ms.learn(X, y, weights, folds=5),
        "numpy": lambda: ms.learn(X, y, folds=np.int64(5)),
        "given": lambda: ms.learn(X, y, folds=np.where(y == "cow", 3, np.arange(len(y)) % 3 - 1)),
        "groups": lambda: ms.Folds(ms.learn(X, y, folds=2).parts, assignment=FoldAssignment(2, "groups", "who")),
        "sums": lambda: ms.learn(X, y, folds=5) + ms.learn(X + 100, y, folds=5) - ms.learn(X[:50], y[:50], folds=5),
        "days": lambda: ms.Folds([ms.learn(X + 1e5 * day, y) for day in range(3)]),
        "joined": lambda: ms.learn(X, y, folds=np.where(y == "cow", 1, 0)).join({1: ["ape", "bee"], 2: ["cow"]}),
        "float32": lambda: ms.learn(np.tile(X, 20), y, folds=3, precision="float32"),
        "mapped": lambda: ms.learn(X, y, folds=3, features=ms.features.Fourier(8).freeze(X)),
        "bits": lambda: ms.learn(X, y == "cow", folds=3, feature_names=list("abcde")),
        "nothing": lambda: ms.learn(X, y, np.zeros(len(X)), folds=3),
    }[name]()


@pytest.mark.parametrize(
    "name",
    ["rows", "numpy", "given", "groups", "sums", "days", "joined", "float32", "mapped", "bits", "nothing"],
)
def test_what_is_read_is_what_was_written_to_the_last_bit(name, tmp_path):
    folds = made(name)
    folds.save(tmp_path / "k")
    assert_same(ms.Folds.load(tmp_path / "k"), folds)
    assert_same(pickle.loads(pickle.dumps(folds)), folds)


def test_a_pickle_does_not_hold_the_total_twice():
    folds = made("rows")
    before = len(pickle.dumps(folds))
    folds.train(0)
    assert len(pickle.dumps(folds)) == before


def test_a_file_of_another_kind_says_what_it_holds_and_what_to_call(tmp_path):
    folds = made("rows")
    folds.save(tmp_path / "folds")
    folds.total.save(tmp_path / "knowledge")
    ms.solve(folds.total).save(tmp_path / "model")
    with pytest.raises(WrongKindError, match=r"holds the knowledge of folds\. Read it with ms\.Folds\.load"):
        ms.Knowledge.load(tmp_path / "folds")
    with pytest.raises(WrongKindError, match=r"without folds\. Read it with ms\.Knowledge\.load, or learn .* folds=5"):
        ms.Folds.load(tmp_path / "knowledge")
    with pytest.raises(WrongKindError, match="holds a model"):
        ms.Folds.load(tmp_path / "model")
    for load in (ms.load_model, ms.features.load):
        with pytest.raises(WrongKindError, match=r"holds the knowledge of folds.*ms\.Folds\.load"):
            load(tmp_path / "folds")


def forged(path, fields=None, **arrays):
    """The file again, with other fields and arrays, under the digest that belongs to them."""
    header, held = read_container(path, "folds")
    header, held = header.fields | (fields or {}), held | arrays
    container.write_container(path, "folds", header, {k: v for k, v in held.items() if v is not None})


RULE = {"count": 3, "by": "rows", "column": None}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ([], "not have exactly one rule"),
        ([RULE, RULE], "not have exactly one rule"),
        ([RULE | {"count": 1}], "from 2 to 1,000, not 1"),
        ([RULE | {"count": 1001}], "not 1001"),
        ([RULE | {"count": 2.0}], "where int is expected"),
        ([RULE | {"by": "luck"}], "'luck' in field 'by'; known are 'rows', 'groups', 'given'"),
        ([RULE | {"column": 3}], "3 in field 'column'"),
        ([RULE | {"column": "who"}], "a column of groups for folds by rows"),
        ([{"count": 3, "by": "rows"}], "no field 'column'"),
        (RULE, "where list is expected"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(rule, said, tmp_path):
    ms.learn(X, Y, folds=3).save(tmp_path / "k")
    forged(tmp_path / "k", {"folds": rule})
    with pytest.raises(InvalidHeaderError, match=said):
        ms.Folds.load(tmp_path / "k")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda cells: cells[::-1], "cells that are not sorted"),
        (lambda cells: np.concatenate([cells[:1], cells[:-1]]), "cells that are not sorted"),
        (lambda cells: cells + np.array([1, 0]), "a cell of no class or fold"),
        (lambda cells: cells - [1, 0], "a cell of no class or fold"),
        (lambda cells: cells + np.array([0, 3]), "a cell of no class or fold"),
        (lambda cells: cells - [0, 2], "a cell of no class or fold"),
        (lambda cells: cells[:-3], "a class without rows"),
        (lambda cells: cells[:-1], "'rows' of type int64 and shape"),
        (lambda cells: cells[:, :1], "'cells' of type int64 and shape"),
        (lambda cells: cells.ravel(), "'cells' of type int64 and shape"),
        (lambda cells: cells.astype(np.float64), "'cells' of type float64"),
        (lambda _: None, "no array 'cells'"),
    ],
)
def test_cells_that_cannot_be_are_refused(change, said, tmp_path):
    ms.learn(X, Y, folds=np.arange(30) % 3).save(tmp_path / "k")
    _, arrays = read_container(tmp_path / "k", "folds")
    assert arrays["cells"].tolist() == [[label, fold] for label in range(3) for fold in range(3)]
    changed = change(arrays["cells"])
    forged(tmp_path / "k", cells=changed)
    with pytest.raises(InvalidContentError, match=said):
        ms.Folds.load(tmp_path / "k")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"anchors": np.zeros((3, 5))}, r"shape \(3, 5\) instead of <f8 and \(4, 5\)"),
        ({"anchors": np.full((4, 5), np.nan)}, "a number in 'anchors' that is not finite"),
        ({"anchors": None}, "no array 'anchors'"),
        ({"anchor": np.zeros(5)}, "an array 'anchor'"),
        ({"rows": np.zeros(9, dtype=np.int64)}, "a count that is not positive"),
        ({"sums": np.full((9, 5), 1e9)}, "sums that are not those of any set of rows"),
    ],
)
def test_sums_that_cannot_be_are_refused(arrays, said, tmp_path):
    ms.learn(X, Y, folds=np.arange(30) % 3).save(tmp_path / "k")
    forged(tmp_path / "k", **arrays)
    with pytest.raises(InvalidContentError, match=said):
        ms.Folds.load(tmp_path / "k")


def test_folds_of_the_pooled_form_are_refused(tmp_path):
    ms.learn(X, Y, folds=3).save(tmp_path / "k")
    forged(tmp_path / "k", {"per_class": False})
    with pytest.raises(InvalidHeaderError, match="folds in the pooled form"):
        ms.Folds.load(tmp_path / "k")


def test_a_file_of_folds_is_one_that_older_versions_call_newer(tmp_path):
    """Format 4 knew of no folds, and said "Upgrade mergesvm" of any higher number."""
    ms.learn(X, Y, folds=3).save(tmp_path / "k")
    assert container.read_format(tmp_path / "k") == container.FORMAT >= 5
    assert container.read_kind(tmp_path / "k") == "folds"
