"""A random forest on filters of pixels, as interactive segmentation tools train it on brush strokes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skimage.feature import multiscale_basic_features
from sklearn.ensemble import RandomForestClassifier

from mergesvm.reproduce.tagging.trials import TaggedPhoto
from mergesvm.tagging.strokes import Box, stroked_pixels
from mergesvm.tagging.windows import STEP

STRIDE = 4
"""Probabilities are averaged over every fourth pixel of a window in each direction; its sides are multiples."""

MAX_PIXELS = 500
"""Pixels of each class taken from a tagged picture: neighbours are nearly equal, and trees grow with them."""

TREES = 100


def filters(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Gaussian, gradient and Hessian filters of each channel at widths from 1 to 16, (height, width, filters)."""
    found = multiscale_basic_features(pixels, sigma_min=1, sigma_max=16, channel_axis=-1, workers=1)
    return np.asarray(found, dtype=np.float32)


@dataclass(frozen=True)
class PixelSample:
    """Filters of a picture: at stroked pixels and as many elsewhere, and at every fourth pixel.

    ``seconds`` is the CPU time that they took.
    """

    rows: NDArray[np.float32]
    stroked: NDArray[np.bool_]
    coarse: NDArray[np.float32]
    seconds: float

    @classmethod
    def of(cls, view: TaggedPhoto) -> PixelSample:
        start = time.process_time()
        found = filters(view.photo.pixels)
        height, width = found.shape[:2]
        strokes, generator = view.photo.strokes(), np.random.default_rng(0)
        box, elsewhere = Box.around(strokes, height, width), np.ones((height, width), dtype=bool)
        elsewhere[box.top : box.bottom, box.left : box.right] = False
        inside = np.flatnonzero(stroked_pixels(strokes, height, width))
        outside = np.flatnonzero(elsewhere)
        count = min(MAX_PIXELS, len(inside), len(outside))
        chosen = np.concatenate([generator.choice(each, count, replace=False) for each in (inside, outside)])
        rows = found.reshape(height * width, -1)[chosen]
        coarse = found[STRIDE // 2 :: STRIDE, STRIDE // 2 :: STRIDE].copy()
        return cls(rows, np.arange(2 * count) < count, coarse, time.process_time() - start)


@dataclass(frozen=True)
class PixelForest:
    """A random forest that tells stroked pixels from others."""

    machine: Any

    @classmethod
    def fit(cls, samples: list[PixelSample]) -> PixelForest:
        X, y = (np.concatenate([getattr(each, name) for each in samples]) for name in ("rows", "stroked"))
        return cls(RandomForestClassifier(TREES, random_state=0, n_jobs=1).fit(X, y))

    def probabilities(self, found: NDArray[np.float32]) -> NDArray[np.float64]:
        flat = self.machine.predict_proba(found.reshape(-1, found.shape[-1]))[:, 1]
        return np.asarray(flat.reshape(found.shape[:2]))

    def window_scores(self, found: NDArray[np.float32], view: TaggedPhoto, stride: int = STRIDE) -> NDArray[np.float64]:
        """The mean probability of the pixels of each window, from filters at every ``stride``-th pixel."""
        sums = np.pad(self.probabilities(found).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
        height, width = (side // stride for side in view.patch)
        top, left = (np.arange(count) * STEP // stride for count in view.windows.grid)
        bottom, right = np.minimum(top + height, found.shape[0]), np.minimum(left + width, found.shape[1])
        total = (
            sums[np.ix_(bottom, right)]
            - sums[np.ix_(top, right)]
            - sums[np.ix_(bottom, left)]
            + sums[np.ix_(top, left)]
        )
        return np.asarray(total / (height * width)).ravel()

    def seconds_of(self, view: TaggedPhoto) -> float:
        """CPU time of the scores of one picture, from its pixels, with the probabilities of all of them."""
        start = time.process_time()
        self.window_scores(filters(view.photo.pixels), view, stride=1)
        return time.process_time() - start
