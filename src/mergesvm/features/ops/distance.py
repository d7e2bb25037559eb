"""The mean squared distance of rows, which sets the width of a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mean_squared_distance(rows: NDArray[np.float64]) -> float:
    """Return E |x - z|^2 over all pairs of rows: twice the sum of the column variances; 1 if it is zero.

    >>> mean_squared_distance(np.array([[0.0], [2.0]]))
    2.0
    """
    return float(2 * rows.var(axis=0).sum()) or 1.0
