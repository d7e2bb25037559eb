"""Features of images: pooled responses of small filters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.features.ops.image import Image, as_shape
from mergesvm.features.ops.projection import dense, squares
from mergesvm.features.pilot import Pilot, Vector
from mergesvm.features.random_map import Arrays, RandomMap
from mergesvm.features.scratch import Scratch

FILTERS = ("data", "random")
RECTIFIERS = ("relu", "split", "absolute")

SAMPLE_PATCHES, SAMPLE_ROWS = 40_000, 1000
"""The number of patches, and of rows of the pilot sample, from which the whitening is computed."""

CONTRAST_VARIANCE = 0.01
"""Added to the variance within a patch, in units of the variance of the images, so that blank patches stay small."""

CHUNK_BYTES = 2**20
"""Responses are rectified and pooled in chunks that fit the cache."""

MAX_PATCH_VALUES = 2**26
"""The largest number of values in all patches of an image, and of responses to them."""

SCRATCH = Scratch()


@dataclass(frozen=True, eq=False, repr=False)
class Patches(RandomMap):
    """Responses of small filters to all patches of an image, rectified and averaged over regions.

    After Coates, Lee and Ng (2011): each patch is centred and scaled to unit contrast; patches are whitened, which
    removes the correlation of neighbouring pixels; filters are whitened patches of the pilot sample of unit length, or
    random, and are not trained; their responses are rectified and averaged over a grid of regions.

    Parameters
    ----------
    n_filters : int
        The number of features is n_filters x pooling^2, and twice that with rectify="split".
    size : int
        Side of the patches, in pixels.
    padding : int
        Width of the blank border added to the images, in pixels.
    pooling : int
        Responses are averaged over a grid of pooling x pooling regions.
    filters : {"data", "random"}
        Patches of the pilot sample, or normally distributed. Patches are parts of rows and are stored in the map.
    rectify : {"relu", "split", "absolute"}
        max(z, 0); that and max(-z, 0) as two features; or |z|.
    whitening : float, optional
        The fraction of the mean variance that is added to all variances before whitening; None does not whiten.
    image : tuple of int, optional
        Height, width and, optionally, channels of the images; square and grey by default.
    seed, scaling, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`. Images are scaled but not centred.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> patches = ms.features.Patches(32, size=3, pooling=3).freeze(X[:900])
    >>> model = ms.solve(ms.learn(X[:900], y[:900], features=patches), multiclass="ovo")
    >>> model.score(X[900:], y[900:]) > 0.95
    True
    """

    kind: ClassVar[str] = "patches"
    default_size: ClassVar[int] = 64

    n_filters: int
    size: int = 6
    padding: int = 2
    pooling: int = 4
    filters: str = "data"
    rectify: str = "relu"
    whitening: float | None = 0.1
    image: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_filters", "size", "pooling"):
            self._check_integer(name, 1)
        self._check_integer("padding", 0)
        self._check_choice("filters", FILTERS)
        self._check_choice("rectify", RECTIFIERS)
        self._check_positive("whitening")
        object.__setattr__(self, "image", as_shape(self.image))

    def n_outputs(self, inputs: int) -> int:
        """Return filters times regions, twice that if responses are split."""
        image = self.padded_shape(inputs)
        lines, columns = image.patch_grid(self.size)
        if 4 * self.padding > image.height + image.width:
            raise ParameterError(f"padding={self.padding} is larger than the images. Use less padding.")
        if min(lines, columns) < self.pooling:
            raise ParameterError(
                f"Padded images of {image.height} x {image.width} pixels have {lines} x {columns} patches of side "
                f"{self.size}, too few for {self.pooling} x {self.pooling} regions. Use a smaller size or pooling."
            )
        if lines * columns * max(self.size**2 * image.channels, self.n_filters) > MAX_PATCH_VALUES:
            raise ParameterError(
                f"Images of {image.height} x {image.width} pixels have too many values in patches of side {self.size}. "
                f"Use smaller images, smaller patches or fewer filters."
            )
        return self.pooling**2 * self.n_filters * (2 if self.rectify == "split" else 1)

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the filters, whitening included, and of their responses to the mean patch."""
        values = self.size**2 * self.padded_shape(inputs).channels
        return {"filters": (values, self.n_filters), "offsets": (self.n_filters,)}

    def centre_and_scale(self, pilot: Pilot) -> tuple[Vector, Vector]:
        """Scale all pixels by one number unless another scaling is given; never centre them."""
        centre, scale = pilot.centre_and_scale("whole" if self.scaling == "auto" else self.scaling)
        return np.zeros_like(centre), scale

    def draw(self, pilot: Pilot) -> Arrays:
        """Draw the filters, whitening included, and compute their responses to the mean patch."""
        generator = pilot.generator
        shape = self.padded_shape(pilot.rows.shape[1])
        at, images = shape.patches(self.size), self.pad(pilot.rows[:SAMPLE_ROWS]).reshape(-1, shape.pixels)
        rows = generator.integers(len(images), size=SAMPLE_PATCHES)
        positions = generator.integers(len(at), size=SAMPLE_PATCHES)
        sample = images[rows[:, None], at[positions]]
        sample = sample - sample.mean(axis=1, keepdims=True)
        contrast = np.sqrt(np.mean(sample**2, axis=1, keepdims=True) + CONTRAST_VARIANCE)
        # Ignore blank patches; if all are blank, any filters will do.
        sample = (sample / contrast)[(np.abs(sample) > 1e-3).any(axis=1)]
        if len(sample) == 0:
            sample = generator.standard_normal((SAMPLE_PATCHES, at.shape[1]))
        mean = sample.mean(axis=0)
        whiten = self._whitening(sample - mean)
        if self.filters == "data":
            chosen = (sample[generator.integers(len(sample), size=self.n_filters)] - mean) @ whiten
        else:
            chosen = generator.standard_normal((self.n_filters, at.shape[1]))
        chosen /= np.sqrt(squares(chosen))[:, None] + 1e-6
        filters = whiten @ chosen.T
        filters /= ((sample - mean) @ filters).std() + 1e-6
        return {"filters": filters, "offsets": mean @ filters}

    def _whitening(self, sample: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the symmetric matrix that gives patches approximately unit covariance."""
        values, vectors = np.linalg.eigh(np.cov(sample.T).reshape(sample.shape[1], -1))
        if self.whitening is None:
            return np.eye(len(values))
        deviations = np.sqrt(np.maximum(values, 0) + self.whitening * values.mean())
        return np.asarray((vectors / deviations) @ vectors.T)

    def padded_shape(self, inputs: int) -> Image:
        """Return the shape of the padded images."""
        image = Image.of(self.image, inputs)
        return Image(image.height + 2 * self.padding, image.width + 2 * self.padding, image.channels)

    def pad(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return padded images, (rows, height, width, channels)."""
        inner, outer, border = Image.of(self.image, rows.shape[1]), self.padded_shape(rows.shape[1]), self.padding
        images = rows.reshape(-1, inner.height, inner.width, inner.channels)
        if border == 0:
            return images
        padded = np.zeros((len(rows), outer.height, outer.width, outer.channels), dtype=rows.dtype)
        padded[:, border:-border, border:-border] = images
        return padded

    @property
    def regions(self) -> list[NDArray[np.intp]]:
        """The bounds of the pooling regions in the grid of patches, vertically and horizontally."""
        sides = self.padded_shape(self.layout.width).patch_grid(self.size)
        return [np.linspace(0, length, self.pooling + 1).round().astype(np.intp) for length in sides]

    def apply(self, scaled: Any, out: NDArray[Any]) -> None:
        """Compute rectified responses and average them over regions, a few images at a time."""
        from mergesvm.features.ops import jit  # imports numba, which is slow

        images, shape = dense(scaled), self.padded_shape(self.layout.width)
        lines, columns = shape.patch_grid(self.size)
        filters, offsets = self.arrays["filters"], self.arrays["offsets"]
        step = max(1, CHUNK_BYTES // (self.dtype.itemsize * lines * columns * max(filters.shape)))
        regions = out.reshape(len(out), self.pooling, self.pooling, -1)
        variance = self.dtype.type(CONTRAST_VARIANCE)
        for start in range(0, len(images), step):
            chunk = self.pad(images[start : start + step])
            patches = SCRATCH.take("patches", (len(chunk) * lines * columns, len(filters)), out.dtype)
            jit.unfold(chunk.reshape(len(chunk), shape.height, -1), shape.channels, self.size, variance, patches)
            responses = SCRATCH.take("responses", (len(patches), len(offsets)), out.dtype)
            np.matmul(patches, filters, out=responses)
            grid, pooled = responses.reshape(len(chunk), lines, columns, -1), regions[start : start + step]
            jit.pool(grid, offsets, RECTIFIERS.index(self.rectify), *self.regions, pooled)
