"""Maps whose parameters are drawn once, with a seed and a pilot sample, and kept as arrays."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.readers.base import Layout
from mergesvm.data.rows.dense import DenseRows
from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.ops.projection import dense
from mergesvm.features.pilot import Pilot
from mergesvm.features.scaling import SCALINGS, Scaling, find_scaling

PRECISIONS = ("float32", "float64")

LOOK_ROWS = 2048
"""So many rows of the pilot sample tell how large features are, and where they lie."""

LARGEST = 2**31
"""No map has more features, or a larger seed, than this."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class State:
    """What freezing has fixed.

    Attributes
    ----------
    layout : Layout
        The columns of the rows that can be mapped.
    arrays : mapping of name to array
        ``centre`` and ``scale`` of the columns; ``gain``, by which features are brought to a mean square of 1 over the
        pilot sample, so that one value of C means about the same for every map; ``middle``, the mean of the features
        there; and what else the map has drawn.
    pilot_rows : int
        How many rows the pilot sample had, from which all of this was found.
    """

    layout: Layout
    arrays: Arrays
    pilot_rows: int

    def __post_init__(self) -> None:
        for array in self.arrays.values():
            array.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()


@dataclass(frozen=True, eq=False, repr=False)
class RandomMap(FeatureMap):
    """A map with parameters as fields, which says how its arrays are drawn and used.

    Parameters
    ----------
    seed : int
        Of all that is drawn at random.
    scaling : {"auto", "whole", "columns", "range", "none"}
        How columns are scaled before they are mapped: all by one number, as images need, or each by its own standard
        deviation or range, as tables need. "auto" looks at the pilot sample.
    precision : {"float32", "float64"}
        In which rows are mapped. Products of mapped rows are formed in the same; sums are float64 always.
    """

    default_size: ClassVar[float] = 1000
    """The first parameter, where a map is asked for by its name alone."""

    seed: int = field(default=0, kw_only=True)
    scaling: str = field(default="auto", kw_only=True)
    precision: str = field(default="float32", kw_only=True)
    state: State | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._whole("seed", 0)
        self._choice("scaling", SCALINGS)
        self._choice("precision", PRECISIONS)

    # What each map has to say.

    @abstractmethod
    def draw(self, pilot: Pilot) -> Arrays:
        """The arrays of this map beside centre and scale; the rows of the pilot sample are scaled already."""

    @abstractmethod
    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the arrays that :meth:`draw` gives for rows of this width. All are of the map's precision."""

    @abstractmethod
    def count(self, inputs: int) -> int:
        """How many features rows of this width become; an error if there can be no such rows."""

    @abstractmethod
    def apply(self, near: Any, out: NDArray[Any]) -> None:
        """Map rows that are centred and scaled, dense or CSR, into ``out``, both of the map's precision."""

    def scale(self, pilot: Pilot) -> Scaling:
        """The centre and the scale of the columns."""
        return find_scaling(pilot, self.scaling)

    def wanted_rows(self) -> int:
        """How many rows the pilot sample has to have at least, where there are so many."""
        return 0

    # What follows.

    @property
    def frozen(self) -> bool:
        """Whether everything is fixed, so that rows can be mapped."""
        return self.state is not None

    @property
    def layout(self) -> Layout:
        """The columns of the rows that can be mapped."""
        return self.fixed.layout

    @property
    def width(self) -> int:
        """How many features a row becomes."""
        return self.count(self.layout.width)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of mapped rows."""
        return np.dtype(self.precision)

    @property
    def middle(self) -> NDArray[np.float64]:
        """The mean of the features over the pilot sample."""
        return self.arrays["middle"]

    @property
    def arrays(self) -> Arrays:
        """What was drawn when the map was frozen."""
        return self.fixed.arrays

    @property
    def fixed(self) -> State:
        """What freezing has fixed, or an error if nothing has been frozen yet."""
        if self.state is None:
            raise FeatureMapError(f"{self!r} is not frozen yet. Freeze it first: map = map.freeze(X, y).")
        return self.state

    @classmethod
    def parameter_names(cls) -> list[str]:
        """The names of the parameters: first that of the size, last those that all maps have."""
        ordered = sorted(fields(cls), key=lambda item: item.kw_only is True)
        return [item.name for item in ordered if item.name != "state"]

    @property
    def parameters(self) -> dict[str, Any]:
        """What the map was made with, by name."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all parameters and arrays.

        >>> from mergesvm.features.maps.fourier import Fourier
        >>> one, other = (Fourier(8, seed=seed).freeze([[0.0, 1.0], [1.0, 0.0]]) for seed in (1, 2))
        >>> one.fingerprint == other.fingerprint
        False
        """
        digest = hashlib.sha256(json.dumps([self.kind, self.layout.width, self.parameters]).encode())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
            digest.update(array.data)
        return digest.hexdigest()

    def freeze(self, X: Any, y: Any = None) -> Self:
        """The same map with everything fixed; see :meth:`FeatureMap.freeze`."""
        return self if self.frozen else self.frozen_on(Pilot.of(X, y, self.seed, self.wanted_rows()))

    def frozen_on(self, pilot: Pilot) -> Self:
        """The same map, frozen on a pilot sample that was drawn before."""
        self.count(pilot.rows.shape[1])
        too_large = DataError(f"The rows are too large, or too far apart, for {self!r}. Rescale the columns.")
        with np.errstate(all="ignore"):
            scaling = self.scale(pilot)
            scaled = replace(pilot, rows=(pilot.rows - scaling.centre) / scaling.scale)
            if not np.isfinite(scaled.rows).all():
                raise too_large
            drawn = {name: np.ascontiguousarray(array, dtype=self.dtype) for name, array in self.draw(scaled).items()}
            arrays = {"centre": scaling.centre, "scale": scaling.scale, "gain": np.ones(1, self.dtype), **drawn}
            raw = replace(self, state=State(pilot.layout, arrays, len(pilot.rows)))
            mapped = raw.mapped(DenseRows(pilot.rows[:LOOK_ROWS]))
            size = float(np.sqrt(np.mean(np.square(mapped, dtype=np.float64)))) or 1.0
            arrays["gain"] = np.array([1 / size], dtype=self.dtype)
            arrays["middle"] = mapped.mean(axis=0, dtype=np.float64) / size
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise too_large
        return replace(self, state=State(pilot.layout, arrays, len(pilot.rows)))

    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Map a block of rows, dense of any type or CSR, into ``out``. What is not finite passes through."""
        with np.errstate(all="ignore"):
            near = self._near(rows)
            self.apply(near, out)
            out *= self.arrays["gain"][0]
        if not np.isfinite(near.data if sparse.issparse(near) else near).all():
            # Many a function takes infinity to a number, and the row would pass for one like others.
            out[~np.isfinite(dense(near)).all(axis=1)] = np.nan

    def _near(self, rows: Any) -> Any:
        """Rows about the centre and in units of the scale; sparse rows stay sparse where the centre is zero."""
        centre, factor = self._centring
        if sparse.issparse(rows):
            if centre is None:
                return (rows * factor if np.ndim(factor) == 0 else rows.multiply(factor)).tocsr().astype(self.dtype)
            rows = rows.toarray()
        near = np.empty(rows.shape, dtype=self.dtype)
        if centre is None:
            np.multiply(rows, factor, out=near, casting="unsafe")
        else:
            # In float64, also where features are float32: rows far from zero are rounded only when they are near it.
            np.subtract(rows, centre, out=near, dtype=np.float64, casting="unsafe")
            near *= factor
        return near

    @cached_property
    def _centring(self) -> tuple[NDArray[np.float64] | None, Any]:
        centre, scale = self.arrays["centre"], self.arrays["scale"]
        factor = (1 / scale).astype(self.dtype)
        return centre if centre.any() else None, factor[0] if (factor == factor[0]).all() else factor

    def _whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value < LARGEST:
            raise ParameterError(f"{name} has to be a whole number from {least} to {LARGEST - 1:,}, not {value!r}.")
        object.__setattr__(self, name, int(value))

    def _choice(self, name: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise ParameterError(f"{name} has to be one of {', '.join(map(repr, choices))}, not {value!r}.")

    def _truth(self, name: str) -> None:
        if not isinstance(getattr(self, name), (bool, np.bool_)):
            raise ParameterError(f"{name} has to be True or False, not {getattr(self, name)!r}.")
        object.__setattr__(self, name, bool(getattr(self, name)))

    def _positive(self, name: str, or_none: bool = True) -> None:
        value = getattr(self, name)
        if value is None and or_none:
            return
        number = float(value) if isinstance(value, np.floating) else value
        if isinstance(value, bool) or not isinstance(number, (int, float, np.integer)) or not 0 < number < 1e100:
            default = ", or None for the default" if or_none else ""
            raise ParameterError(f"{name} has to be a positive number{default}, not {value!r}.")
        object.__setattr__(self, name, float(value))

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __repr__(self) -> str:
        usual = {item.name: item.default for item in fields(self)}
        shown = [
            repr(value) if usual[name] is MISSING else f"{name}={value!r}"
            for name, value in self.parameters.items()
            if value != usual[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"
