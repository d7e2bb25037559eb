"""The shape of rows that are images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError, ParameterError


@dataclass(frozen=True)
class Image:
    """The shape of an image. Columns are ordered by line, then by position in the line, then by channel."""

    height: int
    width: int
    channels: int = 1

    @classmethod
    def of(cls, shape: tuple[int, ...] | None, inputs: int) -> Image:
        """Return the given shape, checked against the number of columns; None stands for a square grey image.

        >>> Image.of(None, 784), Image.of((32, 32, 3), 3072)
        (Image(height=28, width=28, channels=1), Image(height=32, width=32, channels=3))
        """
        if shape is None:
            side = isqrt(inputs)
            if side * side != inputs:
                raise DataError(
                    f"Rows of {inputs} columns are not square images. Give their shape: image=(height, width) or "
                    f"image=(height, width, channels)."
                )
            return cls(side, side)
        image = cls(*shape)
        if image.pixels != inputs:
            raise DataError(f"Images of shape {shape} have {image.pixels} columns, but the rows have {inputs}.")
        return image

    @property
    def pixels(self) -> int:
        """The number of columns."""
        return self.height * self.width * self.channels

    def patch_grid(self, size: int) -> tuple[int, int]:
        """Return the number of positions of a square patch, vertically and horizontally."""
        return max(0, self.height - size + 1), max(0, self.width - size + 1)

    def patches(self, size: int) -> NDArray[np.intp]:
        """Return the columns of every square patch, (positions, size x size x channels), line by line."""
        columns = np.arange(self.pixels).reshape(self.height, self.width, self.channels)
        windows = np.lib.stride_tricks.sliding_window_view(columns, (size, size), axis=(0, 1))
        at: NDArray[np.intp] = np.moveaxis(windows, 2, -1).reshape(-1, size * size * self.channels)
        return at


def as_shape(shape: Any) -> tuple[int, ...] | None:
    """Check an image shape and return it as a tuple."""
    if shape is None:
        return None
    sides = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    integers = all(isinstance(side, (int, np.integer)) and not isinstance(side, bool) for side in sides)
    if len(sides) not in (2, 3) or not integers or not all(0 < side < 2**20 for side in sides):
        raise ParameterError(f"image must be (height, width) or (height, width, channels), not {shape!r}.")
    return tuple(int(side) for side in sides)
