"""Principal components: the directions in which rows vary most."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.readers.base import Layout
from mergesvm.errors import DataError, ParameterError
from mergesvm.features.ops.axes import Axes
from mergesvm.features.ops.projection import project
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import LARGEST, Arrays, RandomMap, State
from mergesvm.features.scaling import Scaling


@dataclass(frozen=True, eq=False, repr=False)
class Components(RandomMap):
    """Rows along the directions in which they vary most: phi(x) = V'(x - mean), in the units of the columns.

    V are the eigenvectors of the covariance matrix with the largest eigenvalues, each with its largest entry positive.
    Frozen on a pilot sample as all maps are, or made of all rows, exactly, by :meth:`Knowledge.pca
    <mergesvm.Knowledge.pca>`. Unlike other maps it has no gain: features are as large as columns are.

    Parameters
    ----------
    n_components : int or float
        How many; or, below 1, a share of the variance: as many as are needed to explain more than that, as
        scikit-learn's PCA takes them. Freezing makes a number of the share, and ``Components(0.99).freeze(X)`` is the
        map that ``Components(that_number).freeze(X)`` is.
    whiten : bool
        Divide each feature by its standard deviation.
    scaling : {"none", "auto", "whole", "columns", "range"}
        How columns are scaled first; "columns" gives the components of the correlation matrix. Rows are centred always.
    seed, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`. The seed draws the sample.

    Examples
    --------
    >>> from mergesvm.features.maps.components import Components
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> Components(0.99).freeze(X)
    Components(41)
    >>> Components(2).freeze(X).explained.round(3)
    array([0.149, 0.136], dtype=float32)
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
        elif isinstance(number, (int, np.integer)) and not isinstance(number, bool) and 1 <= number < LARGEST:
            object.__setattr__(self, "n_components", int(number))
        else:
            raise ParameterError(
                f"n_components has to be a whole number from 1 to {LARGEST - 1:,}, or a share of the variance between "
                f"0 and 1, not {number!r}."
            )
        self._truth("whiten")

    @property
    def explained(self) -> NDArray[Any]:
        """The share of all variance along each component, of shape (components,)."""
        return self.arrays["explained"]

    @property
    def roughness(self) -> float:
        """What varies little is blown up by whitening, and rounding with it."""
        found = self.explained[self.explained > 0]
        return float(np.sqrt(float(found.max()) / float(found.min()))) if self.whiten and len(found) else 1.0

    def count(self, inputs: int) -> int:
        """As many as there are components, which are no more than columns."""
        if isinstance(self.n_components, float):
            raise ParameterError(f"How many features {self!r} has is known only when it is frozen.")
        if self.n_components > inputs:
            raise ParameterError(
                f"{self!r} cannot be of rows of {inputs:,} columns, which have no more components than that. Ask for "
                f"fewer, or for a share of the variance, such as 0.99."
            )
        return self.n_components

    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Directions, and what they explain."""
        return {"directions": (inputs, self.count(inputs)), "explained": (self.count(inputs),)}

    def wanted_rows(self) -> int:
        """At least one row a component."""
        return 0 if isinstance(self.n_components, float) else self.n_components

    def scale(self, pilot: Pilot) -> Scaling:
        """About the mean, also where rows are sparse: their projections are centred, and they stay as they are."""
        return replace(super().scale(pilot), centre=pilot.rows.mean(axis=0))

    def draw(self, pilot: Pilot) -> Arrays:
        """Directions, and what they explain."""
        return self._along(Axes.of_rows(pilot.rows), len(pilot.rows))

    def frozen_on(self, pilot: Pilot) -> Self:
        """The same map, frozen on a pilot sample that was drawn before; a share becomes a number."""
        with np.errstate(all="ignore"):
            scaling = self.scale(pilot)
            near = (pilot.rows - scaling.centre) / scaling.scale
            # A column that does not vary, but for rounding, is in no component.
            rounding = (1e-5 if pilot.features else 1e-12) * np.abs(pilot.rows).max(axis=0)
            near[:, pilot.rows.std(axis=0) <= rounding] = 0.0
            if not np.isfinite(near).all():
                raise self._too_large()
            drawn = self.draw(replace(pilot, rows=near))
        return self._fixed(drawn, scaling, pilot.layout, len(pilot.rows))

    def frozen_along(self, axes: Axes, mean: NDArray[np.float64], layout: Layout, rows: int) -> Self:
        """The same map, frozen along axes that were found of so many rows by other means; columns are not scaled."""
        scaling = Scaling(mean, np.ones(len(mean)))
        return self._fixed(self._along(axes, rows), scaling, layout, rows)

    def _along(self, axes: Axes, rows: int) -> Arrays:
        """The arrays of the components that are asked for."""
        if isinstance(self.n_components, float):
            number = axes.enough_for(self.n_components)
        else:
            number = self.count(len(axes.directions))
            if number > rows:
                raise DataError(
                    f"{self!r} needs at least {number:,} rows, and there are {rows:,} (n_samples={rows}). Take more "
                    f"rows, or fewer components."
                )
        directions, variances = axes.directions[:, :number], axes.variances[:number]
        if self.whiten:
            # What does not vary has no deviation to be divided by.
            directions = directions / np.sqrt(np.where(variances > 0, variances, 1.0))
        return {"directions": directions, "explained": axes.shares[:number]}

    def _fixed(self, drawn: Arrays, scaling: Scaling, layout: Layout, rows: int) -> Self:
        with np.errstate(all="ignore"):
            own = {name: np.array(array, dtype=self.dtype, order="C") for name, array in drawn.items()}
        number = own["directions"].shape[1]
        arrays = {
            "centre": scaling.centre,
            "scale": scaling.scale,
            "gain": np.ones(1, self.dtype),
            "middle": np.zeros(number),
            **own,
        }
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise self._too_large()
        return replace(self, n_components=number, state=State(layout, arrays, rows))

    def _too_large(self) -> DataError:
        return DataError(f"The rows are too large, or too far apart, for {self!r}. Rescale the columns.")

    def apply(self, near: Any, out: NDArray[Any]) -> None:
        """V'(x - mean); of sparse rows V'x - V'mean."""
        if sparse.issparse(near):
            directions, shift = self._uncentred
            np.subtract(near @ directions, shift, out=out, casting="same_kind")
        else:
            project(near, self.arrays["directions"], out)

    def _near(self, rows: Any) -> Any:
        """Rows about the centre and in units of the scale; sparse rows as they are."""
        return rows if sparse.issparse(rows) else super()._near(rows)

    @cached_property
    def _uncentred(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """V of unscaled columns, and V'mean: in float64, because their difference is taken far from the centre."""
        directions = self.arrays["directions"] / self.arrays["scale"][:, None]
        return directions, self.arrays["centre"] @ directions
