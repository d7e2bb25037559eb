"""Fields of view: the columns that one feature looks at, where it does not look at all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.features.ops.image import Image
from mergesvm.features.pilot import Pilot

FIELDS = (None, "rectangles", "columns")

LEAST_SIDE = 5 / 28
"""The shortest side of a rectangle, as a share of the image's."""

FEWEST, MOST = 0.1, 0.55
"""The share of the columns that a feature of a table looks at."""


def check_fields(fields: str | None, image: tuple[int, ...] | None) -> None:
    """Raise an error for fields that there are not."""
    if fields not in FIELDS:
        raise ParameterError(f"fields has to be one of {', '.join(map(repr, FIELDS))}, not {fields!r}.")
    if image is not None and fields != "rectangles":
        raise ParameterError("The shape of images is of use only with fields='rectangles'.")


def draw_fields(
    fields: str | None, image: tuple[int, ...] | None, inputs: int, count: int, generator: np.random.Generator
) -> NDArray[np.bool_] | None:
    """The columns of each of ``count`` features, (inputs, count); None for all.

    >>> draw_fields("rectangles", (2, 2), 4, 3, np.random.default_rng(0)).shape
    (4, 3)
    """
    if fields is None:
        return None
    if fields == "rectangles":
        return _rectangles(Image.of(image, inputs), count, generator)
    low, high = max(1, round(FEWEST * inputs)), max(1, round(MOST * inputs))
    ranks = generator.random((inputs, count)).argsort(axis=0).argsort(axis=0)
    chosen: NDArray[np.bool_] = ranks < generator.integers(low, high + 1, count)
    return chosen


def _rectangles(image: Image, count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    masks = []
    for length in (image.height, image.width):
        sizes = generator.integers(max(1, round(LEAST_SIDE * length)), length + 1, count)
        starts = generator.integers(0, length - sizes + 1)
        places = np.arange(length)[:, None]
        masks.append((places >= starts) & (places < starts + sizes))
    rectangles = masks[0][:, None] & masks[1][None]
    return np.repeat(rectangles.reshape(-1, count), image.channels, axis=0)


def spread_within(pilot: Pilot, mask: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """The mean squared distance of rows in the columns of each field, and not much less than in as many others."""
    distances = 2 * pilot.rows.var(axis=0)
    if mask is None:
        return np.array([distances.sum() or 1.0])
    least = 0.1 * (distances.mean() or 1.0) * mask.sum(axis=0)
    spread: NDArray[np.float64] = np.maximum(distances @ mask, least)
    return spread
