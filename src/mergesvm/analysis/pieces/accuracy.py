"""Estimated accuracies of many models on many pieces, for scores that are normal within each class."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from mergesvm.analysis.orthant import all_above, highest
from mergesvm.analysis.pieces.scores import Scores
from mergesvm.multiclass.votes import winners

Numbers = NDArray[np.float64]

DRAWS = 128
"""Scores of pairs of classes are drawn so often for each class: votes have no formula."""


def accuracies(scores: Scores, in_pairs: bool, compiled: bool = False) -> Numbers:
    """The expected share of rows that are predicted rightly, (...,); NaN where there are none.

    One score is above zero for the second class. Of several, one a class, that of the true class is above all others;
    of pairs of classes, the true one has most votes.

    >>> one = Scores(np.array([1.0, 3.0]), np.array([[-1.0], [1.0]]), np.ones((2, 1)))
    >>> float(accuracies(one, False).round(4))
    0.8413
    """
    n_classes, n_planes = scores.means.shape[-2:]
    if n_planes == 1:
        variances = np.maximum(scores.variances[..., 0], 0.0)
        variances = np.broadcast_to(variances, scores.counts.shape)
        recalls = all_above(scores.means * np.array([[-1.0], [1.0]]), variances[..., None, None])
    elif in_pairs:
        recalls = _votes(scores, n_classes)
    else:
        recalls = highest(scores.means, scores.covariances, compiled)
    with np.errstate(invalid="ignore"):
        shares: Numbers = (recalls * scores.counts).sum(axis=-1) / scores.counts.sum(axis=-1)
    return shares


def _votes(scores: Scores, n_classes: int) -> Numbers:
    n_planes = scores.means.shape[-1]
    sobol = qmc.Sobol(n_planes, rng=np.random.default_rng(0)).random(DRAWS)
    draws = ndtri(np.clip(sobol, 1e-12, 1 - 1e-12))
    recalls, spread = np.zeros(scores.counts.shape), scores.covariances
    spread = np.broadcast_to(spread, (*scores.counts.shape, *spread.shape[-2:]))
    for at in zip(*np.nonzero(scores.counts), strict=True):
        values, vectors = np.linalg.eigh(spread[at])
        drawn = scores.means[at] + draws @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        recalls[at] = (winners(drawn, n_classes, "recount") == at[-1]).mean()
    return recalls
