"""Votes of pairwise classifiers, and what to do about ties."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

TIE_RULES = ("sequential", "recount", "margin")


def count_votes(scores: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Votes, (rows, classes): a pair (i, j) votes for j where its score is positive, else for i.

    >>> count_votes(np.array([[1.0, 1.0, -1.0]]), 3)
    array([[0., 2., 1.]])
    """
    votes: NDArray[np.float64] = _won(scores, n_classes).sum(axis=2, dtype=np.float64)
    return votes


def sum_margins(scores: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Sums of the margins, (rows, classes), by which each class has won or lost against the others.

    >>> sum_margins(np.array([[0.5, 2.0, -1.0]]), 3)
    array([[-2.5,  1.5,  1. ]])
    """
    margins = np.zeros((len(scores), n_classes))
    for pair, (i, j) in enumerate(combinations(range(n_classes), 2)):
        margins[:, j] += scores[:, pair]
        margins[:, i] -= scores[:, pair]
    return margins


def winners(scores: NDArray[np.float64], n_classes: int, ties: str) -> NDArray[np.intp]:
    """The class with most votes, (rows,).

    Ties are resolved

    - ``"sequential"``: as in the paper, in the order of the classes: each tied class against the best so far;
    - ``"recount"``: by counting again among the tied classes only, until nothing changes, then by margins;
    - ``"margin"``: by the summed margins of the tied classes.

    >>> winners(np.array([[1.0, -0.5, 0.2]]), 3, "margin")
    array([1])
    """
    votes = count_votes(scores, n_classes)
    best = votes.max(axis=1, keepdims=True)
    chosen: NDArray[np.intp] = votes.argmax(axis=1)
    tied = np.flatnonzero((votes == best).sum(axis=1) > 1)
    if len(tied):
        standing = votes[tied] == best[tied]
        chosen[tied] = _RESOLVE[ties](scores[tied], standing)
    return chosen


def _sequential(scores: NDArray[np.float64], standing: NDArray[np.bool_]) -> NDArray[np.intp]:
    rows, n_classes = standing.shape
    won = _won(scores, n_classes)
    chosen: NDArray[np.intp] = standing.argmax(axis=1)
    for challenger in range(1, n_classes):
        beaten = standing[:, challenger] & won[np.arange(rows), challenger, chosen]
        chosen[beaten] = challenger
    return chosen


def _recount(scores: NDArray[np.float64], standing: NDArray[np.bool_]) -> NDArray[np.intp]:
    won = _won(scores, standing.shape[1])
    while True:
        votes = np.where(standing, np.einsum("rij,rj->ri", won, standing, dtype=np.int64), -1)
        still = votes == votes.max(axis=1, keepdims=True)
        if (still == standing).all():
            return _margin(scores, standing)
        standing = still


def _margin(scores: NDArray[np.float64], standing: NDArray[np.bool_]) -> NDArray[np.intp]:
    # Only the margins among the tied classes count.
    first, second = np.triu_indices(standing.shape[1], 1)
    met = np.where(standing[:, first] & standing[:, second], scores, 0.0)
    margins = sum_margins(met, standing.shape[1])
    chosen: NDArray[np.intp] = np.where(standing, margins, -np.inf).argmax(axis=1)
    return chosen


def _won(scores: NDArray[np.float64], n_classes: int) -> NDArray[np.bool_]:
    """Whether class i has won against class j, (rows, i, j)."""
    first, second = np.triu_indices(n_classes, 1)  # the pairs (0, 1), (0, 2), ..., (1, 2), ...
    won = np.zeros((len(scores), n_classes, n_classes), dtype=bool)
    won[:, second, first] = scores > 0
    won[:, first, second] = ~won[:, second, first]
    return won


_RESOLVE = {"sequential": _sequential, "recount": _recount, "margin": _margin}
