"""The hidden layer of an extreme learning machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import FeatureMapError
from mergesvm.features.ops.activations import ACTIVATIONS
from mergesvm.features.ops.layer import Layer
from mergesvm.features.pilot import Pilot
from mergesvm.features.random_map import Arrays

WEIGHTS = ("normal", "uniform", "constrained")


@dataclass(frozen=True, eq=False, repr=False)
class HiddenLayer(Layer):
    """A hidden layer whose weights are drawn and never trained: phi(x) = g(W'x + b).

    Parameters
    ----------
    n_features : int
        Number of hidden units.
    activation : str
        The function g: "gaussian", "relu", "sigmoid", "tanh", "sine", "absolute" or "square".
    weights : {"normal", "uniform", "constrained"}
        Drawn from a distribution, or (Zhu, Miao and Qing 2014) from differences of rows of different classes: of the
        pair that a unit is made of, one row maps to -spread and the other to +spread before the activation.
    spread : float, optional
        The standard deviation of W'x over the pilot sample, which sets how far from linear the layer is; by default
        what suits the activation. For constrained weights it is the size of the two ends.
    fields : {None, "rectangles", "columns"}
        What each unit looks at: all columns, a rectangle of the image (a receptive field), or some columns drawn at
        random.
    image : tuple of int, optional
        Height and width of the images, and perhaps channels; square by default. For rectangles only.
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
        self._choice("activation", tuple(ACTIVATIONS))
        self._choice("weights", WEIGHTS)
        self._positive("spread")

    def draw(self, pilot: Pilot) -> Arrays:
        """Weights, and biases that suit the pilot sample."""
        inputs, generator = pilot.rows.shape[1], pilot.generator
        mask = self.view(pilot)
        if self.weights == "constrained":
            return self._constrained(pilot, mask)
        shape = (inputs, self.n_features)
        drawn = generator.standard_normal(shape) if self.weights == "normal" else generator.uniform(-1, 1, shape)
        if mask is not None:
            drawn *= mask
        usual, shift = BEFORE[self.activation]
        spread = usual if self.spread is None else self.spread
        deviation = (pilot.rows @ drawn).std(axis=0)
        typical = np.sqrt(np.mean(deviation**2))
        if typical <= 1e-9 * np.sqrt(inputs):  # scaled columns vary by about 1, unless all are constant
            typical = 1.0
        # Units that look at all columns may differ in how much they vary; those with fields of their own may not.
        raw = typical if mask is None else np.maximum(deviation, typical / 3)
        return {
            "weights": drawn * (spread / raw),
            "bias": generator.standard_normal(self.n_features) * (shift * spread),
        }

    def _constrained(self, pilot: Pilot, mask: NDArray[np.bool_] | None) -> Arrays:
        if pilot.codes is None:
            raise FeatureMapError("Constrained weights are differences of rows of different classes: give labels, too.")
        one, other = _unlike_pairs(pilot.codes, self.n_features, pilot.generator)
        differences = (pilot.rows[other] - pilot.rows[one]).T
        if mask is not None:
            differences = differences * mask
        # Rows that hardly differ in what a unit sees would make it one of noise.
        least = CLOSE * (len(differences) if mask is None else mask.sum(axis=0))
        scale = 2 * (self.spread or CONSTRAINED[self.activation]) / np.maximum((differences**2).sum(axis=0), least)
        middles = ((pilot.rows[other] + pilot.rows[one]).T / 2 * differences).sum(axis=0)
        return {"weights": differences * scale, "bias": -middles * scale}

    def bend(self, out: NDArray[Any]) -> None:
        """The activation."""
        ACTIVATIONS[self.activation](out)


BEFORE = {
    "gaussian": (0.5, 0.5),
    "relu": (1.0, 0.0),
    "sigmoid": (2.0, 0.5),
    "tanh": (1.0, 0.5),
    "sine": (1.0, 0.5),
    "absolute": (1.0, 0.5),
    "square": (1.0, 0.5),
}
"""What did best before each activation, on images and tables alike: the deviation, and that of the bias as a share."""

CONSTRAINED = {name: 2.0 if name in ("gaussian", "sigmoid") else 1.0 for name in BEFORE}
"""The size to which the two rows of a constrained unit are mapped before each activation."""

CLOSE = 1e-3
"""The mean squared difference, in scaled columns, below which two rows count as equal."""


def _unlike_pairs(
    codes: NDArray[np.intp], count: int, generator: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of rows of different classes."""
    if len(np.unique(codes)) < 2:
        raise FeatureMapError("Constrained weights need rows of at least two classes in the pilot sample.")
    one = np.empty(0, dtype=np.intp)
    other = one.copy()
    while len(one) < count:
        pairs = generator.integers(len(codes), size=(2, 2 * count))
        unlike = codes[pairs[0]] != codes[pairs[1]]
        one, other = np.append(one, pairs[0, unlike]), np.append(other, pairs[1, unlike])
    return one[:count], other[:count]
