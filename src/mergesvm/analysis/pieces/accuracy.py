"""Expected accuracies of many models on many pieces, for scores that are normal within each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.normal_draws import normal_draws
from mergesvm.analysis.orthant import probability_highest, probability_positive
from mergesvm.analysis.pieces.score_moments import ScoreMoments
from mergesvm.multiclass.votes import winners

Numbers = NDArray[np.float64]

DRAWS = 128
"""Number of quasi-random draws per class for one-vs-one voting, which has no closed form."""


def accuracies(scores: ScoreMoments, one_vs_one: bool) -> Numbers:
    """Expected fraction of rows predicted correctly, (...,); NaN without rows.

    With one problem, scores of the second class are positive. With one problem per class, the score of the true class
    is the highest; one-vs-one, the true class has most votes.

    >>> one = ScoreMoments(np.array([1.0, 3.0]), np.array([[-1.0], [1.0]]), np.ones((2, 1)))
    >>> float(accuracies(one, False).round(4))
    0.8413
    """
    n_classes, n_problems = scores.means.shape[-2:]
    if n_problems == 1:
        variances = np.maximum(scores.variances[..., 0], 0.0)
        variances = np.broadcast_to(variances, scores.counts.shape)
        recalls = probability_positive(scores.means * np.array([[-1.0], [1.0]]), variances[..., None, None])
    elif one_vs_one:
        recalls = _recalls_by_voting(scores, n_classes)
    else:
        recalls = probability_highest(scores.means, scores.covariances)
    with np.errstate(invalid="ignore"):
        fractions: Numbers = (recalls * scores.counts).sum(axis=-1) / scores.counts.sum(axis=-1)
    return fractions


def _recalls_by_voting(scores: ScoreMoments, n_classes: int) -> Numbers:
    draws = normal_draws(scores.means.shape[-1], DRAWS)
    recalls, spread = np.zeros(scores.counts.shape), scores.covariances
    spread = np.broadcast_to(spread, (*scores.counts.shape, *spread.shape[-2:]))
    for at in zip(*np.nonzero(scores.counts), strict=True):
        values, vectors = np.linalg.eigh(spread[at])
        drawn = scores.means[at] + draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        recalls[at] = (winners(drawn, n_classes, "recount") == at[-1]).mean()
    return recalls
