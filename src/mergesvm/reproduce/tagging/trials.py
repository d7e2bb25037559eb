"""One trial: learn a kind of animal from strokes on two photos, alone and together, and find it in the other photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.features.maps.correlogram import Correlogram
from mergesvm.features.ops.image import Image
from mergesvm.reproduce.tagging.photos import ANIMAL, UNKNOWN, Photo
from mergesvm.tagging.learners import KernelLearner, KernelScorer, MergeLearner, PatchRows, TagLearner, WindowScorer
from mergesvm.tagging.sampling import SamplingOptions, sample_patches
from mergesvm.tagging.truth import PixelCounts
from mergesvm.tagging.windows import STEP, Windows

TRAININGS = ("picture 1", "picture 2", "pictures 1 + 2")


@dataclass(frozen=True)
class TaggedPhoto:
    """A photo with the features of its windows, and which of them depict the animal."""

    photo: Photo
    correlogram: Correlogram

    @cached_property
    def windows(self) -> Windows:
        """The windows of the photo."""
        return Windows.of(self.photo.pixels, self.correlogram)

    @cached_property
    def features(self) -> sparse.csr_array:
        """The features of the windows."""
        return self.windows.features(self.correlogram)

    @property
    def patch(self) -> tuple[int, int]:
        """The height and the width of a window."""
        image = Image.of(self.correlogram.image, self.correlogram.layout.width)
        return image.height, image.width

    @cached_property
    def truth(self) -> NDArray[np.uint8]:
        """The value of the trimap in the centre of each window."""
        (height, width), (lines, columns) = self.patch, self.windows.grid
        at = np.ix_(np.arange(lines) * STEP + height // 2, np.arange(columns) * STEP + width // 2)
        return np.asarray(self.photo.trimap[at].ravel())

    def rows(self, sampling: SamplingOptions) -> PatchRows:
        """Return the patches that are sampled from the strokes of the photo."""
        height, width = self.patch
        pixels = self.photo.pixels
        sample = sample_patches(self.photo.strokes(), pixels.shape[:2], self.patch, sampling, self.photo.name)
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (height, width), axis=(0, 1))
        cut = windows[sample.positions[:, 0], sample.positions[:, 1]]
        rows = np.ascontiguousarray(np.moveaxis(cut, 1, -1)).reshape(len(sample), -1)
        return PatchRows(rows, sample.positive, sample.weights)


def counts(scorer: WindowScorer, photos: Sequence[TaggedPhoto], threshold: float = 0.0) -> PixelCounts:
    """Count the windows of photos by what was found and what is true; unclassified ones do not count."""
    total = PixelCounts()
    for each in photos:
        known = each.truth != UNKNOWN
        found = scorer.scores(each.features) > threshold
        total += PixelCounts.of(found[known], (each.truth == ANIMAL)[known])
    return total


def trained(kind: type[TagLearner], pieces: Sequence[Any], correlogram: Correlogram) -> WindowScorer:
    """Return the model of pieces."""
    scorer = kind(correlogram).train(list(pieces))
    assert scorer is not None
    return scorer


def run_trial(
    tagged: tuple[TaggedPhoto, TaggedPhoto],
    others: Sequence[TaggedPhoto],
    sizes: Sequence[int],
    sampling: SamplingOptions,
) -> list[dict[str, Any]]:
    """Return precision and recall for each training, learner and number of support vectors."""
    found = []
    correlogram = tagged[0].correlogram
    rows = [each.rows(sampling) for each in tagged]
    for kind, name in ((KernelLearner, "kernel"), (MergeLearner, "merge")):
        learner = kind(correlogram)
        pieces = [learner.piece(each) for each in rows]
        for training, used in zip(TRAININGS, (pieces[:1], pieces[1:], pieces), strict=True):
            scorer = trained(kind, used, correlogram)
            for size, each in _sized(scorer, used, sizes):
                result = counts(each, others)
                found.append(
                    {
                        "learner": name,
                        "training": training,
                        "size": size,
                        "support_vectors": each.facts().get("support_vectors"),
                        "precision": result.precision,
                        "recall": result.recall,
                    }
                )
    return found


def _sized(scorer: WindowScorer, pieces: Sequence[Any], sizes: Sequence[int]) -> list[tuple[int | None, WindowScorer]]:
    """The model, and for a kernel model also smaller ones, fitted to its scores at the rows of the pieces."""
    if not isinstance(scorer, KernelScorer):
        return [(None, scorer)]
    X = np.concatenate([piece[0] for piece in pieces])
    smaller = [(size, KernelScorer(scorer.model.reduced(size, X))) for size in sizes]
    return [*smaller, (None, scorer)]
