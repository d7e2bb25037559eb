"""Random Fourier features, which approximate the Gaussian kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.features.ops.projection import mean_squared_distance
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_layer import RandomLayer
from mergesvm.features.random_map import Arrays


@dataclass(frozen=True, eq=False, repr=False)
class Fourier(RandomLayer):
    """Random Fourier features: phi(x).phi(z) / D approximates exp(-gamma |x - z|^2).

    phi_j(x) = sqrt(2) cos(w_j.x + b_j), with w_j normal of variance 2 gamma and b_j uniform (Rahimi and Recht 2007).

    Parameters
    ----------
    n_features : int
        The number D of cosines.
    gamma : float, optional
        For scaled rows. By default ``detail`` / the mean squared distance of rows of the pilot sample.
    detail : float
        How fine the kernel is if gamma is not given: 1 suits most data, 4 to 20 suit tables with sharp borders.
    orthogonal : bool
        Draw frequencies in orthogonal sets, which approximates the kernel better for the same number (Yu et al. 2016).
        Ignored with fields.
    fields : {None, "columns", "rectangles"}
        The columns that each cosine uses: all, a random subset, or a rectangle of the image. With fields, gamma is
        rescaled so that distances within a field count like distances over all columns.
    image : tuple of int, optional
        Height, width and, optionally, channels of the images; square by default. Only for rectangles.
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
    max_float64_width: ClassVar[int] = 0  # cosines take several times as long in float64

    gamma: float | None = None
    detail: float = 1.0
    orthogonal: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_positive("gamma")
        self._check_positive("detail", or_none=False)
        self._check_bool("orthogonal")

    def draw(self, pilot: Pilot) -> Arrays:
        """Draw frequencies and phases."""
        inputs, generator = pilot.rows.shape[1], pilot.generator
        detail = self.detail if self.gamma is None else self.gamma * mean_squared_distance(pilot.rows)
        mask = self.draw_mask(pilot)
        if self.orthogonal and mask is None:
            drawn = _orthogonal(inputs, self.n_features, generator)
        else:
            drawn = generator.standard_normal((inputs, self.n_features))
        width = np.sqrt(2 * detail / mean_squared_distance(pilot.rows, mask))
        return {
            "weights": drawn * (1 if mask is None else mask) * width,
            "bias": generator.uniform(0, 2 * np.pi, self.n_features),
        }

    def activate(self, out: NDArray[Any]) -> None:
        """Apply the cosine. The factor sqrt(2) is part of the gain."""
        np.cos(out, out=out)


def _orthogonal(inputs: int, count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw columns that are orthogonal in sets of ``inputs``, with the lengths of normal vectors."""
    directions = np.empty((inputs, count))
    for left, right in spans(count, inputs):
        basis, triangle = np.linalg.qr(generator.standard_normal((inputs, right - left)))
        directions[:, left:right] = basis * np.sign(triangle.diagonal())
    return directions * np.sqrt(generator.chisquare(inputs, count))
