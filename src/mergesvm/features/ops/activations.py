"""Activation functions of hidden layers, by name.

To add one, add its entry to :data:`ACTIVATIONS` and its steps to :mod:`mergesvm.models.formats.onnx_features`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Function = Callable[[NDArray[Any], NDArray[Any]], Any]


@dataclass(frozen=True)
class Activation:
    """A function of one number, and the scale on which it is nonlinear.

    Attributes
    ----------
    function : function
        Called with the input and an output array, which may be the same.
    spread : float
        Default standard deviation of W'x.
    bias_ratio : float
        Standard deviation of the biases relative to it.
    constrained_spread : float
        Default spread of constrained weights.
    """

    function: Function
    spread: float = 1.0
    bias_ratio: float = 0.5
    constrained_spread: float = 1.0


def _sigmoid(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.negative(z, out=out)
    np.exp(out, out=out)
    out += 1
    np.reciprocal(out, out=out)


def _gaussian(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.square(z, out=out)
    out *= -0.5
    np.exp(out, out=out)


def _hard_limit(z: NDArray[Any], out: NDArray[Any]) -> None:
    out[...] = z >= 0


def _sign(z: NDArray[Any], out: NDArray[Any]) -> None:
    # Not numpy's sign, which is 0 at 0.
    out[...] = np.where(z >= 0, 1, -1)


def _triangular(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.abs(z, out=out)
    np.subtract(1, out, out=out)
    np.maximum(out, 0, out=out)


def _softplus(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.logaddexp(z, 0, out=out)


def _softsign(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.divide(z, 1 + np.abs(z), out=out)


def _swish(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.divide(z, 1 + np.exp(-z), out=out)


def _multiquadric(z: NDArray[Any], out: NDArray[Any]) -> None:
    np.hypot(z, 1, out=out)


ACTIVATIONS = {
    "sigmoid": Activation(_sigmoid, spread=2.0, constrained_spread=2.0),
    "tanh": Activation(np.tanh),
    "relu": Activation(lambda z, out: np.maximum(z, 0, out=out), bias_ratio=0.0),
    "sine": Activation(np.sin),
    "gaussian": Activation(_gaussian, spread=0.5, constrained_spread=2.0),
    "absolute": Activation(np.abs),
    "square": Activation(np.square),
    "cosine": Activation(np.cos),
    "hardlimit": Activation(_hard_limit),
    "sign": Activation(_sign),
    "triangular": Activation(_triangular, spread=0.5),
    "softplus": Activation(_softplus),
    "softsign": Activation(_softsign),
    "swish": Activation(_swish),
    "multiquadric": Activation(_multiquadric),
    "linear": Activation(lambda z, out: np.copyto(out, z)),
}
"""All activations by name. The spreads of the first seven were tuned on several sets."""
