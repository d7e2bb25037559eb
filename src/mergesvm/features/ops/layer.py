"""Maps of one product and one function, each feature with a field of view of its own."""

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
class Layer(RandomMap):
    """phi(x) = g(W'x + b), for weights and biases that a subclass draws and a function that it applies.

    Parameters
    ----------
    n_features : int
        The number of units.
    fields : {None, "rectangles", "columns"}
        What each unit looks at: all columns, a rectangle of the image, or some columns drawn at random.
    image : tuple of int, optional
        Height and width of the images, and perhaps channels; square by default. For rectangles only.
    """

    n_features: int
    fields: str | None = field(default=None, kw_only=True)
    image: tuple[int, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("n_features", 1)
        object.__setattr__(self, "image", as_shape(self.image))
        check_fields(self.fields, self.image)

    @abstractmethod
    def bend(self, out: NDArray[Any]) -> None:
        """Apply the function in place."""

    def count(self, inputs: int) -> int:
        """As many as there are units."""
        if self.fields == "rectangles":
            Image.of(self.image, inputs)
        return self.n_features

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Weights and biases."""
        return {"weights": (inputs, self.n_features), "bias": (self.n_features,)}

    def view(self, pilot: Pilot) -> NDArray[np.bool_] | None:
        """The columns that each unit looks at, drawn at random; None for all."""
        return draw_fields(self.fields, self.image, pilot.rows.shape[1], self.n_features, pilot.generator)

    def apply(self, near: Any, out: NDArray[Any]) -> None:
        """g(W'x + b)."""
        project(near, self.arrays["weights"], out)
        out += self.arrays["bias"]
        self.bend(out)
