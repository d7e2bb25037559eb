"""Layout of the arrays that recursive least squares shares with its compiled functions. Does not import numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

MAX_PENDING = 8
"""Rank-one updates that are collected before they are written into the inverse."""

LANES = 4
"""The width is padded to a multiple of this: compiled loops process this many rows of the inverse at a time."""

ANCHOR, MEAN, INVERSE_MEAN, DEVIATION, GAIN, RIDGE = range(6)
"""Rows of ``vectors``: a point near the rows, their mean relative to it, the inverse times the mean, scratch space for
one row, and the penalty on each coefficient."""

TOTAL_WEIGHT, SCALE, ROUNDING = range(3)
"""Entries of ``scalars``: the weight of all rows, a factor on the inverse, and the accumulated rounding error."""

N_PENDING, RIDGE_CURSOR = range(2)
"""Entries of ``counters``: the number of pending updates, and the next coordinate of the penalty to restore."""

OLDEST, N_HELD = range(2)
"""Entries of the state of a window: the index of the oldest row, and the number of rows."""

LEARNED, NOT_FINITE, INACCURATE = range(3)
"""Outcomes of learning one row: learned; rejected (not finite); or learned, but the inverse must be recomputed."""

MIN_REMAINING = 1e-9
"""If subtracting rows leaves a smaller fraction than this, the inverse is recomputed instead."""

MAX_PREDICTED_ROUNDING = 1e-6
"""If updates may have left a larger relative error, the inverse is recomputed before a row is predicted."""


class WritableArrays:
    """Copies its arrays when it is unpickled: those of a memory-mapped file may be read-only."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()})
