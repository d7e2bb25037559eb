"""Hyperplanes of binary problems, as solvers return them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SOLVERS = ("eigh", "ridge", "cholesky", "recursive", "pegasos")
"""All solvers. If a model's problems used several, the model names the first of them in this order."""


KERNEL_SOLVERS = ("working-set", "active-set", "gradient")
"""The algorithms that train kernel models."""


@dataclass(frozen=True)
class Solution:
    """Hyperplanes of binary problems: the score of problem p is ``coefs[p] . (x - anchor) + offsets[p]``.

    Attributes
    ----------
    coefs : array of shape (problems, features)
    offsets : array of shape (problems,)
        Scores at the anchor. Unlike intercepts at the origin, they stay exact if the features are far from it.
    solvers : tuple of str
        The solver of each problem.
    errors : array of shape (problems,)
        Estimated error of the scores by the rounding of sums; None if it was not estimated.

    The arrays are read-only.
    """

    coefs: NDArray[np.float64]
    offsets: NDArray[np.float64]
    solvers: tuple[str, ...]
    errors: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefs", read_only(self.coefs))
        object.__setattr__(self, "offsets", read_only(self.offsets))


def read_only(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """A read-only view of an array.

    >>> read_only(np.zeros(2))[0] = 1.0
    Traceback (most recent call last):
    ...
    ValueError: assignment destination is read-only
    """
    view = array.view()
    view.flags.writeable = False
    return view
