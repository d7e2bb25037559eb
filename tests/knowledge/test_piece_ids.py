"""No piece counts twice, and none is subtracted that is not inside; ids survive all that is done to knowledge."""

from __future__ import annotations

import copy
import pickle
import random
import re
import time
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mergesvm as ms
from mergesvm.errors import DuplicatePieceError, InvalidHeaderError, SubtractionError
from mergesvm.files.container import read_container, write_container
from mergesvm.knowledge.provenance.combine import joined, without
from mergesvm.knowledge.provenance.extent import Chosen, Extent
from mergesvm.knowledge.provenance.origin import Origin
from reference import assert_same_knowledge

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(90, 3)), rng.choice(["a", "b", "c"], 90)


def day(number, **terms):
    rows = slice(30 * number, 30 * number + 30)
    return ms.learn(X[rows], Y[rows], **terms)


def ids(piece):
    return [origin.id for origin in piece.provenance]


def test_every_learned_piece_has_a_random_id():
    random.seed(0)
    one = day(0)
    random.seed(0)
    again = day(0)
    assert re.fullmatch("[0-9a-f]{32}", ids(one)[0])
    assert ids(one) != ids(again)
    assert [(origin.source, origin.rows) for origin in one.provenance] == [("rows in memory", 30)]


@pytest.mark.parametrize("folds", [None, 3])
def test_a_piece_is_not_merged_twice(folds):
    one, two, three = (day(number, folds=folds) for number in range(3))
    week = one + two + three
    for wrong in (lambda: week + two, lambda: ms.merge([one, two, one]), lambda: two + two, lambda: week + (one + two)):
        with pytest.raises(DuplicatePieceError, match=r"inside already: rows in memory \(id [0-9a-f]{12}, 30 rows, 20"):
            wrong()
    copy_of_two = pickle.loads(pickle.dumps(two))
    with pytest.raises(DuplicatePieceError):
        week + copy_of_two
    both = ms.merge([week, two], force=True)
    total = both.total if folds else both
    assert total.rows.sum() == 120
    assert len(set(ids(both))) == len(ids(both)) == 4
    assert ids(both - two) == [ids(one)[0], ids(three)[0], ids(both)[3]]


@pytest.mark.parametrize("folds", [None, 3])
def test_a_piece_that_is_not_inside_is_not_subtracted(folds):
    one, two, three = (day(number, folds=folds) for number in range(3))
    week, again = one + two + three, day(1, folds=folds)
    for wrong in (lambda: week - again, lambda: (week - two) - two, lambda: one - two):
        with pytest.raises(
            SubtractionError, match=r"not inside: rows in memory \(id [0-9a-f]{12}, 30 rows, 20.*force=True"
        ):
            wrong()
    left = ms.subtract(week, again, force=True)
    assert [origin.taken_back for origin in left.provenance] == [False, False, False, True]
    assert ids(left)[3] == ids(again)[0]
    assert ids(left + again) == ids(week)
    # A retirement cannot be repeated, not even by force: its rows are gone.
    with pytest.raises(SubtractionError, match="retired before"):
        ms.subtract(left, again, force=True)
    # Counts are checked all the same.
    with pytest.raises(SubtractionError, match=r"Cannot subtract .* rows"):
        ms.subtract(one, week, force=True)


def test_an_error_about_many_pieces_names_a_few():
    whole = replace(day(0), provenance=tuple(Origin.new(f"{number}.csv", 1, "2026") for number in range(5000)))
    with pytest.raises(DuplicatePieceError) as error:
        whole + whole
    assert "2.csv" in str(error.value)
    assert "3.csv" not in str(error.value)
    assert "and 4,997 more" in str(error.value)


def test_ids_survive_files_selection_and_anchors(tmp_path):
    one, two = day(0), day(1)
    week = one + two
    week.save(tmp_path / "k")
    for same in (
        ms.Knowledge.load(tmp_path / "k"),
        week.about(),
        copy.deepcopy(week),
        pickle.loads(pickle.dumps(week)),
    ):
        assert same.provenance == week.provenance
        assert_same_knowledge(same - one, two)
    assert ids(week.select([0, 2])) == ids(week)
    assert_same_knowledge(week.select([0, 2]) - one.select([0, 2]), two.select([0, 2]))
    assert ids(week.join({"ab": ["a", "b"]}) - two.join({"ab": ["a", "b"]})) == ids(one)
    model = ms.solve(week)
    model.save(tmp_path / "m")
    assert ms.load_model(tmp_path / "m").domain.provenance == week.provenance


def test_classes_of_a_piece_add_up_to_it_and_are_not_counted_twice():
    one, two = day(0), day(1)
    week = one + two
    parts = [week.only([label]) for label in week.labels]
    assert ms.merge(parts[::-1]).provenance == week.provenance
    assert (ms.merge(parts[:2]) + one.only(["c"])).provenance[0] == week.provenance[0]
    with pytest.raises(DuplicatePieceError, match="class 'a'"):
        week + one.only(["a"])
    left = week - one.only(["a"])
    assert [str(origin.extent) for origin in left.provenance] == ["classes 'b', 'c'", ""]
    for wrong in (lambda: left - one.only(["a"]), lambda: left - one, lambda: left - one.only(["a", "b"])):
        with pytest.raises(SubtractionError):
            wrong()
    with pytest.raises(DuplicatePieceError):
        left + one
    assert (left + one.only(["a"])).provenance == week.provenance
    # Classes that were joined cannot be told from one another any more.
    renamed = one.join({"b": ["a", "b"]}).only(["b"])
    with pytest.raises(DuplicatePieceError):
        renamed + one.only(["a"])


@pytest.mark.parametrize("never", [False, True])
def test_folds_are_merged_back_to_the_whole_once(tmp_path, never):
    numbers = np.arange(30) % 4 - (1 if never else 0)
    one, two = day(0, folds=numbers), day(1, folds=numbers)
    folds = one + two
    folds.save(tmp_path / "k")
    for each in (folds, ms.Folds.load(tmp_path / "k")):
        pieces = each.pieces()
        assert ms.merge(pieces).provenance == each.provenance == each.total.provenance
        assert_same_knowledge(ms.merge(pieces), each.total)
        with pytest.raises(DuplicatePieceError, match="fold 1 of"):
            ms.merge([*pieces, each[1]])
        with pytest.raises(DuplicatePieceError):
            each.total + each[0]
        left = each.total - each[1]
        assert left.provenance == each.train(1).provenance
        assert len(left.provenance) == 2
        with pytest.raises(SubtractionError, match="fold 1 of"):
            left - each[1]
        for piece in (*pieces[2:], pieces[0]):
            left = left - piece
        assert left.provenance == ()
        assert (each - one).provenance == two.provenance
        assert_same_knowledge((each - one)[1], two[1])
    assert ids(folds.only(["a"]))[0] == ids(folds)[0]
    assert ms.merge(folds.only(["a"]).pieces()).provenance == folds.only(["a"]).provenance


def test_pieces_that_are_folds_keep_their_ids_in_a_file(tmp_path):
    pieces = [day(number) for number in range(3)]
    folds = ms.Folds([pieces[0] + pieces[1], pieces[2]])
    folds.save(tmp_path / "k")
    back = ms.Folds.load(tmp_path / "k")
    assert ids(back[0]) == ids(pieces[0]) + ids(pieces[1])
    assert ids(back[1]) == ids(pieces[2])
    assert back.provenance == folds.provenance
    with pytest.raises(DuplicatePieceError):
        ms.Folds([pieces[0] + pieces[1], pieces[1]])


def test_pieces_without_ids_are_checked_by_counts_as_before():
    old = replace(day(0), provenance=(Origin("day0.csv", 30, "2025-01-01"),))
    new = day(1)
    assert (old + old).rows.sum() == 60
    assert (old + new - old).provenance == new.provenance
    # Among rows without an id there may be those of a piece that has one.
    assert (old - ms.learn(X[:5], Y[:5])).provenance[-1].taken_back
    unknown = replace(day(0), provenance=())
    both = unknown + new
    assert [origin.source for origin in both.provenance] == ["unknown", "rows in memory"]
    assert (both - unknown).provenance == new.provenance
    with pytest.raises(DuplicatePieceError):
        both + new


def test_knowledge_can_be_subtracted_from_later_knowledge():
    one, two, three = (day(number) for number in range(3))
    row = ms.learn(X[:1], Y[:1])
    earlier = ms.subtract(one + two, row, force=True)
    later = earlier + three
    assert (later - earlier).provenance == three.provenance
    assert ((one + two) - ms.subtract(one, row, force=True)).provenance == two.provenance + row.provenance
    nothing = ms.subtract(row, ms.learn(X[:1], Y[:1]), force=True)
    assert nothing.provenance == ()


def cells(extent):
    """The cells with rows of an extent, in a world of four folds and three classes."""
    folds, classes = extent.folds.values, extent.classes.values
    return set(product(range(-1, 3) if folds is None else folds, {*"xyz"} if classes is None else classes & {*"xyz"}))


extents = st.builds(
    lambda folds, classes, more: Extent(
        Chosen.some(folds, range(-1, 3)),
        Chosen() if len(classes) == 3 else Chosen.some(classes, "xyz" + more),
        3,
        rest=True,
    ),
    st.frozensets(st.sampled_from([-1, 0, 1, 2])),
    st.frozensets(st.sampled_from("xyz")),
    st.sampled_from(["", "v", "w"]),
)


@given(extents, extents)
def test_extents_are_sets_of_rows(one, other):
    mine, theirs = cells(one), cells(other)
    assert one.empty is (not mine)
    assert one.overlaps(other) is bool(mine & theirs)
    left = one.minus(other)
    assert left is None or cells(left) == mine - theirs
    if not mine & theirs:
        both = one.plus(other)
        assert both is None or cells(both) == mine | theirs
    if one.classes == other.classes or one.folds == other.folds:
        assert left is not None


@given(st.permutations(range(-1, 3)))
def test_fold_sums_do_not_depend_on_the_order(order):
    whole = Origin.new("a", 3)._replace(extent=Extent.divided(3, rest=True))
    parts = [(whole._replace(extent=whole.extent.of_fold(fold)),) for fold in order]
    assert joined(parts) == (whole,)
    left = (whole,)
    for part in parts:
        left = without(left, part)
    assert left == ()


FORGED = {
    "short": {"id": "ab"},
    "not hexadecimal": {"id": "g" * 32},
    "capitals": {"id": "A" * 32},
    "number": {"id": 3},
    "line": {"id": "a" * 32 + "\n"},
    "part of a piece without an id": {"id": None, "extent": {}},
    "empty extent": {"extent": {}},
    "list": {"extent": []},
}
EXTENT = {"n_folds": 3, "rest": False, "folds": [1], "classes": ["a"], "among": ["a", "b"], "joined": False}
FORGED |= {
    f"{name} {value}": {"extent": EXTENT | {name: value}}
    for name, values in {
        "n_folds": [-1, 1, 10**6, None, 2.0],
        "rest": [0, None],
        "folds": [[3], [-1], [1, 1], ["1"], [True], {}, [], [10**400]],
        "classes": [None, [None], [[]], ["a", 1], ["a", "a"], "a", [], ["c"], ["a", "b"], [1.5], [{}]],
        "among": [None, [], ["a"], [1], ["a", 1], ["a", ["b"]], [{}]],
        "joined": [None, "no"],
    }.items()
    for value in values
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_ids_are_refused(tmp_path, what):
    day(0).save(tmp_path / "k")
    header, arrays = read_container(tmp_path / "k", "knowledge")
    header.fields["provenance"][0].update(FORGED[what])
    try:
        write_container(tmp_path / "k", "knowledge", header.fields, arrays, lambda *_: None)
    except ValueError:  # numbers that are not JSON cannot be forged either
        return
    with pytest.raises(InvalidHeaderError):
        ms.Knowledge.load(tmp_path / "k")


def test_a_forged_copy_of_an_id_is_refused(tmp_path):
    day(0).save(tmp_path / "k")
    header, arrays = read_container(tmp_path / "k", "knowledge")
    header.fields["provenance"] *= 2
    write_container(tmp_path / "k", "knowledge", header.fields, arrays, lambda *_: None)
    with pytest.raises(InvalidHeaderError, match="occurs twice"):
        ms.Knowledge.load(tmp_path / "k")
    for kind in ("copy", "fold"):
        day(0, folds=3).save(tmp_path / "f")
        header, arrays = read_container(tmp_path / "f", "folds")
        first = header.fields["provenance"][0]
        header.fields["provenance"] = [first, first] if kind == "copy" else [{**first, "fold": 3}]
        write_container(tmp_path / "f", "folds", header.fields, arrays, lambda *_: None)
        with pytest.raises(InvalidHeaderError, match=r"occurs twice|in fold 3"):
            ms.Folds.load(tmp_path / "f")


def test_a_hundred_thousand_origins_are_taken_back_in_linear_time(tmp_path):
    """Generous, and yet far from the minutes of a quadratic search."""
    origins = tuple(Origin.new(f"day{number}.csv", 1, "2026-01-01") for number in range(100_000))
    whole = replace(day(0), provenance=origins)
    started = time.process_time()
    assert without(origins, origins[::-1]) == ()
    assert without(origins, origins[::2]) == origins[1::2]
    assert joined([origins[::2], origins[1::2]]) == origins[::2] + origins[1::2]
    old = tuple(origin._replace(id=None) for origin in origins)
    assert without(old, old[::-1]) == ()
    whole.save(tmp_path / "k")
    assert ms.Knowledge.load(tmp_path / "k").provenance == origins
    assert time.process_time() - started < 20
