"""Compiled residuals of the fit of a smaller model. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.jit import compiled

AT_MARGIN = 0.95
"""Scores from here on count as at the margin: those of free support vectors are 1 up to the tolerance of training."""


@compiled
def to_residuals(scores, targets, weights):  # type: ignore[no-untyped-def] # pragma: no cover
    """Replace scores (rows, pairs) by their weighted distances to what the targets allow.

    A target between the margins, -1 and 1, allows only itself; a target at or beyond a margin allows all scores beyond
    the margin.
    """
    for i in range(scores.shape[0]):
        for j in range(uint64(scores.shape[1])):
            score, target = scores[i, j], targets[i, j]
            low = min(target, 1.0) if target > -AT_MARGIN else -np.inf
            high = max(target, -1.0) if target < AT_MARGIN else np.inf
            scores[i, j] = weights[i] * (min(max(score, low), high) - score)
