"""Receptive fields: the columns that each unit of a layer uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.features.ops.image import Image

FIELDS = (None, "rectangles", "columns")

MIN_SIDE_FRACTION = 5 / 28
"""The shortest side of a rectangle, as a fraction of the image's."""

MIN_COLUMN_FRACTION, MAX_COLUMN_FRACTION = 0.1, 0.55
"""The fraction of the columns that a unit uses with fields="columns"."""


def check_fields(fields: str | None, image: tuple[int, ...] | None) -> None:
    """Raise an error unless the fields are known and fit the image shape."""
    if fields not in FIELDS:
        raise ParameterError(f"fields must be one of {', '.join(map(repr, FIELDS))}, not {fields!r}.")
    if image is not None and fields != "rectangles":
        raise ParameterError("image is used only with fields='rectangles'.")


def draw_fields(
    fields: str | None, image: tuple[int, ...] | None, inputs: int, count: int, generator: np.random.Generator
) -> NDArray[np.bool_] | None:
    """Draw the columns of each of ``count`` units: a mask of shape (inputs, count), or None for all columns.

    >>> draw_fields("rectangles", (2, 2), 4, 3, np.random.default_rng(0)).shape
    (4, 3)
    """
    if fields is None:
        return None
    if fields == "rectangles":
        return _rectangles(Image.of(image, inputs), count, generator)
    low, high = max(1, round(MIN_COLUMN_FRACTION * inputs)), max(1, round(MAX_COLUMN_FRACTION * inputs))
    ranks = generator.random((inputs, count)).argsort(axis=0).argsort(axis=0)
    chosen: NDArray[np.bool_] = ranks < generator.integers(low, high + 1, count)
    return chosen


def _rectangles(image: Image, count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    masks = []
    for length in (image.height, image.width):
        sizes = generator.integers(max(1, round(MIN_SIDE_FRACTION * length)), length + 1, count)
        starts = generator.integers(0, length - sizes + 1)
        positions = np.arange(length)[:, None]
        masks.append((positions >= starts) & (positions < starts + sizes))
    rectangles = masks[0][:, None] & masks[1][None]
    return np.repeat(rectangles.reshape(-1, count), image.channels, axis=0)


def mean_squared_distance_within(rows: NDArray[np.float64], mask: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Return the mean squared distance of rows in each field, at least a tenth of that of an average field."""
    distances = 2 * rows.var(axis=0)
    if mask is None:
        return np.array([distances.sum() or 1.0])
    least = 0.1 * (distances.mean() or 1.0) * mask.sum(axis=0)
    within: NDArray[np.float64] = np.maximum(distances @ mask, least)
    return within
