"""Brush strokes on a picture, in coordinates that do not depend on its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError

MAX_POINTS = 10_000
"""The largest number of points of one stroke."""


@dataclass(frozen=True)
class Stroke:
    """A line drawn over a part of a picture.

    ``points`` are pairs (x, y) as fractions of the width and the height of the picture; ``width`` is that of the brush,
    as a fraction of the longer side. Negative strokes mark what the tag does not mean.
    """

    points: tuple[tuple[float, float], ...]
    width: float = 0.02
    negative: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.points) <= MAX_POINTS:
            raise DataError(f"A stroke must have 1 to {MAX_POINTS:,} points, got {len(self.points):,}.")
        values = np.asarray(self.points, dtype=float)
        if values.ndim != 2 or values.shape[1] != 2 or not ((values >= 0) & (values <= 1)).all():
            raise DataError("The points of a stroke must be pairs (x, y) of numbers from 0 to 1.")
        if not 0 < self.width <= 1:
            raise DataError(f"The width of a stroke must be above 0 and at most 1, got {self.width!r}.")

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Build a stroke from parsed JSON, and check it.

        >>> Stroke.read({"points": [[0.5, 0.5], [0.6, 0.5]], "width": 0.1}).negative
        False
        """
        try:
            points = tuple((float(x), float(y)) for x, y in fields["points"])
            width, negative = float(fields.get("width", 0.02)), fields.get("negative", False)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise DataError("A stroke must have points, a list of pairs of numbers, and may have a width.") from None
        if not isinstance(negative, bool):
            raise DataError(f"negative must be true or false, got {negative!r}.")
        return cls(points, width, negative)

    def as_json(self) -> dict[str, Any]:
        """Return the stroke as JSON values, which :meth:`read` accepts."""
        return {"points": [list(point) for point in self.points], "width": self.width, "negative": self.negative}


@dataclass(frozen=True)
class Box:
    """A rectangle of pixels; ``bottom`` and ``right`` are outside."""

    top: int
    left: int
    bottom: int
    right: int

    @classmethod
    def around(cls, strokes: Sequence[Stroke], height: int, width: int) -> Self:
        """Return the bounding box of strokes in a picture of this size.

        >>> Box.around([Stroke(((0.25, 0.5), (0.5, 0.5)), width=0.1)], 100, 200)
        Box(top=40, left=40, bottom=60, right=110)
        """
        radius = max(stroke.width for stroke in strokes) / 2 * max(height, width)
        points = np.concatenate([np.asarray(stroke.points) for stroke in strokes]) * [width, height]
        left, top = np.floor(points.min(axis=0) - radius).astype(int)
        right, bottom = np.ceil(points.max(axis=0) + radius).astype(int)
        top, left = min(max(0, top), height - 1), min(max(0, left), width - 1)
        return cls(int(top), int(left), int(max(top + 1, min(bottom, height))), int(max(left + 1, min(right, width))))


def stroked_pixels(strokes: Sequence[Stroke], height: int, width: int) -> NDArray[np.bool_]:
    """Return which pixels of a picture the strokes cover, of shape (height, width).

    >>> stroked_pixels([Stroke(((0.5, 0.5),), width=0.5)], 4, 4).astype(int)
    array([[0, 0, 0, 0],
           [0, 1, 1, 0],
           [0, 1, 1, 0],
           [0, 0, 0, 0]])
    """
    covered = np.zeros((height, width), dtype=bool)
    for stroke in strokes:
        radius = stroke.width / 2 * max(height, width)
        points = np.asarray(stroke.points) * [width, height]
        ends = points[1:] if len(points) > 1 else points
        for start, end in zip(points, ends, strict=False):
            low = np.maximum(np.floor(np.minimum(start, end) - radius), 0).astype(int)
            high = np.minimum(np.ceil(np.maximum(start, end) + radius), [width, height]).astype(int)
            y, x = np.mgrid[low[1] : high[1], low[0] : high[0]]
            along, offset = end - start, np.stack([x + 0.5 - start[0], y + 0.5 - start[1]])
            length = float(along @ along)
            place = np.clip(np.tensordot(along, offset, 1) / length, 0, 1) if length else np.zeros(x.shape)
            distance = (offset[0] - place * along[0]) ** 2 + (offset[1] - place * along[1]) ** 2
            covered[low[1] : high[1], low[0] : high[0]] |= distance <= radius**2
    return covered
