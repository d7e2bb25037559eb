"""Votes of the test rows: ties, and the pairs of classes that are confused most often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from mergesvm.models.pairwise import PairwiseModel
from mergesvm.multiclass.votes import count_votes, winners
from mergesvm.reproduce.democratic.split import Split

COMPARED_RULES = ("sequential", "recount", "margin")
"""The rules for ties of the paper, of its outlook, and ours."""

SCORED_ROWS = 4096
"""Test rows that are scored at a time."""


def tie_figures(split: Split, model: PairwiseModel) -> dict[str, Any]:
    """Percentage of test rows with tied votes, and the accuracy of each tie rule on all rows and on tied rows."""
    n_classes = len(model.classes_)
    tied: list[NDArray[np.bool_]] = []
    correct: dict[str, list[NDArray[np.bool_]]] = {rule: [] for rule in COMPARED_RULES}
    for start in range(0, len(split.test), SCORED_ROWS):
        scores = model.scores(split.test[start : start + SCORED_ROWS])
        truth = split.truth[start : start + SCORED_ROWS]
        votes = count_votes(scores, n_classes)
        tied.append((votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1)
        for rule in COMPARED_RULES:
            correct[rule].append(model.classes_[winners(scores, n_classes, rule)] == truth)
    is_tied = np.concatenate(tied)
    by_rule = {rule: np.concatenate(found) for rule, found in correct.items()}
    return {
        "tied": 100 * float(is_tied.mean()),
        **{rule: 100 * float(found.mean()) for rule, found in by_rule.items()},
        **{f"{rule}_when_tied": 100 * float(found[is_tied].mean()) for rule, found in by_rule.items() if is_tied.any()},
    }


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes and the number of test rows of one that are taken for the other."""

    first: int
    second: int
    rows: int
    fraction: float  # of all errors


def confused_pairs(truth: NDArray[Any], predicted: NDArray[Any], count: int) -> list[ConfusedPair]:
    """The pairs of classes with the most errors in either direction, the most frequent first.

    >>> confused_pairs(np.array([1, 1, 2, 3]), np.array([2, 1, 1, 1]), 1)
    [ConfusedPair(first=1, second=2, rows=2, fraction=0.66...)]
    """
    labels = np.unique(np.concatenate([truth, predicted]))
    table = confusion_matrix(truth, predicted, labels=labels)
    errors = np.triu(table + table.T, 1)
    order = np.argsort(-errors, axis=None, kind="stable")[:count]
    return [
        ConfusedPair(int(labels[i]), int(labels[j]), int(errors[i, j]), float(errors[i, j] / errors.sum()))
        for i, j in zip(*np.unravel_index(order, errors.shape), strict=True)
        if errors[i, j]
    ]
