"""Partial results of workers are merged, wherever the numbers are added."""

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
from mergesvm.knowledge.learning.local import learn_batch
from mergesvm.knowledge.learning.options import SumOptions
from mergesvm.knowledge.learning.reduction import PartialResult, Reducer

WIDTH = 17


def rows(seed, classes, offset=0.0, n=40):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, WIDTH)) + offset, rng.choice(classes, n)


def partial(X, y, *, upper_only, per_class=True):
    """The result of a worker; with upper_only, everything below the diagonals is garbage."""
    options = SumOptions(Identity(), per_class, {}, "float64", Threads(1))
    found = learn_batch(Batch.of(X, y), Layout(WIDTH, None), options, upper_only=True)
    if not upper_only:
        found = found.symmetric()
    for gram in found.knowledge.grams if upper_only else ():
        gram.flags.writeable = True
        gram[np.tril_indices(WIDTH, -1)] = np.nan
        gram.flags.writeable = False
    return replace(found, counts={"file": len(y)})


def added(results, own=None, chunk=10**9):
    """What comes of it when one of them, or none, is the receiver, and the others send chunks of their numbers."""
    join = Reducer(Identity())
    plan = join.agree([join.describe(each) for each in results])
    senders = [place for place in range(len(results)) if place != own]
    numbers = {}
    for index, block in enumerate(join.blocks(plan)):
        for place in senders:
            if block.holders[place]:
                numbers[index, place] = np.empty(block.size)
                join.pack(results[place], plan, index, numbers[index, place])
    total = join.total(plan, None if own is None else results[own])
    for index, block in enumerate(join.blocks(plan)):
        sources = [place for place in senders if (index, place) in numbers]
        for first in range(0, block.size, chunk):
            for place in sources:
                last = place == sources[-1] and first + chunk >= block.size
                total.add(index, first, numbers[index, place][first : first + chunk], last=last)
    return total.finish()


def assert_whole_and_the_same(found, expected):
    assert not found.upper_only
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
@pytest.mark.parametrize("upper_only", [False, True])
@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("own", [None, 0, 2])
@pytest.mark.parametrize("chunk", [7, 1000, 10**9])
def test_the_total_equals_knowledge_of_all_rows(case, upper_only, per_class, own, chunk):
    parts = CASES[case]
    expected = ms.learn(*(np.concatenate(each) for each in zip(*parts, strict=True)), per_class=per_class)
    found = added([partial(*part, upper_only=upper_only, per_class=per_class) for part in parts], own, chunk)
    assert_whole_and_the_same(found, expected)


@pytest.mark.parametrize("kinds", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("case", CASES)
def test_results_merged_in_this_process_become_symmetric(kinds, case):
    parts = CASES[case][:2]
    expected = ms.learn(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    results = [partial(*part, upper_only=upper_only) for part, upper_only in zip(parts, kinds, strict=True)]
    joined = Reducer(Identity())([*results, PartialResult(None)])
    assert_whole_and_the_same(joined.symmetric(), expected)


@pytest.mark.parametrize("own", [None, 0])
def test_what_others_may_hold_is_not_changed(own):
    results = [partial(*part, upper_only=False) for part in CASES["alike"]]
    before = [[array.copy() for array in each.knowledge.arrays()] for each in results]
    added(results, own)
    Reducer(Identity())(results).symmetric()
    for each, arrays in zip(results, before, strict=True):
        for one, other in zip(each.knowledge.arrays(), arrays, strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_has_travelled_is_whole():
    part = CASES["alike"][0]
    travelled = pickle.loads(pickle.dumps(partial(*part, upper_only=True)))
    assert_whole_and_the_same(travelled, ms.learn(*part))


def test_upper_triangles_is_added_to_in_place():
    results = [partial(*part, upper_only=True) for part in CASES["alike"]]
    memory = [gram.__array_interface__["data"] for gram in results[0].knowledge.grams]
    found = added(results, 0)
    assert [gram.__array_interface__["data"][0] for gram in found.knowledge.grams] == [at for at, _ in memory]
