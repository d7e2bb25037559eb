"""The random hidden layer of an extreme learning machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import FeatureMapError
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_layer import RandomLayer
from mergesvm.features.random_map import Arrays


def _sigmoid(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.negative(z, out=out)
    np.exp(out, out=out)
    out += 1
    np.reciprocal(out, out=out)


def _gaussian(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.square(z, out=out)
    out *= -0.5
    np.exp(out, out=out)


ACTIVATIONS: dict[str, Callable[[NDArray[Any], NDArray[Any]], Any]] = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu": lambda z, out: np.maximum(z, 0, out=out),
    "sine": np.sin,
    "gaussian": _gaussian,
    "absolute": np.abs,
    "square": np.square,
}
"""The functions, called with the input and an output array, which may be the same."""

WEIGHTS = ("normal", "uniform", "constrained")

PREACTIVATION = {
    "gaussian": (0.5, 0.5),
    "relu": (1.0, 0.0),
    "sigmoid": (2.0, 0.5),
    **dict.fromkeys(("tanh", "sine", "absolute", "square"), (1.0, 0.5)),
}
"""Default standard deviation of W'x for each activation, and that of the bias relative to it; tuned on several sets."""

CONSTRAINED_SPREAD = {name: 2.0 if name in ("gaussian", "sigmoid") else 1.0 for name in PREACTIVATION}
"""Default spread of constrained weights for each activation."""

MIN_SQUARED_DIFFERENCE = 1e-3
"""The mean squared difference, in scaled columns, below which two rows count as equal."""


@dataclass(frozen=True, eq=False, repr=False)
class HiddenLayer(RandomLayer):
    """A hidden layer with random, untrained weights: phi(x) = g(W'x + b).

    Parameters
    ----------
    n_features : int
        Number of hidden units.
    activation : str
        The function g: "gaussian", "relu", "sigmoid", "tanh", "sine", "absolute" or "square".
    weights : {"normal", "uniform", "constrained"}
        The distribution of the weights. "constrained" (Zhu, Miao and Qing 2014) uses differences of two rows of
        different classes: one maps to -spread and the other to +spread before the activation.
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
    """

    kind: ClassVar[str] = "hidden"

    activation: str = "gaussian"
    weights: str = "normal"
    spread: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_choice("activation", tuple(ACTIVATIONS))
        self._check_choice("weights", WEIGHTS)
        self._check_positive("spread")

    def draw(self, pilot: Pilot) -> Arrays:
        """Draw the weights, scaled by the pilot sample, and the biases."""
        inputs, generator = pilot.rows.shape[1], pilot.generator
        mask = self.draw_mask(pilot)
        if self.weights == "constrained":
            return self._constrained(pilot, mask)
        shape = (inputs, self.n_features)
        drawn = generator.standard_normal(shape) if self.weights == "normal" else generator.uniform(-1, 1, shape)
        if mask is not None:
            drawn *= mask
        default, bias_ratio = PREACTIVATION[self.activation]
        spread = default if self.spread is None else self.spread
        deviation = (pilot.rows @ drawn).std(axis=0)
        typical = np.sqrt(np.mean(deviation**2))
        if typical <= 1e-9 * np.sqrt(inputs):  # scaled columns vary by about 1, unless all are constant
            typical = 1.0
        # Units on all columns may keep their different deviations; units with fields are normalized one by one.
        raw = typical if mask is None else np.maximum(deviation, typical / 3)
        return {
            "weights": drawn * (spread / raw),
            "bias": generator.standard_normal(self.n_features) * (bias_ratio * spread),
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
        spread = self.spread or CONSTRAINED_SPREAD[self.activation]
        scale = 2 * spread / np.maximum((differences**2).sum(axis=0), least)
        middles = ((pilot.rows[other] + pilot.rows[one]).T / 2 * differences).sum(axis=0)
        return {"weights": differences * scale, "bias": -middles * scale}

    def activate(self, out: NDArray[Any]) -> None:
        """Apply the activation."""
        ACTIVATIONS[self.activation](out, out)


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
