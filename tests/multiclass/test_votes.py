from __future__ import annotations

import itertools

import numpy as np
import pytest

from mergesvm.multiclass import votes
from mergesvm.multiclass.schemes import TIE_RULES
from mergesvm.multiclass.votes import count_votes, winners


def winner_by_hand(scores, n_classes, ties):
    """Section 3.1 and 7.1 of the paper on democratic SVMs, word by word, for one row."""
    beats = {}
    for score, (i, j) in zip(scores, itertools.combinations(range(n_classes), 2), strict=True):
        beats[i, j], beats[j, i] = (False, True) if score >= 0 else (True, False)
    margin = {(j, i): score for score, (i, j) in zip(scores, itertools.combinations(range(n_classes), 2), strict=True)}
    margin |= {(i, j): -score for (j, i), score in margin.items()}

    def count(among):
        return {i: sum(beats[i, j] for j in among if j != i) for i in among}

    votes = count(range(n_classes))
    if ties == "sequential":
        best = 0
        for i in range(1, n_classes):
            if votes[i] > votes[best] or (votes[i] == votes[best] and beats[i, best]):
                best = i
        return best
    tied = [i for i in votes if votes[i] == max(votes.values())]
    while ties == "recount":
        again = count(tied)
        left = [i for i in tied if again[i] == max(again.values())]
        if left == tied:
            break
        tied = left
    return max(tied, key=lambda i: sum(margin[i, j] for j in tied if j != i))


@pytest.mark.parametrize("ties", ["sequential", "recount", "margin"])
@pytest.mark.parametrize("n_classes", [3, 4, 7])
def test_winners_are_those_counted_by_hand(ties, n_classes):
    generator = np.random.default_rng(n_classes)
    scores = generator.normal(size=(2_000, n_classes * (n_classes - 1) // 2))
    by_hand = [winner_by_hand(row, n_classes, ties) for row in scores]
    np.testing.assert_array_equal(winners(scores, n_classes, ties), by_hand)


def test_every_pair_has_one_vote():
    scores = np.random.default_rng(0).normal(size=(50, 10))
    assert (count_votes(scores, 5).sum(axis=1) == 10).all()


def test_the_rules_differ_where_they_should():
    scores = np.random.default_rng(1).normal(size=(5_000, 21))
    sequential, recount, margin = (winners(scores, 7, ties) for ties in ("sequential", "recount", "margin"))
    assert (sequential != recount).any()
    assert (recount != margin).any()


def test_a_score_of_zero_is_a_vote_for_the_second_of_the_pair():
    for zero in (0.0, -0.0):
        assert count_votes(np.full((1, 3), zero), 3).tolist() == [[0.0, 1.0, 2.0]]


def test_every_rule_that_has_a_name_has_a_function():
    assert list(votes._RULES) == list(TIE_RULES)
