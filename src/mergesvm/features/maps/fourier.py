"""Random Fourier features: the Gaussian kernel as a sum of cosines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.features.ops.distance import mean_squared_distance
from mergesvm.features.ops.fields import spread_within
from mergesvm.features.ops.layer import Layer
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import Arrays


@dataclass(frozen=True, eq=False, repr=False)
class Fourier(Layer):
    """Cosines of random frequencies: phi(x).phi(z) / D is about exp(-gamma |x - z|^2), the closer the more there are.

    phi_j(x) = sqrt(2) cos(w_j.x + b_j), with w_j normal of variance 2 gamma and b_j uniform (Rahimi and Recht 2007).

    Parameters
    ----------
    n_features : int
        The number D of cosines.
    gamma : float, optional
        Of scaled rows. By default ``detail`` / the mean squared distance of rows of the pilot sample.
    detail : float
        How fine the kernel is, where gamma is not given: 1 suits most data, 4 to 20 tables with sharp borders.
    orthogonal : bool
        Draw frequencies in orthogonal sets, which approximates the kernel better for the same number (Yu et al. 2016).
        Not with fields.
    fields : {None, "columns", "rectangles"}
        What each cosine looks at: all columns, some drawn at random, or a rectangle of the image. With fields, gamma
        is that of rows whose distance within the field is as large as that of all columns.
    image : tuple of int, optional
        Height and width of the images, and perhaps channels; square by default. For rectangles only.
    seed, scaling, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`.

    Examples
    --------
    >>> import numpy as np
    >>> from mergesvm.features.maps.fourier import Fourier
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
    >>> Z = Fourier(4000, gamma=0.5, scaling="none").freeze(X).transform(X)
    >>> bool(abs((Z @ Z.T)[0, 1] / 4000 - np.exp(-0.5)) < 0.05)
    True
    """

    kind: ClassVar[str] = "fourier"

    gamma: float | None = None
    detail: float = 1.0
    orthogonal: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._positive("gamma")
        self._positive("detail", or_none=False)
        self._truth("orthogonal")

    def draw(self, pilot: Pilot) -> Arrays:
        """Frequencies and phases."""
        inputs, generator = pilot.rows.shape[1], pilot.generator
        distance = mean_squared_distance(pilot)
        detail = self.detail if self.gamma is None else self.gamma * distance
        mask = self.view(pilot)
        drawn = (_orthogonal if self.orthogonal and mask is None else _independent)(inputs, self.n_features, generator)
        return {
            "weights": drawn * (1 if mask is None else mask) * np.sqrt(2 * detail / spread_within(pilot, mask)),
            "bias": generator.uniform(0, 2 * np.pi, self.n_features),
        }

    def bend(self, out: NDArray[Any]) -> None:
        """The cosine; the gain brings cosines to a mean square of 1."""
        np.cos(out, out=out)


def _independent(inputs: int, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    return generator.standard_normal((inputs, count))


def _orthogonal(inputs: int, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Columns that are orthogonal in sets of as many as there are inputs, each as long as a normal vector."""
    directions = np.empty((inputs, count))
    for left, right in spans(count, inputs):
        basis, triangle = np.linalg.qr(generator.standard_normal((inputs, right - left)))
        directions[:, left:right] = basis * np.sign(triangle.diagonal())
    return directions * np.sqrt(generator.chisquare(inputs, count))
