"""The base class of maps with one matrix product and one elementwise function."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.features.ops.image import Image, as_shape
from mergesvm.features.ops.projection import project
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import RandomMap

FIELDS = (None, "rectangles", "columns")

MIN_SIDE_FRACTION = 5 / 28
"""The shortest side of a rectangle, as a fraction of the image's."""

MIN_COLUMN_FRACTION, MAX_COLUMN_FRACTION = 0.1, 0.55
"""The fraction of the columns that a unit uses with fields="columns"."""


@dataclass(frozen=True, eq=False, repr=False)
class RandomLayer(RandomMap):
    """phi(x) = g(W'x + b): a subclass draws weights and biases and defines the function g.

    Parameters
    ----------
    n_features : int
        The number of units.
    fields : {None, "rectangles", "columns"}
        The columns that each unit uses: all, a rectangle of the image, or a random subset.
    image : tuple of int, optional
        Height, width and, optionally, channels of the images; square by default. Only for rectangles.
    """

    n_features: int
    fields: str | None = field(default=None, kw_only=True)
    image: tuple[int, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_integer("n_features", 1)
        object.__setattr__(self, "image", as_shape(self.image))
        self._check_choice("fields", FIELDS)
        if self.image is not None and self.fields != "rectangles":
            raise ParameterError("image is used only with fields='rectangles'.")

    @abstractmethod
    def activate(self, out: NDArray[Any]) -> None:
        """Apply g in place."""

    def n_outputs(self, inputs: int) -> int:
        """Return the number of units."""
        if self.fields == "rectangles":
            Image.of(self.image, inputs)
        return self.n_features

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of weights and biases."""
        return {"weights": (inputs, self.n_features), "bias": (self.n_features,)}

    def draw_mask(self, pilot: Pilot) -> NDArray[np.bool_] | None:
        """Draw the columns that each unit uses, its receptive field: a mask (columns, units), or None for all."""
        inputs, count, generator = pilot.rows.shape[1], self.n_features, pilot.generator
        if self.fields is None:
            return None
        if self.fields == "rectangles":
            return _rectangles(Image.of(self.image, inputs), count, generator)
        low, high = max(1, round(MIN_COLUMN_FRACTION * inputs)), max(1, round(MAX_COLUMN_FRACTION * inputs))
        ranks = generator.random((inputs, count)).argsort(axis=0).argsort(axis=0)
        chosen: NDArray[np.bool_] = ranks < generator.integers(low, high + 1, count)
        return chosen

    def apply(self, scaled: Any, out: NDArray[Any]) -> None:
        """Compute g(W'x + b)."""
        project(scaled, self.arrays["weights"], out)
        out += self.arrays["bias"]
        self.activate(out)


def _rectangles(image: Image, count: int, generator: np.random.Generator) -> NDArray[np.bool_]:
    masks = []
    for length in (image.height, image.width):
        sizes = generator.integers(max(1, round(MIN_SIDE_FRACTION * length)), length + 1, count)
        starts = generator.integers(0, length - sizes + 1)
        positions = np.arange(length)[:, None]
        masks.append((positions >= starts) & (positions < starts + sizes))
    rectangles = masks[0][:, None] & masks[1][None]
    return np.repeat(rectangles.reshape(-1, count), image.channels, axis=0)
