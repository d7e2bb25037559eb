"""The random hidden layer of an extreme learning machine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError, FeatureMapError, ParameterError
from mergesvm.features.ops.activations import ACTIVATIONS
from mergesvm.features.ops.given_arrays import brief, finite_array, read_arrays
from mergesvm.features.pilot import Pilot, Vector
from mergesvm.features.random_layer import RandomLayer
from mergesvm.features.random_map import Arrays

WEIGHTS = ("normal", "uniform", "constrained")

GIVEN = "given"
"""The distribution of weights that were given as an array, in files and in frozen layers."""

MIN_SQUARED_DIFFERENCE = 1e-3
"""The mean squared difference, in scaled columns, below which two rows count as equal."""


@dataclass(frozen=True, eq=False, repr=False)
class HiddenLayer(RandomLayer):
    """A hidden layer with random, untrained weights: phi(x) = g(W'x + b).

    Parameters
    ----------
    n_features : int, optional
        Number of hidden units. With an array of weights it is the number of its columns.
    activation : str
        The function g, by name: "gaussian", "sigmoid", "tanh", "relu", "sine", "cosine", "hardlimit", "sign",
        "triangular", "softplus", "softsign", "swish", "multiquadric", "absolute", "square" or "linear".
    weights : {"normal", "uniform", "constrained"}, or array of shape (columns, units)
        The distribution of the weights. "constrained" (Zhu, Miao and Qing 2014) uses differences of two rows of
        different classes: one maps to -spread and the other to +spread before the activation. An array is W itself:
        by default, columns are then neither centred nor scaled.
    biases : array of shape (units,), optional
        b, beside an array of weights (default: zeros).
    gain : bool
        Scale all features by one number, to a mean square of 1 over the pilot sample. With an array of weights and
        without a gain, nothing depends on the sample: layers frozen on different rows are equal.
    spread : float, optional
        The standard deviation of W'x over the pilot sample, which sets how nonlinear the layer is; the default depends
        on the activation. For constrained weights, the value to which the two rows map.
    fields : {None, "rectangles", "columns"}
        The columns that each unit uses: all, a rectangle of the image (a receptive field), or a random subset.
    image : tuple of int, optional
        Height, width and, optionally, channels of the images; square by default. Only for rectangles.
    seed, scaling, precision
        As for all maps, see :class:`~mergesvm.features.random_map.RandomMap`.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> layer = ms.features.HiddenLayer(300, seed=1).freeze(X)
    >>> model = ms.solve(ms.learn(X[:900], y[:900], features=layer), multiclass="ovo")
    >>> model.score(X[900:], y[900:]) > 0.94
    True

    The matrix of an extreme SVM, with one line per unit and its bias in the last column:

    >>> import numpy as np
    >>> matrix = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, 2.0]])
    >>> printed = ms.features.HiddenLayer(
    ...     weights=matrix[:, :-1].T, biases=matrix[:, -1], activation="sigmoid", gain=False
    ... )
    >>> x = np.array([[3.0, 2.0]])
    >>> np.allclose(printed.freeze(x).transform(x), 1 / (1 + np.exp(-(matrix @ [3.0, 2.0, 1.0]))))
    True
    """

    kind: ClassVar[str] = "hidden"

    added_parameters: ClassVar[frozenset[str]] = frozenset({"gain"})

    n_features: int = None  # type: ignore[assignment]
    activation: str = "gaussian"
    weights: str | NDArray[np.float64] = "normal"
    spread: float | None = None
    gain: bool = field(default=True, kw_only=True)
    biases: NDArray[np.float64] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given = not isinstance(self.weights, (str, bytes, int, type(None)))
        if given:
            self._take_arrays()
        elif self.biases is not None:
            raise ParameterError(
                f"biases are given, but weights={self.weights!r} is not an array. Give both as arrays."
            )
        super().__post_init__()
        self._check_choice("activation", tuple(ACTIVATIONS))
        self._check_bool("gain")
        self._check_positive("spread")
        if not given:
            self._check_choice("weights", WEIGHTS if self.weights != GIVEN else (GIVEN,))
        if self.weights_are_given and (self.spread is not None or self.fields is not None):
            raise ParameterError("spread and fields describe how weights are drawn, but weights are given as an array.")

    def _take_arrays(self) -> None:
        """Check given weights and biases, and keep copies that cannot be changed."""
        weights = finite_array("weights", self.weights, 2, "(columns, units)")
        units = weights.shape[1]
        if self.n_features is not None and self.n_features != units:
            raise ParameterError(
                f"n_features={self.n_features!r}, but weights of shape {weights.shape} are those of {units} units. "
                f"Leave out n_features; if each line of the array is a unit, transpose it."
            )
        biases = np.zeros(units) if self.biases is None else finite_array("biases", self.biases, 1, f"({units},)")
        if len(biases) != units:
            raise ParameterError(f"biases must have the shape ({units},), one per unit, not {biases.shape}.")
        for name, value in (("weights", weights), ("biases", biases), ("n_features", units)):
            object.__setattr__(self, name, value)

    @property
    def weights_are_given(self) -> bool:
        """Whether weights were given as an array, not drawn."""
        return not isinstance(self.weights, str) or self.weights == GIVEN

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Return the names of the parameters that are not always arrays."""
        return [name for name in super().parameter_names() if name != "biases"]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name; an array of weights, which is kept among the arrays, is "given"."""
        return super().parameters | {"weights": GIVEN if self.weights_are_given else self.weights}

    @classmethod
    def from_text(cls, given: dict[str, Any], size: Any) -> Self:
        """Return the layer of these parameters; weights ending in .npz are a file of ``weights`` and ``biases``."""
        path = given.get("weights")
        if not isinstance(path, str) or not path.endswith(".npz"):
            return super().from_text(given, size)
        return cls(**given | read_arrays(path))

    def n_outputs(self, inputs: int) -> int:
        """Return the number of units."""
        if isinstance(self.weights, np.ndarray) and len(self.weights) != inputs:
            hint = " Transpose it: one line per column." if self.n_features == inputs else ""
            raise DataError(
                f"Rows have {inputs:,} columns, but weights of shape {self.weights.shape} are for rows of "
                f"{len(self.weights):,}.{hint}"
            )
        return super().n_outputs(inputs)

    def prefers_float64(self, inputs: int) -> bool:
        """Whether learning takes little longer in float64; given weights are always used as they are."""
        return self.weights_are_given or super().prefers_float64(inputs)

    def centre_and_scale(self, pilot: Pilot) -> tuple[Vector, Vector]:
        """Compute the centre and the scale of the columns; given weights are for rows as they are."""
        return pilot.centre_and_scale("none" if self._takes_rows_as_they_are else self.scaling)

    @property
    def _takes_rows_as_they_are(self) -> bool:
        return self.scaling == "none" or (self.weights_are_given and self.scaling == "auto")

    @property
    def needs_sample(self) -> bool:
        """Whether the layer depends on the rows on which it is frozen: not if weights are given, without a gain."""
        return self.gain or not (self.weights_are_given and self._takes_rows_as_they_are)

    def feature_size(self, mapped: NDArray[Any]) -> float:
        """Return the root mean square of the features over the sample; 1 without a gain."""
        return super().feature_size(mapped) if self.gain else 1.0

    def frozen_on(self, pilot: Pilot) -> Self:
        """Return the layer frozen on a given pilot sample; given weights move into its arrays."""
        frozen = super().frozen_on(pilot)
        if not self.weights_are_given:
            return frozen
        arrays = dict(frozen.arrays)
        if not self.needs_sample:  # layers frozen on different rows must be equal
            arrays["middle"] = np.zeros(frozen.width)
        return replace(frozen, weights=GIVEN, biases=None, state=replace(frozen.fixed, arrays=arrays))

    def draw(self, pilot: Pilot) -> Arrays:
        """Draw the weights, scaled by the pilot sample, and the biases; or return those given."""
        if isinstance(self.weights, np.ndarray):
            assert self.biases is not None
            return {"weights": self.weights, "bias": self.biases}
        if self.weights == GIVEN:
            raise FeatureMapError(
                "weights='given' stands for an array, which is missing: HiddenLayer(weights=array, biases=array)."
            )
        inputs, generator = pilot.rows.shape[1], pilot.generator
        mask = self.draw_mask(pilot)
        if self.weights == "constrained":
            return self._constrained(pilot, mask)
        shape = (inputs, self.n_features)
        drawn = generator.standard_normal(shape) if self.weights == "normal" else generator.uniform(-1, 1, shape)
        if mask is not None:
            drawn *= mask
        activation = ACTIVATIONS[self.activation]
        spread = activation.spread if self.spread is None else self.spread
        deviation = (pilot.rows @ drawn).std(axis=0)
        typical = np.sqrt(np.mean(deviation**2))
        if typical <= 1e-9 * np.sqrt(inputs):  # scaled columns vary by about 1, unless all are constant
            typical = 1.0
        # Units on all columns may keep their different deviations; units with fields are normalized one by one.
        raw = typical if mask is None else np.maximum(deviation, typical / 3)
        return {
            "weights": drawn * (spread / raw),
            "bias": generator.standard_normal(self.n_features) * (activation.bias_ratio * spread),
        }

    def _constrained(self, pilot: Pilot, mask: NDArray[np.bool_] | None) -> Arrays:
        if pilot.codes is None:
            raise FeatureMapError(
                "weights='constrained' uses differences of rows of different classes and needs labels: freeze(X, y)."
            )
        one, other = _pairs_of_different_classes(pilot.codes, self.n_features, pilot.generator)
        differences = (pilot.rows[other] - pilot.rows[one]).T
        if mask is not None:
            differences = differences * mask
        # Rows that hardly differ in the columns of a unit would turn it into noise.
        least = MIN_SQUARED_DIFFERENCE * (len(differences) if mask is None else mask.sum(axis=0))
        spread = self.spread or ACTIVATIONS[self.activation].constrained_spread
        scale = 2 * spread / np.maximum((differences**2).sum(axis=0), least)
        middles = ((pilot.rows[other] + pilot.rows[one]).T / 2 * differences).sum(axis=0)
        return {"weights": differences * scale, "bias": -middles * scale}

    def activate(self, out: NDArray[Any]) -> None:
        """Apply the activation."""
        ACTIVATIONS[self.activation].function(out, out)

    def __repr__(self) -> str:
        if isinstance(self.weights, str):
            return super().__repr__()
        # Layers that are not frozen are equal if they are shown alike.
        assert self.biases is not None
        return super().__repr__().replace(f"weights={GIVEN!r}", f"weights=<{brief(self.weights, self.biases)}>")


def _pairs_of_different_classes(
    codes: NDArray[np.intp], count: int, generator: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if len(np.unique(codes)) < 2:
        raise FeatureMapError("weights='constrained' needs rows of at least two classes in the pilot sample.")
    one = np.empty(0, dtype=np.intp)
    other = one.copy()
    while len(one) < count:
        pairs = generator.integers(len(codes), size=(2, 2 * count))
        different = codes[pairs[0]] != codes[pairs[1]]
        one, other = np.append(one, pairs[0, different]), np.append(other, pairs[1, different])
    return one[:count], other[:count]
