"""Features of images: what small patches of them look like, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.features.ops.image import Image, as_shape
from mergesvm.features.ops.projection import dense, squares
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import Arrays, RandomMap
from mergesvm.features.scaling import Scaling, find_scaling
from mergesvm.features.scratch import Scratch

FILTERS = ("data", "random")
RECTIFIERS = ("relu", "split", "absolute")

SAMPLE, SAMPLE_ROWS = 40_000, 1000
"""How many patches, of how many rows of the pilot sample, tell how patches vary."""

FAINT = 0.01
"""The variance within a patch below which it counts as nearly blank, in units of the variance of the images."""

CHUNK_BYTES = 2**20
"""The responses to be rectified and pooled at one time, which have to stay in the cache."""

MOST_VALUES = 2**26
"""An image may have so many values in all its patches together, and so many responses to them."""

SCRATCH = Scratch()


@dataclass(frozen=True, eq=False, repr=False)
class Patches(RandomMap):
    """Responses of small filters to all patches of an image, rectified and averaged over regions.

    Each patch has its mean taken off and is brought to unit contrast; patches are whitened, so that neighbouring
    pixels do not all tell the same; a filter is a whitened patch of the pilot sample, of unit length, or drawn at
    random; its responses are rectified, and averaged over a grid of regions (after Coates, Lee and Ng 2011). No filter
    is trained.

    Parameters
    ----------
    n_filters : int
        The number of features is this times pooling^2, and twice that if responses are split.
    size : int
        Side of the patches, in pixels.
    padding : int
        The images get a rim of so many blank pixels.
    pooling : int
        Responses are averaged over a grid of pooling x pooling regions.
    filters : {"data", "random"}
        Patches of the pilot sample, or drawn from the normal distribution. Patches are parts of rows, and travel with
        the map.
    rectify : {"relu", "split", "absolute"}
        max(z, 0); that and max(-z, 0) as two features; or |z|.
    whitening : float, optional
        How much of the mean variance is added before dividing by the roots of the variances of patches; None does not
        whiten.
    image : tuple of int, optional
        Height and width of the images, and perhaps channels; square and grey by default.
    seed, scaling, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`. Images are scaled, and not centred.

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
            self._whole(name, 1)
        self._whole("padding", 0)
        self._choice("filters", FILTERS)
        self._choice("rectify", RECTIFIERS)
        self._positive("whitening")
        object.__setattr__(self, "image", as_shape(self.image))

    def count(self, inputs: int) -> int:
        """Filters times regions, twice that if responses are split."""
        image = self.padded(inputs)
        lines, places = image.places(self.size)
        if 4 * self.padding > image.height + image.width:
            raise ParameterError(f"padding of {self.padding} pixels is more than the images have. Take less.")
        if min(lines, places) < self.pooling:
            raise ParameterError(
                f"Padded images of {image.height} x {image.width} pixels have {lines} x {places} patches of side "
                f"{self.size}, too few for {self.pooling} x {self.pooling} regions. Take a smaller size or pooling."
            )
        if lines * places * max(self.size**2 * image.channels, self.n_filters) > MOST_VALUES:
            raise ParameterError(
                f"Images of {image.height} x {image.width} pixels have too many patches of side {self.size} to be "
                f"looked at together. Make the images, or the patches, smaller."
            )
        return self.pooling**2 * self.n_filters * (2 if self.rectify == "split" else 1)

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Filters that include whitening, and their responses to the mean patch."""
        values = self.size**2 * self.padded(inputs).channels
        return {"filters": (values, self.n_filters), "offsets": (self.n_filters,)}

    def scale(self, pilot: Pilot) -> Scaling:
        """All pixels by one number, unless something else is asked for; none is moved."""
        scaling = find_scaling(pilot, "whole" if self.scaling == "auto" else self.scaling)
        return Scaling(np.zeros_like(scaling.centre), scaling.scale)

    def draw(self, pilot: Pilot) -> Arrays:
        """Filters that include whitening, and their responses to the mean patch."""
        generator = pilot.generator
        at = self.padded(pilot.rows.shape[1]).patches(self.size)
        images = self._pad(pilot.rows[:SAMPLE_ROWS]).reshape(-1, self.padded(pilot.rows.shape[1]).pixels)
        rows, places = generator.integers(len(images), size=SAMPLE), generator.integers(len(at), size=SAMPLE)
        sample = images[rows[:, None], at[places]]
        sample = sample - sample.mean(axis=1, keepdims=True)
        contrast = np.sqrt(np.mean(sample**2, axis=1, keepdims=True) + FAINT)
        # A blank patch tells nothing; where all are blank, any filter will do.
        sample = (sample / contrast)[(np.abs(sample) > 1e-3).any(axis=1)]
        if len(sample) == 0:
            sample = generator.standard_normal((SAMPLE, at.shape[1]))
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
        """The symmetric matrix that brings patches to about unit covariance."""
        values, vectors = np.linalg.eigh(np.cov(sample.T).reshape(sample.shape[1], -1))
        if self.whitening is None:
            return np.eye(len(values))
        whiten: NDArray[np.float64] = (
            vectors / np.sqrt(np.maximum(values, 0) + self.whitening * values.mean())
        ) @ vectors.T
        return whiten

    def padded(self, inputs: int) -> Image:
        """The shape of the images with their rims."""
        image = Image.of(self.image, inputs)
        return Image(image.height + 2 * self.padding, image.width + 2 * self.padding, image.channels)

    def _pad(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Images with their rims, (rows, height, width, channels)."""
        inner, outer, rim = Image.of(self.image, rows.shape[1]), self.padded(rows.shape[1]), self.padding
        images = rows.reshape(-1, inner.height, inner.width, inner.channels)
        if rim == 0:
            return images
        padded = np.zeros((len(rows), outer.height, outer.width, outer.channels), dtype=rows.dtype)
        padded[:, rim:-rim, rim:-rim] = images
        return padded

    @property
    def regions(self) -> list[NDArray[np.intp]]:
        """The bounds of the regions, among the lines of patches and among their places in a line."""
        sides = self.padded(self.layout.width).places(self.size)
        return [np.linspace(0, length, self.pooling + 1).round().astype(np.intp) for length in sides]

    def apply(self, near: Any, out: NDArray[Any]) -> None:
        """Rectified responses, averaged over regions; a few images at a time."""
        from mergesvm.features.ops import jit as compiled  # numba, which takes its time to load

        images, shape = dense(near), self.padded(self.layout.width)
        lines, places = shape.places(self.size)
        filters, offsets = self.arrays["filters"], self.arrays["offsets"]
        step = max(1, CHUNK_BYTES // (self.dtype.itemsize * lines * places * max(filters.shape)))
        regions = out.reshape(len(out), self.pooling, self.pooling, -1)
        for start in range(0, len(images), step):
            chunk = self._pad(images[start : start + step])
            patches = SCRATCH.take("patches", (len(chunk) * lines * places, len(filters)), out.dtype)
            compiled.unfold(
                chunk.reshape(len(chunk), shape.height, -1), shape.channels, self.size, self.dtype.type(FAINT), patches
            )
            responses = SCRATCH.take("responses", (len(patches), len(offsets)), out.dtype)
            np.matmul(patches, filters, out=responses)
            compiled.pool(
                responses.reshape(len(chunk), lines, places, -1),
                offsets,
                RECTIFIERS.index(self.rectify),
                *self.regions,
                regions[start : start + step],
            )
