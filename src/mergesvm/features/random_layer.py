"""The base class of maps with one matrix product and one elementwise function."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.features.ops.fields import check_fields, draw_fields
from mergesvm.features.ops.image import Image, as_shape
from mergesvm.features.ops.projection import project
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import RandomMap


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
        check_fields(self.fields, self.image)

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
        """Draw the columns that each unit uses; None for all."""
        return draw_fields(self.fields, self.image, pilot.rows.shape[1], self.n_features, pilot.generator)

    def apply(self, scaled: Any, out: NDArray[Any]) -> None:
        """Compute g(W'x + b)."""
        project(scaled, self.arrays["weights"], out)
        out += self.arrays["bias"]
        self.activate(out)
