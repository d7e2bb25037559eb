"""Principal components (PCA)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.layout import Layout
from mergesvm.errors import DataError, ParameterError
from mergesvm.features.ops.principal_axes import PrincipalAxes
from mergesvm.features.ops.projection import project
from mergesvm.features.pilot import Pilot, Vector
from mergesvm.features.random_map import Arrays, RandomMap


@dataclass(frozen=True, eq=False, repr=False)
class Components(RandomMap):
    """Principal components: phi(x) = V'(x - mean), in the units of the columns.

    The columns of V are the eigenvectors of the covariance matrix with the largest eigenvalues, each with its largest
    entry positive. The map is frozen on a pilot sample like all maps, or computed exactly from all rows by
    :meth:`Knowledge.pca <mergesvm.Knowledge.pca>`. Unlike other maps it has no gain.

    Parameters
    ----------
    n_components : int or float
        The number of components; or, below 1, the fraction of the variance to explain, as in scikit-learn's PCA.
        Freezing replaces the fraction by the number that it selects.
    whiten : bool
        Divide each feature by its standard deviation.
    scaling : {"none", "auto", "whole", "columns", "range"}
        How columns are scaled first; "columns" gives the components of the correlation matrix. Rows are always centred.
    seed, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`. The seed draws the sample.

    Examples
    --------
    >>> from mergesvm.features.maps.components import Components
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> Components(0.99).freeze(X)
    Components(41, precision='float64')
    >>> Components(2).freeze(X).explained.round(3)
    array([0.149, 0.136])
    """

    kind: ClassVar[str] = "pca"
    default_size: ClassVar[float] = 0.9999

    n_components: float
    whiten: bool = False
    scaling: str = field(default="none", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        number = self.n_components
        if isinstance(number, (float, np.floating)) and 0 < number < 1:
            object.__setattr__(self, "n_components", float(number))
        else:
            self._check_integer("n_components", 1, ", or a fraction of the variance between 0 and 1")
        self._check_bool("whiten")

    @property
    def explained(self) -> NDArray[Any]:
        """The fraction of the variance that each component explains, of shape (components,)."""
        return self.arrays["explained"]

    @property
    def error_amplification(self) -> float:
        """The ratio of the largest and the smallest deviation, if whitening divides by them."""
        found = self.explained[self.explained > 0]
        return float(np.sqrt(float(found.max()) / float(found.min()))) if self.whiten and len(found) else 1.0

    def n_outputs(self, inputs: int) -> int:
        """Return the number of components, at most that of the columns."""
        if isinstance(self.n_components, float):
            raise ParameterError(f"The number of features of {self!r} is known only when it is frozen.")
        if self.n_components > inputs:
            raise ParameterError(
                f"Rows of {inputs:,} columns have at most {inputs:,} principal components, so {self!r} is impossible. "
                f"Ask for fewer, or for a fraction of the variance, such as 0.99."
            )
        return self.n_components

    def most_outputs(self, inputs: int) -> int:
        """Return the number of components; that of the columns while it is a fraction of the variance."""
        return inputs if isinstance(self.n_components, float) else self.n_outputs(inputs)

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the directions and the explained fractions."""
        return {"directions": (inputs, self.n_outputs(inputs)), "explained": (self.n_outputs(inputs),)}

    def min_pilot_rows(self) -> int:
        """Return one row per component."""
        return 0 if isinstance(self.n_components, float) else self.n_components

    def centre_and_scale(self, pilot: Pilot) -> tuple[Vector, Vector]:
        """Centre at the mean, also for sparse rows: their projections are centred instead."""
        return pilot.rows.mean(axis=0), super().centre_and_scale(pilot)[1]

    def draw(self, pilot: Pilot) -> Arrays:
        """Compute the directions and the explained fractions."""
        return self.along(PrincipalAxes.of_rows(pilot.rows), len(pilot.rows))

    def frozen_on(self, pilot: Pilot) -> Self:
        """Return the map frozen on a given pilot sample, with a fraction replaced by a number."""
        with np.errstate(all="ignore"):
            centre, scale = self.centre_and_scale(pilot)
            scaled = (pilot.rows - centre) / scale
            # Columns that vary only by rounding take no part in any component.
            scaled[:, pilot.rows.std(axis=0) <= pilot.rounding] = 0.0
            if not np.isfinite(scaled).all():
                raise self._too_large()
            drawn = self.draw(replace(pilot, rows=scaled))
        return self.frozen_with(drawn, centre, scale, pilot.layout, len(pilot.rows))

    def frozen_with(self, drawn: Arrays, centre: Vector, scale: Vector, layout: Layout, rows: int) -> Self:
        """Return the map frozen with given arrays, computed from ``rows`` centred and scaled rows."""
        if self.precision == "auto":
            few = drawn["directions"].shape[1] <= self.max_float64_width
            return self.with_precision(few).frozen_with(drawn, centre, scale, layout, rows)
        with np.errstate(all="ignore"):
            own = {name: np.array(array, dtype=self.dtype, order="C") for name, array in drawn.items()}
        number = own["directions"].shape[1]
        constants = {"gain": np.ones(1, self.dtype), "middle": np.zeros(number)}
        frozen = self._with_arrays({"centre": centre, "scale": scale, **constants, **own}, layout, rows)
        return replace(frozen, n_components=number)

    def along(self, axes: PrincipalAxes, rows: int) -> Arrays:
        """Return the directions and the explained fractions of the first of the principal axes of ``rows`` rows."""
        if isinstance(self.n_components, float):
            number = axes.n_explaining(self.n_components)
        else:
            number = self.n_outputs(len(axes.directions))
            if number > rows:
                raise DataError(
                    f"{self!r} needs at least {number:,} rows, but there are {rows:,} (n_samples={rows}). Give more "
                    f"rows, or ask for fewer components."
                )
        directions, variances = axes.directions[:, :number], axes.variances[:number]
        if self.whiten:
            directions = directions / np.sqrt(np.where(variances > 0, variances, 1.0))
        return {"directions": directions, "explained": axes.explained[:number]}

    def apply(self, scaled: Any, out: NDArray[Any]) -> None:
        """Compute V'(x - mean), as V'x - V'mean for sparse rows."""
        if sparse.issparse(scaled):
            directions, shift = self._uncentred
            np.subtract(scaled @ directions, shift, out=out, casting="same_kind")
        else:
            project(scaled, self.arrays["directions"], out)

    def _scaled(self, rows: Any) -> Any:
        """Centre and scale dense rows; leave sparse rows unchanged."""
        return rows if sparse.issparse(rows) else super()._scaled(rows)

    @cached_property
    def _uncentred(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """V for unscaled columns, and V'mean; in float64, because their difference may cancel."""
        directions = self.arrays["directions"] / self.arrays["scale"][:, None]
        return directions, self.arrays["centre"] @ directions
