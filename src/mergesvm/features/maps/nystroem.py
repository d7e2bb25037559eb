"""Nystroem features: a kernel approximated through landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mergesvm.data.rows.base import spans
from mergesvm.errors import DataError
from mergesvm.features.ops.projection import mean_squared_distance, project, squares
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import Arrays, RandomMap
from mergesvm.features.scratch import Scratch

KERNELS = ("rbf", "polynomial")

DIAGONAL_FRACTION = 1e-6
"""Added to the diagonal of the landmarks' kernel matrix, relative to its norm, to bound the whitening."""

WHITENING_STEP = 512
"""Features are whitened in steps of this many."""

SCRATCH = Scratch()


@dataclass(frozen=True, eq=False, repr=False)
class Nystroem(RandomMap):
    """Nystroem features: phi(x).phi(z) is proportional to the kernel k(x, z), exactly so for landmarks.

    phi(x) = g R^-T k(L, x), with landmarks L drawn from the pilot sample, R'R the Cholesky factorization of their
    kernel matrix, and a gain g that scales features to a mean square of 1. The landmarks are rows and are stored in
    the map: if rows must not leave their owner, use :class:`Fourier`.

    Parameters
    ----------
    landmarks : int
        The number of landmarks, and of features.
    kernel : {"rbf", "polynomial"}
        exp(-gamma |x - z|^2), or (gamma x.z + 1)^degree.
    gamma : float, optional
        For scaled rows. By default ``detail`` / the mean squared distance of rows of the pilot sample for "rbf", and
        ``detail`` / their mean squared length for "polynomial".
    detail : float
        How fine the kernel is if gamma is not given: 1 suits most data, 0.25 to 0.5 suit features of another map.
    degree : int
        The degree of the polynomial.
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
        self._check_integer("landmarks", 1)
        self._check_choice("kernel", KERNELS)
        self._check_positive("gamma")
        self._check_positive("detail", or_none=False)
        self._check_integer("degree", 1)

    def n_outputs(self, inputs: int) -> int:  # noqa: ARG002
        """Return the number of landmarks."""
        return self.landmarks

    @property
    def error_amplification(self) -> float:
        """The bound on the whitening, which divides by small differences of similar landmarks."""
        return 1 / float(np.sqrt(DIAGONAL_FRACTION))

    def min_pilot_rows(self) -> int:
        """Return one row per landmark."""
        return self.landmarks

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the scaled landmarks, the constants of the kernel, and the inverse of R."""
        return {
            "landmarks": (inputs, self.landmarks),
            "constants": (self.landmarks,),
            "whitening": (self.landmarks, self.landmarks),
            "factor": (1,),
        }

    def draw(self, pilot: Pilot) -> Arrays:
        """Draw landmarks without replacement."""
        if self.landmarks > len(pilot.rows):
            raise DataError(
                f"{self!r} needs a sample of {self.landmarks:,} rows, but there are {len(pilot.rows):,} "
                f"(n_samples={len(pilot.rows)}). Freeze it on more rows, or use fewer landmarks."
            )
        chosen = pilot.rows[pilot.generator.choice(len(pilot.rows), self.landmarks, replace=False)]
        rbf = self.kernel == "rbf"
        size = mean_squared_distance(pilot.rows) if rbf else float(np.mean(squares(pilot.rows))) or 1.0
        gamma = self.detail / size if self.gamma is None else self.gamma
        if rbf:
            arrays = {"landmarks": 2 * gamma * chosen.T, "constants": -gamma * squares(chosen)}
        else:
            arrays = {"landmarks": gamma * chosen.T, "constants": np.ones(self.landmarks)}
        arrays["factor"] = np.array([gamma])
        matrix = np.empty((self.landmarks, self.landmarks))
        self._kernel(chosen, arrays, matrix)
        # The largest absolute row sum bounds the largest eigenvalue.
        matrix[np.diag_indices_from(matrix)] += DIAGONAL_FRACTION * np.abs(matrix).sum(axis=1).max()
        lower = np.linalg.cholesky(matrix)
        return {**arrays, "whitening": solve_triangular(lower, np.eye(len(lower)), lower=True, check_finite=False).T}

    def _kernel(self, scaled: Any, arrays: Arrays, out: NDArray[Any]) -> None:
        project(scaled, arrays["landmarks"], out)
        out += arrays["constants"]
        if self.kernel == "rbf":
            out -= (arrays["factor"][0] * squares(scaled))[:, None]
            np.minimum(out, 0, out=out)  # rounding can make a squared distance negative
            np.exp(out, out=out)
        else:
            np.power(out, self.degree, out=out)

    def apply(self, scaled: Any, out: NDArray[Any]) -> None:
        """Compute R^-T k(L, x), skipping the zero blocks of the triangle."""
        kernel, whitening = SCRATCH.take("nystroem", out.shape, out.dtype), self.arrays["whitening"]
        self._kernel(scaled, self.arrays, kernel)
        for left, right in spans(self.landmarks, WHITENING_STEP):
            np.matmul(kernel[:, :right], whitening[:right, left:right], out=out[:, left:right])
