"""Nystroem features: a kernel by what rows have in common with some landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mergesvm.data.rows.base import spans
from mergesvm.errors import DataError
from mergesvm.features.ops.distance import mean_squared_distance
from mergesvm.features.ops.projection import project, squares
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import Arrays, RandomMap
from mergesvm.features.scratch import Scratch

KERNELS = ("rbf", "polynomial")

FLOOR = 1e-6
"""What is added to the diagonal of the landmarks' kernel matrix, as a share of it, so that nothing is blown up."""

STEP = 512
"""So many features are whitened at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class Nystroem(RandomMap):
    """The kernel between a row and landmarks: phi(x).phi(z) is in proportion to the kernel, exactly so for landmarks.

    phi(x) = g R^-T k(L, x), for landmarks L drawn from the pilot sample, R'R the Cholesky factors of their kernel
    matrix, and a gain g that brings features to a mean square of 1. The landmarks are rows, and travel with the map:
    where rows must not leave their owner, use :class:`Fourier`.

    Parameters
    ----------
    landmarks : int
        How many; the number of features, too.
    kernel : {"rbf", "polynomial"}
        exp(-gamma |x - z|^2), or (gamma x.z + 1)^degree.
    gamma : float, optional
        Of scaled rows. By default ``detail`` / the mean squared distance of rows of the pilot sample for "rbf", and
        ``detail`` / the mean squared length for "polynomial".
    detail : float
        How fine the kernel is, where gamma is not given: 1 suits most data, 0.25 to 0.5 features of another map.
    degree : int
        Of the polynomial.
    seed, scaling, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`.

    Examples
    --------
    >>> import numpy as np
    >>> from mergesvm.features.maps.nystroem import Nystroem
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
    >>> Z = Nystroem(3, gamma=0.5, scaling="none", precision="float64").freeze(X).transform(X)
    >>> bool(abs((Z @ Z.T)[0, 1] / (Z @ Z.T)[0, 0] - np.exp(-0.5)) < 1e-5)
    True
    """

    kind: ClassVar[str] = "nystroem"

    landmarks: int
    kernel: str = "rbf"
    gamma: float | None = None
    detail: float = 1.0
    degree: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self._whole("landmarks", 1)
        self._choice("kernel", KERNELS)
        self._positive("gamma")
        self._positive("detail", or_none=False)
        self._whole("degree", 1)

    def count(self, inputs: int) -> int:  # noqa: ARG002
        """As many as there are landmarks."""
        return self.landmarks

    @property
    def roughness(self) -> float:
        """Landmarks that are nearly alike are told apart by what little they differ in."""
        return 1 / float(np.sqrt(FLOOR))

    def wanted_rows(self) -> int:
        """At least one row a landmark."""
        return self.landmarks

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Landmarks, times what the kernel needs of them; and the inverse of R."""
        return {
            "landmarks": (inputs, self.landmarks),
            "constants": (self.landmarks,),
            "whitening": (self.landmarks, self.landmarks),
            "factor": (1,),
        }

    def draw(self, pilot: Pilot) -> Arrays:
        """Landmarks, drawn without return."""
        if self.landmarks > len(pilot.rows):
            raise DataError(
                f"{self!r} needs a sample of {self.landmarks:,} rows, and there are {len(pilot.rows):,} "
                f"(n_samples={len(pilot.rows)}). Freeze it on more rows, or take fewer landmarks."
            )
        chosen = pilot.rows[pilot.generator.choice(len(pilot.rows), self.landmarks, replace=False)]
        rbf = self.kernel == "rbf"
        size = mean_squared_distance(pilot) if rbf else float(np.mean(squares(pilot.rows))) or 1.0
        gamma = self.detail / size if self.gamma is None else self.gamma
        if rbf:
            arrays = {"landmarks": 2 * gamma * chosen.T, "constants": -gamma * squares(chosen)}
        else:
            arrays = {"landmarks": gamma * chosen.T, "constants": np.ones(self.landmarks)}
        arrays["factor"] = np.array([gamma])
        matrix = np.empty((self.landmarks, self.landmarks))
        self._kernel(chosen, arrays, matrix)
        # The largest row is no less than the largest eigenvalue.
        matrix[np.diag_indices_from(matrix)] += FLOOR * np.abs(matrix).sum(axis=1).max()
        lower = np.linalg.cholesky(matrix)
        return {**arrays, "whitening": solve_triangular(lower, np.eye(len(lower)), lower=True, check_finite=False).T}

    def _kernel(self, near: Any, arrays: Arrays, out: NDArray[Any]) -> None:
        project(near, arrays["landmarks"], out)
        out += arrays["constants"]
        if self.kernel == "rbf":
            out -= (arrays["factor"][0] * squares(near))[:, None]
            np.minimum(out, 0, out=out)  # a distance is not negative, but for rounding
            np.exp(out, out=out)
        else:
            np.power(out, self.degree, out=out)

    def apply(self, near: Any, out: NDArray[Any]) -> None:
        """R^-T k(L, x); of the triangle, only what is not zero is multiplied."""
        kernel, whitening = SCRATCH.take("nystroem", out.shape, out.dtype), self.arrays["whitening"]
        self._kernel(near, self.arrays, kernel)
        for left, right in spans(self.landmarks, STEP):
            np.matmul(kernel[:, :right], whitening[:right, left:right], out=out[:, left:right])


SCRATCH = Scratch()
