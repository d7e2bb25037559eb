"""The hyperplanes of binary problems, as a solver returns them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Solution:
    """Hyperplanes of binary problems: the score of problem p is ``coefs[p] . (x - anchor) + offsets[p]``.

    Attributes
    ----------
    coefs : array of shape (problems, features)
    offsets : array of shape (problems,)
        The score at the anchor. Taken there, and not at the origin, it keeps its digits when features are far off.
    solvers : tuple of str
        The solver of each problem.
    """

    coefs: NDArray[np.float64]
    offsets: NDArray[np.float64]
    solvers: tuple[str, ...]
