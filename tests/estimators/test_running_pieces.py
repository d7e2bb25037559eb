"""Updates extend one running piece, and no two sets of rows ever share an id."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.errors import DuplicatePieceError
from reference import assert_same_knowledge

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 2)), np.arange(60) % 2


def knowledge(machine):
    return machine.knowledge_ if isinstance(machine, ms.MergeSVC) else machine.to_knowledge()


def signed(machine):
    return [(origin.rows, origin.taken_back) for origin in knowledge(machine).provenance]


MACHINES = pytest.mark.parametrize("kind", [ms.MergeSVC, ms.RecursiveSVC])


@MACHINES
def test_many_updates_do_not_leave_many_ids(kind):
    machine = kind().fit(X[:10], Y[:10])
    for row in range(10, 60):
        machine.partial_fit(X[row : row + 1], Y[row : row + 1])
        machine.predict(X[:1])
        if row % 2:
            machine.forget(X[row - 5 : row - 4], Y[row - 5 : row - 4])
    assert machine.model_.domain.provenance[0].rows == 60
    assert signed(machine) == [(60, False), (25, True)]


@MACHINES
def test_knowledge_already_returned_keeps_its_rows(kind):
    machine = kind().fit(X[:20], Y[:20])
    earlier = knowledge(machine)
    assert knowledge(machine).provenance == earlier.provenance
    machine.partial_fit(X[20:40], Y[20:40]).partial_fit(X[40:], Y[40:])
    later = knowledge(machine)
    assert signed(machine) == [(20, False), (40, False)]
    assert_same_knowledge(later - earlier, ms.learn(X[20:], Y[20:]))
    with pytest.raises(DuplicatePieceError):
        later + earlier
    machine.forget(X[:5], Y[:5])
    assert signed(machine) == [(20, False), (40, False), (5, True)]
    machine.forget(X[5:], Y[5:])
    assert signed(machine) == []


@MACHINES
@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_that_go_on_learning_share_no_id_of_later_rows(kind, duplicate):
    machine = kind().fit(X[:20], Y[:20])
    other = duplicate(machine)
    machine.partial_fit(X[20:40], Y[20:40])
    if duplicate is not copy.copy or kind is ms.MergeSVC:  # a shallow copy shares the live model
        other.partial_fit(X[40:], Y[40:])
        mine, theirs = ({origin.id for origin in knowledge(one).provenance} for one in (machine, other))
        assert len(mine) == len(theirs) == 2
        assert len(mine & theirs) == 1


def test_estimators_are_not_merged_twice():
    one, two = ms.MergeSVC().fit(X[:30], Y[:30]), ms.MergeSVC().fit(X[30:], Y[30:])
    both = one + two
    for other in (one, two.knowledge_, both):
        with pytest.raises(DuplicatePieceError):
            both + other
        with pytest.raises(DuplicatePieceError):
            both.merge(other)
    assert both.knowledge_.rows.sum() == 60
    assert both.merge(one, force=True).knowledge_.rows.sum() == 90


def test_rows_that_leave_a_window_are_retired():
    machine = ms.RecursiveSVC(window=20).fit(X[:30], Y[:30])
    first = machine.to_knowledge()
    assert signed(machine) == [(30, False), (10, True)]
    machine.partial_fit(X[30:50], Y[30:50])
    assert signed(machine) == [(30, False), (10, True), (20, False), (20, True)]
    with pytest.raises(DuplicatePieceError):
        machine.to_knowledge() + first


def test_a_live_model_continues_the_pieces_of_knowledge_and_records_files(tmp_path):
    begin = ms.learn(X[:20], Y[:20])
    np.savez(tmp_path / "day.npz", X=X[20:], y=Y[20:])
    machine = ms.RecursiveSVC.from_knowledge(begin)
    machine.partial_fit(ms.scan(tmp_path / "day.npz", label="y")).partial_fit(X[:3], Y[:3])
    later = machine.to_knowledge()
    assert later.provenance[0] == begin.provenance[0]
    assert [origin.rows for origin in later.provenance] == [20, 40, 3]
    assert later.provenance[1].source.endswith("day.npz")
    assert (later - begin).rows.sum() == 43
