"""Harvests of workers become one, wherever the numbers are added."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import mergesvm as ms
from mergesvm.data.batch import Batch
from mergesvm.data.layout import Layout
from mergesvm.engines import Threads
from mergesvm.features import Identity
from mergesvm.knowledge.learning.local import harvest_batch
from mergesvm.knowledge.learning.options import SumOptions
from mergesvm.knowledge.learning.partial_result import PartialResult
from mergesvm.knowledge.learning.reduction import Reducer

WIDTH = 17


def rows(seed, classes, offset=0.0, n=40):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, WIDTH)) + offset, rng.choice(classes, n)


def harvest(X, y, *, halved, per_class=True):
    """What a worker brings in; nothing is right below the diagonals of halved matrices."""
    terms = SumOptions.of(Identity(), per_class, {}, None, Threads(1), None)
    found = harvest_batch(Batch.of(X, y), Layout(WIDTH, None), terms)
    if not halved:
        found = found.whole()
    for gram in found.knowledge.grams if halved else ():
        gram.flags.writeable = True
        gram[np.tril_indices(WIDTH, -1)] = np.nan
        gram.flags.writeable = False
    return replace(found, counts={"file": len(y)})


def added(harvests, own=None, chunk=10**9):
    """What comes of it when one of them, or none, is the receiver, and the others send chunks of their numbers."""
    join = Reducer(Identity())
    plan = join.agree([join.describe(each) for each in harvests])
    senders = [place for place in range(len(harvests)) if place != own]
    numbers = {}
    for index, block in enumerate(join.blocks(plan)):
        for place in senders:
            if block.holders[place]:
                numbers[index, place] = np.empty(block.size)
                join.pack(harvests[place], plan, index, numbers[index, place])
    total = join.total(plan, None if own is None else harvests[own])
    for index, block in enumerate(join.blocks(plan)):
        sources = [place for place in senders if (index, place) in numbers]
        for first in range(0, block.size, chunk):
            for place in sources:
                last = place == sources[-1] and first + chunk >= block.size
                total.add(index, first, numbers[index, place][first : first + chunk], last=last)
    return total.finish()


def assert_whole_and_the_same(found, expected):
    assert not found.halved
    assert found.counts == {"file": int(expected.rows.sum())}
    known = found.knowledge
    assert known.labels == expected.labels
    np.testing.assert_array_equal(known.rows, expected.rows)
    for gram in known.grams:
        np.testing.assert_array_equal(gram, gram.T)
    moved = known.about(expected.anchor)
    scale = max(np.abs(gram).max() for gram in expected.grams)
    for one, other in zip(moved.arrays(), expected.arrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * scale)
    assert not any(array.flags.writeable for array in known.arrays())


CASES = {
    "alike": [rows(0, [0, 1]), rows(1, [0, 1]), rows(2, [0, 1])],
    "other classes": [rows(0, [0]), rows(1, [1, 2]), rows(2, [0, 2])],
    "other anchors": [rows(0, [0, 1], 0.0), rows(1, [0, 1], 50.0), rows(2, [1, 2], 50.0, 90)],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("own", [None, 0, 2])
@pytest.mark.parametrize("chunk", [7, 1000, 10**9])
def test_the_total_is_what_is_learned_from_all_rows(case, halved, per_class, own, chunk):
    parts = CASES[case]
    expected = ms.learn(*(np.concatenate(each) for each in zip(*parts, strict=True)), per_class=per_class)
    found = added([harvest(*part, halved=halved, per_class=per_class) for part in parts], own, chunk)
    assert_whole_and_the_same(found, expected)


@pytest.mark.parametrize("kinds", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("case", CASES)
def test_harvests_joined_here_are_whole_when_asked(kinds, case):
    parts = CASES[case][:2]
    expected = ms.learn(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    harvests = [harvest(*part, halved=halved) for part, halved in zip(parts, kinds, strict=True)]
    joined = Reducer(Identity())([*harvests, PartialResult(None)])
    assert_whole_and_the_same(joined.whole(), expected)


@pytest.mark.parametrize("own", [None, 0])
def test_what_others_may_hold_is_not_changed(own):
    harvests = [harvest(*part, halved=False) for part in CASES["alike"]]
    before = [[array.copy() for array in each.knowledge.arrays()] for each in harvests]
    added(harvests, own)
    Reducer(Identity())(harvests).whole()
    for each, arrays in zip(harvests, before, strict=True):
        for one, other in zip(each.knowledge.arrays(), arrays, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_has_travelled_is_whole():
    part = CASES["alike"][0]
    travelled = pickle.loads(pickle.dumps(harvest(*part, halved=True)))
    assert_whole_and_the_same(travelled, ms.learn(*part))


def test_halved_knowledge_is_added_to_in_place():
    harvests = [harvest(*part, halved=True) for part in CASES["alike"]]
    memory = [gram.__array_interface__["data"] for gram in harvests[0].knowledge.grams]
    found = added(harvests, 0)
    assert [gram.__array_interface__["data"][0] for gram in found.knowledge.grams] == [at for at, _ in memory]
