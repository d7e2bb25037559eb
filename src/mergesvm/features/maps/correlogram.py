"""Features of coloured images: colour correlograms."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError, ParameterError
from mergesvm.features.ops.image import Image, as_shape
from mergesvm.features.ops.palette import DEPTH, colour_table, fixed_palette, grid_levels, sampled_palette
from mergesvm.features.ops.projection import dense
from mergesvm.features.pilot import Pilot, Vector
from mergesvm.features.random_map import Arrays, RandomMap

PALETTES = ("fixed", "sample")
VALUES = ("hellinger", "root", "count")

MAX_COLOURS = 4096
"""The largest palette."""

MAX_CHANNELS = 8
"""The largest number of channels of an image."""


@dataclass(frozen=True, eq=False, repr=False)
class Correlogram(RandomMap):
    """Colour correlograms: for each colour, the number of pairs of pixels of that colour at a given distance.

    After Huang et al. (1997), as Alpcan and Bauckhage use them to tag images: pixels are replaced by the nearest colour
    of a palette, and pairs of pixels of equal colour are counted at a horizontal distance and at a vertical distance.
    Unlike a histogram, this tells areas of one colour from scattered pixels.

    Parameters
    ----------
    n_colours : int
        Size of the palette, and number of features.
    distance : int or tuple of int
        The distance of the pixels of a pair, or the vertical and the horizontal distance.
    palette : {"fixed", "sample"}
        Colours on a regular grid, or the centres of clusters of the pixels of the pilot sample.
    values : {"hellinger", "root", "count"}
        Features are the square roots of the proportions of the counts, so that scalar products are Hellinger
        affinities; the square roots of the counts, which also tell how many pairs there are; or the counts.
    image : tuple of int, optional
        Height, width and, optionally, channels of the images; None for square and grey ones.
    seed, scaling, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`. "auto" does not scale. Pixel values range
        from 0 to 255 if those of the pilot sample are such integers, else over the range of the pilot sample.

    Examples
    --------
    >>> import numpy as np
    >>> from mergesvm.features import Correlogram
    >>> pictures = np.random.default_rng(0).integers(0, 256, size=(10, 60 * 100 * 3), dtype=np.uint8)
    >>> Correlogram().freeze(pictures).transform(pictures).shape
    (10, 256)
    """

    kind: ClassVar[str] = "correlogram"
    default_size: ClassVar[int] = 256

    n_colours: int = 256
    distance: int | tuple[int, ...] = 5
    palette: str = "fixed"
    values: str = "hellinger"
    image: tuple[int, ...] | None = (60, 100, 3)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_integer("n_colours", 2)
        if self.n_colours > MAX_COLOURS:
            raise ParameterError(f"n_colours must be at most {MAX_COLOURS:,}, not {self.n_colours:,}.")
        self._check_choice("palette", PALETTES)
        self._check_choice("values", VALUES)
        object.__setattr__(self, "image", as_shape(self.image))
        object.__setattr__(self, "distance", _as_distance(self.distance))

    @property
    def distances(self) -> tuple[int, int]:
        """The vertical and the horizontal distance."""
        return (
            (self.distance, self.distance) if isinstance(self.distance, int) else (self.distance[0], self.distance[1])
        )

    def n_outputs(self, inputs: int) -> int:
        """Return the number of colours."""
        image = Image.of(self.image, inputs)
        down, across = self.distances
        if image.height <= down or image.width <= across:
            raise ParameterError(
                f"Images of {image.height} x {image.width} pixels have no pairs at a vertical distance of {down} or "
                f"a horizontal distance of {across}. Use a smaller distance."
            )
        if image.channels > MAX_CHANNELS:
            raise ParameterError(f"Images have at most {MAX_CHANNELS} channels, not {image.channels}.")
        return self.n_colours

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the palette and of the range of pixel values."""
        return {"colours": (self.n_colours, Image.of(self.image, inputs).channels), "bounds": (2,)}

    def centre_and_scale(self, pilot: Pilot) -> tuple[Vector, Vector]:
        """Leave pixels as they are unless a scaling is given."""
        return pilot.centre_and_scale("none" if self.scaling == "auto" else self.scaling)

    def draw(self, pilot: Pilot) -> Arrays:
        """Choose the palette, in units of 1/256 of the range of pixel values."""
        channels = Image.of(self.image, pilot.rows.shape[1]).channels
        low, high = float(pilot.rows.min()), float(pilot.rows.max())
        if low >= 0 and high < DEPTH and (pilot.rows == np.floor(pilot.rows)).all():
            low, high = 0.0, float(DEPTH)
        elif high <= low:
            high = low + 1.0
        if self.palette == "fixed":
            palette = fixed_palette(self.n_colours, channels)
        else:
            pixels = (pilot.rows.reshape(-1, channels) - low) * (DEPTH / (high - low))
            palette = sampled_palette(pixels, self.n_colours, pilot.generator)
        # Colours that are left over repeat the first one, and are never the nearest.
        unused = np.repeat(palette[:1], self.n_colours - len(palette), axis=0)
        return {"colours": np.concatenate([palette, unused]), "bounds": np.array([low, high])}

    @cached_property
    def _table(self) -> NDArray[np.uint16]:
        return colour_table(self.arrays["colours"], self.arrays["colours"].shape[1])

    def quantized(self, scaled: NDArray[Any]) -> NDArray[np.uint16]:
        """Return the colours of images (rows, pixels x channels), as indices of the palette, (rows, pixels)."""
        from mergesvm.features.ops import correlogram_jit  # imports numba, which is slow

        channels = self.arrays["colours"].shape[1]
        low, high = self.arrays["bounds"]
        levels = grid_levels(channels)
        factor = scaled.dtype.type(levels / (high - low) if high > low else 0)
        colours = np.empty((len(scaled), scaled.shape[1] // channels), dtype=np.uint16)
        correlogram_jit.quantize(scaled, scaled.dtype.type(low), factor, levels, self._table, colours)
        return colours

    def apply(self, scaled: Any, out: NDArray[Any]) -> None:
        """Count the pairs of each colour, and take the square roots of their proportions."""
        from mergesvm.features.ops import correlogram_jit

        image, (down, across) = Image.of(self.image, self.layout.width), self.distances
        colours = self.quantized(dense(scaled)).reshape(-1, image.height, image.width)
        out[:] = 0
        correlogram_jit.count_pairs(colours, across, down, out)
        self._finish(out, out.sum(axis=1, keepdims=True))

    def window_grid(self, height: int, width: int, step: int) -> tuple[int, int]:
        """Return the number of windows of the size of the images, vertically and horizontally, in a larger picture."""
        image = Image.of(self.image, self.layout.width)
        return max(0, (height - image.height) // step + 1), max(0, (width - image.width) // step + 1)

    def window_counts(self, picture: NDArray[Any], step: int = 8) -> NDArray[np.uint16]:
        """Return the counts in all windows of a picture (height, width, channels), (lines, columns, colours).

        Windows have the size of the images that the map accepts; ``step`` is their distance in pixels. The columns of
        those images must not be scaled differently.

        >>> import numpy as np
        >>> picture = np.zeros((64, 64), dtype=np.uint8)
        >>> correlogram = Correlogram(4, distance=1, image=(16, 16)).freeze(np.zeros((1, 256), dtype=np.uint8))
        >>> correlogram.window_counts(picture, step=16)[0, 0]
        array([480,   0,   0,   0], dtype=uint16)
        """
        from mergesvm.features.ops import correlogram_jit

        image, (down, across) = Image.of(self.image, self.layout.width), self.distances
        picture = np.ascontiguousarray(picture).reshape(*picture.shape[:2], -1)
        height, width, channels = picture.shape
        if channels != image.channels:
            raise DataError(f"The picture has {channels} channels, but {self!r} was frozen for {image.channels}.")
        if 2 * image.height * image.width > np.iinfo(np.uint16).max:
            raise ParameterError(f"Windows of {image.height} x {image.width} pixels are too large to be counted.")
        scaled = self._window_pixels(picture)
        colours = self.quantized(scaled.reshape(1, -1)).reshape(height, width)
        level, upright = np.empty_like(colours), np.empty_like(colours)
        correlogram_jit.find_pairs(colours, across, down, self.n_colours, level, upright)
        counts = np.empty((*self.window_grid(height, width, step), self.n_colours), dtype=np.uint16)
        scratch = np.zeros(self.n_colours + 1, dtype=np.int32)
        shape, distance = (image.height, image.width), (down, across)
        correlogram_jit.slide(level, upright, shape, distance, step, scratch, counts)
        return counts

    def _window_pixels(self, picture: NDArray[Any]) -> NDArray[Any]:
        """Centre and scale the pixels of a picture as those of an image."""
        centre, scale = self.arrays["centre"], self.arrays["scale"]
        if (centre != centre[0]).any() or (scale != scale[0]).any():
            raise ParameterError(f"{self!r} scales pixels by their place in an image. Use scaling='auto' for windows.")
        if centre[0] == 0 and scale[0] == 1:
            return np.asarray(picture, dtype=self.dtype)
        return np.asarray((picture - centre[0]) / scale[0], dtype=self.dtype)

    def features_of_counts(self, counts: NDArray[Any], totals: NDArray[Any]) -> NDArray[Any]:
        """Return the features of counts of :meth:`window_counts`, given the total of the window of each."""
        features = counts.astype(self.dtype)
        self._finish(features, totals)
        features *= self.arrays["gain"][0]
        return features

    def _finish(self, counts: NDArray[Any], totals: NDArray[Any]) -> None:
        """Turn counts into features, in place; ``totals`` are those of their images."""
        if self.values == "hellinger":
            counts /= np.maximum(totals, 1)
        if self.values != "count":
            np.sqrt(counts, out=counts)


def _as_distance(distance: Any) -> int | tuple[int, ...]:
    values = distance if isinstance(distance, (tuple, list)) else (distance,)
    integers = all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) for each in values)
    if len(values) not in (1, 2) or not integers or not all(0 < each < 2**15 for each in values):
        raise ParameterError(f"distance must be a positive integer, or two: (vertical, horizontal), not {distance!r}.")
    return int(values[0]) if len(values) == 1 else (int(values[0]), int(values[1]))
