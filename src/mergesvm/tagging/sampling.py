"""Rows from strokes: patches sampled where they lie, and counter-examples elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mergesvm.checks import check_flag
from mergesvm.errors import DataError, ParameterError
from mergesvm.tagging.strokes import Box, Stroke, stroked_pixels

MIN_WEIGHT = 0.05
"""The weight of a patch without a stroked pixel, relative to one that is covered."""

Positions = NDArray[np.intp]
"""The upper left corners of patches, (patches, 2): line and column."""


@dataclass(frozen=True)
class SamplingOptions:
    """How many patches are sampled from a tagged picture, and how they are weighted.

    ``inside`` patches come from the bounding box of the strokes and ``outside`` from elsewhere, as in the paper. With
    ``weighted``, patches inside weigh as much as they are covered by strokes. With ``other_tags``, the boxes of other
    tags in the picture give as many counter-examples again.
    """

    inside: int = 100
    outside: int = 250
    weighted: bool = False
    other_tags: bool = False

    def __post_init__(self) -> None:
        for name in ("inside", "outside"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100_000:
                raise ParameterError(f"{name} must be an integer from 1 to 100,000, got {value!r}.")
        for name in ("weighted", "other_tags"):
            check_flag(name, getattr(self, name))


@dataclass(frozen=True)
class PatchSample:
    """Patches of a picture: where they are, whether they show the tag, and their weights."""

    positions: Positions
    positive: NDArray[np.bool_]
    weights: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.positions)


def sample_patches(
    strokes: Sequence[Stroke],
    picture: tuple[int, int],
    patch: tuple[int, int],
    options: SamplingOptions,
    seed: str,
    others: Sequence[Sequence[Stroke]] = (),
) -> PatchSample:
    """Sample patches of a tagged picture. The same strokes and seed give the same patches.

    Negative strokes give counter-examples; if there are no others, only those.

    Parameters
    ----------
    strokes : sequence of Stroke
        Those of the tag.
    picture, patch : (height, width)
        The sizes of the picture and of the patches, in pixels.
    options : SamplingOptions
    seed : str
        Any text, such as the names of the picture and the tag.
    others : sequences of Stroke
        The strokes of each other tag of the picture.
    """
    if picture[0] < patch[0] or picture[1] < patch[1]:
        raise DataError(
            f"A picture of {picture[0]} x {picture[1]} pixels is smaller than the patches of {patch[0]} x {patch[1]}. "
            f"Use a larger picture or smaller patches."
        )
    positive, negative = ([stroke for stroke in strokes if stroke.negative == wanted] for wanted in (False, True))
    generator = np.random.default_rng(_digest(strokes, seed))
    if not positive:
        positions = _within(Box.around(negative, *picture), picture, patch, options.inside, generator)
        return PatchSample(positions, np.zeros(len(positions), dtype=bool), np.ones(len(positions)))
    box = Box.around(positive, *picture)
    inside = _within(box, picture, patch, options.inside, generator)
    weights = [_weights(positive, picture, patch, inside) if options.weighted else np.ones(len(inside))]
    parts = [inside]
    if negative:
        parts.append(_within(Box.around(negative, *picture), picture, patch, options.inside, generator))
        weights.append(_weights(negative, picture, patch, parts[-1]) if options.weighted else np.ones(len(parts[-1])))
    if options.other_tags:
        parts += [_within(Box.around(each, *picture), picture, patch, options.inside, generator) for each in others]
    parts.append(_elsewhere(box, picture, patch, options.outside, generator))
    weights += [np.ones(len(part)) for part in parts[len(weights) :]]
    sizes = [len(part) for part in parts]
    shows_tag = np.arange(sum(sizes)) < sizes[0]
    return PatchSample(np.concatenate(parts), shows_tag, np.concatenate(weights))


def _digest(strokes: Sequence[Stroke], seed: str) -> int:
    """A number from the strokes and the seed, equal on all machines."""
    text = repr((seed, [(stroke.points, stroke.width, stroke.negative) for stroke in strokes]))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _within(
    box: Box, picture: tuple[int, int], patch: tuple[int, int], count: int, generator: np.random.Generator
) -> Positions:
    """Sample patches within a box; in a direction in which the box is smaller than a patch, patches contain it."""
    spans = ((box.top, box.bottom), (box.left, box.right))
    axes = []
    for (start, end), length, side in zip(spans, picture, patch, strict=True):
        low, high = np.clip(sorted((start, end - side)), 0, length - side)
        axes.append(generator.integers(low, high + 1, size=count))
    return np.stack(axes, axis=1).astype(np.intp)


def _elsewhere(
    box: Box, picture: tuple[int, int], patch: tuple[int, int], count: int, generator: np.random.Generator
) -> Positions:
    """Sample patches whose centre is outside of a box; none if there is no such place."""
    lines, columns = picture[0] - patch[0] + 1, picture[1] - patch[1] + 1
    line, column = np.arange(lines) + patch[0] // 2, np.arange(columns) + patch[1] // 2
    in_lines = (line >= box.top) & (line < box.bottom)
    in_columns = (column >= box.left) & (column < box.right)
    free = np.flatnonzero(~(in_lines[:, None] & in_columns))
    if len(free) == 0:
        return np.empty((0, 2), dtype=np.intp)
    return np.stack(np.divmod(free[generator.integers(len(free), size=count)], columns), axis=1).astype(np.intp)


def _weights(
    strokes: Sequence[Stroke], picture: tuple[int, int], patch: tuple[int, int], positions: Positions
) -> NDArray[np.float64]:
    """Return the fraction of each patch that is covered by strokes, relative to the largest, at least MIN_WEIGHT."""
    covered = np.zeros((picture[0] + 1, picture[1] + 1))
    covered[1:, 1:] = stroked_pixels(strokes, *picture).cumsum(axis=0).cumsum(axis=1)
    (top, left), (bottom, right) = positions.T, (positions + patch).T
    counts = covered[bottom, right] - covered[top, right] - covered[bottom, left] + covered[top, left]
    return np.asarray(np.maximum(counts / max(1.0, counts.max()), MIN_WEIGHT))
