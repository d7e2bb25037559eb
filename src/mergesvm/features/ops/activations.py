"""Activation functions, applied in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Block = NDArray[Any]


def sigmoid(z: Block) -> None:
    """1 / (1 + exp(-z))."""
    np.negative(z, out=z)
    np.exp(z, out=z)
    z += 1
    np.reciprocal(z, out=z)


def tanh(z: Block) -> None:
    """The hyperbolic tangent."""
    np.tanh(z, out=z)


def relu(z: Block) -> None:
    """max(z, 0)."""
    np.maximum(z, 0, out=z)


def sine(z: Block) -> None:
    """sin(z)."""
    np.sin(z, out=z)


def gaussian(z: Block) -> None:
    """exp(-z^2 / 2)."""
    np.square(z, out=z)
    z *= -0.5
    np.exp(z, out=z)


def absolute(z: Block) -> None:
    """|z|."""
    np.abs(z, out=z)


def square(z: Block) -> None:
    """z^2."""
    np.square(z, out=z)


ACTIVATIONS: dict[str, Callable[[Block], None]] = {
    function.__name__: function for function in (sigmoid, tanh, relu, sine, gaussian, absolute, square)
}
