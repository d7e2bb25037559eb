"""Where a tag was found in a picture, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SCORE_RANGE = 2.0
"""Scores from minus this to this are shown in 256 steps."""

TOP_FRACTION = 0.02
"""A picture is ranked by the mean score of this fraction of its windows, the highest ones."""


@dataclass(frozen=True)
class HeatMap:
    """The scores of all windows of a picture, (lines, columns).

    The window in line i and column j has its centre at ``origin`` + ``step`` (i, j), in pixels. ``size`` is that of the
    picture.
    """

    scores: NDArray[np.float32]
    size: tuple[int, int]
    origin: tuple[int, int]
    step: int

    @property
    def rank_score(self) -> float:
        """The mean of the highest scores, by which pictures are ranked; minus infinity without windows."""
        flat = self.scores.ravel()
        if len(flat) == 0:
            return -np.inf
        count = max(1, round(TOP_FRACTION * len(flat)))
        return float(np.partition(flat, len(flat) - count)[len(flat) - count :].mean())

    def as_bytes(self) -> bytes:
        """Return the scores as one byte each, line by line: 0 for -SCORE_RANGE, 128 for 0, 255 for SCORE_RANGE.

        >>> list(HeatMap(np.array([[-3.0, 0.0, 1.0]], np.float32), (8, 8), (0, 0), 8).as_bytes())
        [0, 128, 192]
        """
        return np.clip(np.round(128 + 127 / SCORE_RANGE * self.scores), 0, 255).astype(np.uint8).tobytes()

    def mask(self, threshold: float = 0.0) -> NDArray[np.bool_]:
        """Return which pixels of the picture belong to the tag: those whose nearest window scores above a threshold."""
        height, width = self.size
        if self.scores.size == 0:
            return np.zeros((height, width), dtype=bool)
        lines, columns = (
            np.clip(np.round((np.arange(length) - start) / self.step).astype(int), 0, count - 1)
            for length, start, count in zip(self.size, self.origin, self.scores.shape, strict=True)
        )
        return self.scores[np.ix_(lines, columns)] > threshold
