"""Votes of pairwise classifiers, and rules that break ties.

To add a rule, add its function here and its name to :data:`mergesvm.multiclass.schemes.TIE_RULES`. Models with the new
rule can be exported to ONNX once :mod:`mergesvm.models.formats.onnx_votes` has its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


def is_second(scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the second class of a binary problem is predicted: where the score is not negative, because sgn(0) = +1.

    >>> is_second(np.array([-0.5, -0.0, 0.0, 0.5])).tolist()
    [False, True, True, True]
    """
    second: NDArray[np.bool_] = scores >= 0
    return second


def count_votes(scores: Scores, n_classes: int) -> NDArray[np.float64]:
    """Votes, (rows, classes): a pair (i, j) votes for i where its score is negative, else for j.

    >>> count_votes(np.array([[1.0, 1.0, -1.0]]), 3)
    array([[0., 2., 1.]])
    """
    votes: NDArray[np.float64] = _won(scores, n_classes).sum(axis=2, dtype=np.float64)
    return votes


def sum_margins(scores: Scores, n_classes: int) -> NDArray[np.float64]:
    """Sums of the margins of each class against the others, (rows, classes).

    >>> sum_margins(np.array([[0.5, 2.0, -1.0]]), 3)
    array([[-2.5,  1.5,  1. ]])
    """
    margins = np.zeros((len(scores), n_classes))
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        margins[:, j] += scores[:, pair]
        margins[:, i] -= scores[:, pair]
    return margins


def winners(scores: Scores, n_classes: int, ties: str) -> NDArray[np.intp]:
    """The class with most votes, (rows,); ties are broken by the rule of this name.

    >>> winners(np.array([[1.0, -0.5, 0.2]]), 3, "margin")
    array([1])
    """
    votes = count_votes(scores, n_classes)
    best = votes.max(axis=1, keepdims=True)
    chosen: NDArray[np.intp] = votes.argmax(axis=1)
    tied = np.flatnonzero((votes == best).sum(axis=1) > 1)
    if len(tied):
        chosen[tied] = _RULES[ties](scores[tied], votes[tied] == best[tied])
    return chosen


def _sequential(scores: Scores, standing: NDArray[np.bool_]) -> NDArray[np.intp]:
    rows, n_classes = standing.shape
    won = _won(scores, n_classes)
    chosen: NDArray[np.intp] = standing.argmax(axis=1)
    for challenger in range(1, n_classes):
        beaten = standing[:, challenger] & won[np.arange(rows), challenger, chosen]
        chosen[beaten] = challenger
    return chosen


def _recount(scores: Scores, standing: NDArray[np.bool_]) -> NDArray[np.intp]:
    won = _won(scores, standing.shape[1])
    while True:
        votes = np.where(standing, np.einsum("rij,rj->ri", won, standing, dtype=np.int64), -1)
        still = votes == votes.max(axis=1, keepdims=True)
        if (still == standing).all():
            return _margin(scores, standing)
        standing = still


def _margin(scores: Scores, standing: NDArray[np.bool_]) -> NDArray[np.intp]:
    # Only the margins among the tied classes count.
    first, second = np.triu_indices(standing.shape[1], 1)
    met = np.where(standing[:, first] & standing[:, second], scores, 0.0)
    margins = sum_margins(met, standing.shape[1])
    chosen: NDArray[np.intp] = np.where(standing, margins, -np.inf).argmax(axis=1)
    return chosen


def _confidence(scores: Scores, standing: NDArray[np.bool_]) -> NDArray[np.intp]:
    margins = sum_margins(scores, standing.shape[1])
    chosen: NDArray[np.intp] = np.where(standing, margins, -np.inf).argmax(axis=1)
    return chosen


def _first(scores: Scores, standing: NDArray[np.bool_]) -> NDArray[np.intp]:  # noqa: ARG001
    chosen: NDArray[np.intp] = standing.argmax(axis=1)
    return chosen


def _won(scores: Scores, n_classes: int) -> NDArray[np.bool_]:
    """Whether class i wins against class j, (rows, i, j)."""
    first, second = np.triu_indices(n_classes, 1)  # the pairs (0, 1), (0, 2), ..., (1, 2), ...
    won = np.zeros((len(scores), n_classes, n_classes), dtype=bool)
    won[:, second, first] = is_second(scores)
    won[:, first, second] = ~won[:, second, first]
    return won


_RULES: dict[str, Callable[[Scores, NDArray[np.bool_]], NDArray[np.intp]]] = {
    "sequential": _sequential,
    "recount": _recount,
    "margin": _margin,
    "confidence": _confidence,
    "first": _first,
}
"""The class of each row by each rule of :data:`~mergesvm.multiclass.schemes.TIE_RULES`.

Arguments are scores (rows, pairs) and a mask of the tied classes (rows, classes).
"""
