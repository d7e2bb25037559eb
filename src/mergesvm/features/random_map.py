"""The base class of maps whose arrays are drawn once, from a seed and a pilot sample."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.checks import check_flag
from mergesvm.data.layout import Layout
from mergesvm.data.layout_format import layout_fields, read_layout
from mergesvm.data.rows.dense import DenseRows
from mergesvm.errors import DataError, FeatureMapError, MergeSVMError, ParameterError
from mergesvm.features.base import FeatureMap, FileParts
from mergesvm.features.ops.projection import dense
from mergesvm.features.pilot import SCALINGS, Pilot, Vector
from mergesvm.files.content import Content
from mergesvm.files.header import Header

PRECISIONS = ("auto", "float32", "float64")

GAIN_ROWS = 2048
"""The gain and the mean of the features are computed from this many rows of the pilot sample."""

INTEGER_LIMIT = 2**31
"""Sizes and seeds are below this number."""

MAX_MESSAGE_LENGTH = 300
"""Longer messages are cut: they quote values, which may have any length in a file."""

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class State:
    """The frozen part of a map: the columns of the rows that it accepts, its arrays, and the size of the pilot sample.

    The arrays are ``centre`` and ``scale`` of the columns; ``gain``, which scales features to a mean square of 1 over
    the pilot sample, so that a value of C means about the same for every map; ``middle``, the mean of the features
    there; and those of the particular map.
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
    """A map with parameters as dataclass fields. Subclasses define how its arrays are drawn and applied.

    Parameters
    ----------
    seed : int
        The seed of all random numbers.
    scaling : {"auto", "whole", "columns", "range", "none"}
        How columns are scaled before they are mapped: all by one number, as suits images, or each by its standard
        deviation or range, as suits tables. "auto" decides from the pilot sample.
    precision : {"auto", "float32", "float64"}
        The precision of mapped rows and, by default, of their products. Sums are always float64. Freezing replaces
        "auto" by float64 if the map has so few features that learning takes little longer, else by float32.
    """

    default_size: ClassVar[float] = 1000
    """The value of the first parameter if only the name of the map is given."""

    max_float64_width: ClassVar[int] = 64
    """The most features for which precision="auto" means float64: measured by benchmarks/maps.py --only precision."""

    added_parameters: ClassVar[frozenset[str]] = frozenset()
    """Parameters that the first release of the map did not have. Files and fingerprints omit them at their default, so
    that those of earlier releases stay what they are."""

    seed: int = field(default=0, kw_only=True)
    scaling: str = field(default="auto", kw_only=True)
    precision: str = field(default="auto", kw_only=True)
    state: State | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._check_integer("seed", 0)
        self._check_choice("scaling", SCALINGS)
        self._check_choice("precision", PRECISIONS)
        if self.frozen and self.precision == "auto":
            raise ParameterError("precision must be 'float32' or 'float64' in a frozen map, not 'auto'.")

    # To be defined by subclasses.

    @abstractmethod
    def draw(self, pilot: Pilot) -> Arrays:
        """Draw the arrays of the map, beside centre and scale, from a pilot sample that is already scaled."""

    @abstractmethod
    def shapes(self, inputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of :meth:`draw`, for rows of ``inputs`` columns; all of the map's dtype."""

    @abstractmethod
    def n_outputs(self, inputs: int) -> int:
        """Return the number of features for rows of ``inputs`` columns, or raise an error if they cannot be mapped."""

    @abstractmethod
    def apply(self, scaled: Any, out: NDArray[Any]) -> None:
        """Map centred and scaled rows, dense or CSR, into ``out``; both have the map's dtype."""

    def centre_and_scale(self, pilot: Pilot) -> tuple[Vector, Vector]:
        """Compute the centre and the scale of the columns."""
        return pilot.centre_and_scale(self.scaling)

    def feature_size(self, mapped: NDArray[Any]) -> float:
        """Return the size of the mapped rows of a sample, by which all features are divided."""
        return float(np.sqrt(np.mean(np.square(mapped, dtype=np.float64)))) or 1.0

    def min_pilot_rows(self) -> int:
        """Return the number of rows that the pilot sample needs at least."""
        return 0

    # Derived from the above.

    @property
    def frozen(self) -> bool:
        """Whether all arrays of the map are fixed, so that it can map rows."""
        return self.state is not None

    @property
    def layout(self) -> Layout:
        """The columns of the rows that the map accepts."""
        return self.fixed.layout

    @property
    def width(self) -> int:
        """The number of output features."""
        return self.n_outputs(self.layout.width)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of mapped rows; raises an error if it is chosen only when the map is frozen."""
        return np.dtype(self.fixed.arrays["gain"].dtype if self.precision == "auto" else self.precision)

    @property
    def default_anchor(self) -> NDArray[np.float64]:
        """The mean of the features over the pilot sample."""
        return self.arrays["middle"]

    @property
    def arrays(self) -> Arrays:
        """The frozen arrays."""
        return self.fixed.arrays

    @property
    def fixed(self) -> State:
        """The state; raises an error if the map is not frozen."""
        if self.state is None:
            raise FeatureMapError(f"{self!r} is not frozen yet. Freeze it first: map = map.freeze(X, y).")
        return self.state

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the parameters: the size first, those common to all maps last."""
        ordered = sorted(fields(cls), key=lambda item: item.kw_only is True)
        return [item.name for item in ordered if item.name != "state"]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @property
    def recorded_parameters(self) -> dict[str, Any]:
        """The parameters that files and fingerprints contain."""
        defaults = {item.name: item.default for item in fields(self)}
        return {
            name: value
            for name, value in self.parameters.items()
            if name not in self.added_parameters or value != defaults[name]
        }

    @classmethod
    def from_text(cls, given: dict[str, Any], size: Any) -> Self:
        """Return the map of parameters given as text, and of this size if they contain none."""
        return cls(**{cls.parameter_names()[0]: size} | given)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all parameters and arrays.

        >>> from mergesvm.features.maps.fourier import Fourier
        >>> one, other = (Fourier(8, seed=seed).freeze([[0.0, 1.0], [1.0, 0.0]]) for seed in (1, 2))
        >>> one.fingerprint == other.fingerprint
        False
        """
        digest = hashlib.sha256(json.dumps([self.kind, self.layout.width, self.recorded_parameters]).encode())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
            digest.update(array.data)
        return digest.hexdigest()

    def freeze(self, X: Any, y: Any = None) -> Self:
        """Return the map with all arrays fixed; see :meth:`FeatureMap.freeze`."""
        return self if self.frozen else self.frozen_on(Pilot.of(X, y, self.seed, self.min_pilot_rows()))

    def frozen_on(self, pilot: Pilot) -> Self:
        """Return the map frozen on a given pilot sample."""
        self.n_outputs(pilot.rows.shape[1])
        if self.precision == "auto":
            return self.with_precision(self.prefers_float64(pilot.rows.shape[1])).frozen_on(pilot)
        with np.errstate(all="ignore"):
            centre, scale = self.centre_and_scale(pilot)
            scaled = replace(pilot, rows=(pilot.rows - centre) / scale)
            if not np.isfinite(scaled.rows).all():
                raise self._too_large()
            drawn = {name: np.ascontiguousarray(array, dtype=self.dtype) for name, array in self.draw(scaled).items()}
            arrays = {"centre": centre, "scale": scale, "gain": np.ones(1, self.dtype), **drawn}
            without_gain = replace(self, state=State(pilot.layout, arrays, len(pilot.rows)))
            mapped = without_gain.mapped(DenseRows(pilot.rows[:GAIN_ROWS]))
            size = self.feature_size(mapped)
            arrays["gain"] = np.array([1 / size], dtype=self.dtype)
            arrays["middle"] = mapped.mean(axis=0, dtype=np.float64) / size
        return self._with_arrays(arrays, pilot.layout, len(pilot.rows))

    def most_outputs(self, inputs: int) -> int:
        """Return a bound on the number of features, which may be known only when the map is frozen."""
        return self.n_outputs(inputs)

    def prefers_float64(self, inputs: int) -> bool:
        """Whether learning takes little longer in float64 than in float32."""
        return self.most_outputs(inputs) <= self.max_float64_width

    def with_precision(self, float64: bool) -> Self:
        """Return the map in float64 or float32."""
        return replace(self, precision="float64" if float64 else "float32")

    def _with_arrays(self, arrays: dict[str, NDArray[Any]], layout: Layout, pilot_rows: int) -> Self:
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise self._too_large()
        return replace(self, state=State(layout, arrays, pilot_rows))

    def _too_large(self) -> DataError:
        return DataError(f"The rows are too large, or too far apart, for {self!r}. Rescale the columns.")

    def map_block(self, rows: Any, out: NDArray[Any]) -> None:
        """Map a block of rows, dense of any dtype or CSR, into ``out``. NaN and infinity are passed on as NaN."""
        with np.errstate(all="ignore"):
            scaled = self._scaled(rows)
            self.apply(scaled, out)
            out *= self.arrays["gain"][0]
        if not np.isfinite(scaled.data if sparse.issparse(scaled) else scaled).all():
            # Many functions map infinity to a finite number, which would hide the bad row.
            out[~np.isfinite(dense(scaled)).all(axis=1)] = np.nan

    def _scaled(self, rows: Any) -> Any:
        """Centre and scale rows; sparse rows stay sparse if the centre is zero."""
        centre, factor = self._centre_and_factor
        if sparse.issparse(rows):
            if centre is None:
                return (rows * factor if np.ndim(factor) == 0 else rows.multiply(factor)).tocsr().astype(self.dtype)
            rows = rows.toarray()
        scaled = np.empty(rows.shape, dtype=self.dtype)
        if centre is None:
            np.multiply(rows, factor, out=scaled, casting="unsafe")
        else:
            # Subtract in float64 even for float32 features: rows far from zero must not be rounded before the
            # subtraction.
            np.subtract(rows, centre, out=scaled, dtype=np.float64, casting="unsafe")
            scaled *= factor
        return scaled

    @cached_property
    def _centre_and_factor(self) -> tuple[NDArray[np.float64] | None, Any]:
        centre, scale = self.arrays["centre"], self.arrays["scale"]
        factor = (1 / scale).astype(self.dtype)
        return centre if centre.any() else None, factor[0] if (factor == factor[0]).all() else factor

    def file_parts(self, first_stage: int = 0) -> FileParts:
        """Return the header fields and arrays that a file stores; see :meth:`FeatureMap.file_parts`."""
        header = {
            "map": self.kind,
            "parameters": [self.recorded_parameters],
            "pilot_rows": self.fixed.pilot_rows,
            **layout_fields(self.layout),
        }
        return [header], {f"features.{first_stage}.{name}": array for name, array in self.arrays.items()}

    @classmethod
    def read_stage(cls, part: Header, content: Content, index: int) -> Self:
        """Build the map number ``index`` of a file from its header fields and arrays, and check them."""
        layout, given = read_layout(part), part.parts("parameters")
        names = set(cls.parameter_names())
        if len(given) != 1 or not names - cls.added_parameters <= set(given[0].fields) <= names:
            part.refuse(f"has not the parameters of a map {cls.kind!r}")
        try:
            unfrozen = cls(**given[0].fields)
            width, shapes = unfrozen.n_outputs(layout.width), unfrozen.shapes(layout.width)
        except MergeSVMError as error:
            part.refuse(f"has no valid map: {shortened(error)}")
        if unfrozen.precision == "auto":
            part.refuse("has a map without a precision")
        arrays = {name: content.expect(f"features.{index}.{name}", (layout.width,)) for name in ("centre", "scale")}
        if not (arrays["scale"] >= np.finfo(np.float64).tiny).all():
            content.refuse("a scale that is not positive")
        arrays["middle"] = content.expect(f"features.{index}.middle", (width,))
        with np.errstate(over="ignore"):
            used = (1 / arrays["scale"]).astype(unfrozen.dtype), arrays["middle"].astype(unfrozen.dtype)
        if not all(np.isfinite(array).all() for array in used):
            content.refuse(f"a scale too small, or a mean too large, for a map of {unfrozen.precision}")
        for name, shape in {"gain": (1,), **shapes}.items():
            arrays[name] = content.expect(f"features.{index}.{name}", shape, unfrozen.dtype.newbyteorder("<").str)
        return cls(**given[0].fields, state=State(layout, arrays, part.whole("pilot_rows")))

    def read_again(self, header: Header, content: Content) -> FeatureMap:
        """Read a map of the same kind from the header and arrays of its file, and check them."""
        return self.read_stage(header.parts("features")[0], content, 0)

    def _check_integer(self, name: str, low: int, otherwise: str = "") -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not low <= value < INTEGER_LIMIT:
            limits = f"an integer from {low} to {INTEGER_LIMIT - 1:,}{otherwise}"
            raise ParameterError(f"{name} must be {limits}, not {value!r}.")
        object.__setattr__(self, name, int(value))

    def _check_choice(self, name: str, choices: tuple[str | None, ...]) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise ParameterError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}.")

    def _check_bool(self, name: str) -> None:
        object.__setattr__(self, name, check_flag(name, getattr(self, name)))

    def _check_positive(self, name: str, or_none: bool = True) -> None:
        value = getattr(self, name)
        if value is None and or_none:
            return
        number = float(value) if isinstance(value, np.floating) else value
        if isinstance(value, bool) or not isinstance(number, (int, float, np.integer)) or not 0 < number < 1e100:
            default = ", or None for the default" if or_none else ""
            raise ParameterError(f"{name} must be a positive number{default}, not {value!r}.")
        object.__setattr__(self, name, float(value))

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __repr__(self) -> str:
        defaults = {item.name: item.default for item in fields(self)}
        size = self.parameter_names()[0]
        shown = [
            repr(value) if name == size else f"{name}={value!r}"
            for name, value in self.parameters.items()
            if value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def shortened(error: MergeSVMError) -> str:
    """Return the message of an error, without its full stop and not too long."""
    text = str(error).rstrip(".")
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[:MAX_MESSAGE_LENGTH]}..."
