"""The point about which sums are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.errors import ParameterError

PILOT_ROWS = 256

WORTHWHILE = 4.0
"""A column whose mean is within so many standard deviations of zero is anchored at zero.

Sums about the origin then lose at most a factor 1 + 4^2 of precision, little more than one digit, while zeros stay
zeros, whole numbers stay whole, and nothing needs subtracting.
"""


ENOUGH_ROWS = 8
"""Fewer rows than this do not tell where the data lie, if there is another opinion."""


def choose_anchor(batch: Batch, preferred: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """A point near the first rows: the preferred one, by default zero, except in columns that lie far from it.

    Sums of squares about the origin cancel when features sit far from it: at offset 1e6 and unit variance no digit is
    left. About a point inside the data nothing cancels. Sparse rows are summed about zero.

    >>> import numpy as np
    >>> from mergesvm.data.batch import Batch
    >>> choose_anchor(Batch.of([[0.1, 1e6 + 1], [-0.3, 1e6 - 1]], ["a", "b"])).tolist()
    [0.0, 1000000.0]
    """
    rows = batch.rows
    first = 0 if batch.weights is None else int(np.argmax(batch.weights > 0))
    counted = batch.labels.codes[first : first + PILOT_ROWS] >= 0
    if isinstance(rows, SparseRows) or not counted[0]:
        return np.zeros(rows.width)
    pilot = rows.block(first, min(first + PILOT_ROWS, rows.n_rows))[counted]
    if preferred is None:
        preferred = np.zeros(rows.width)
    elif len(pilot) < ENOUGH_ROWS:
        return preferred
    whole = pilot.dtype.kind in "biu"
    with np.errstate(all="ignore"):  # what is not finite is found, and named, when it is summed
        pilot = pilot.astype(np.float64, copy=False)
        mean = pilot.mean(axis=0)
        away = np.abs(mean - preferred) > WORTHWHILE * pilot.std(axis=0)
    anchor: NDArray[np.float64] = np.where(away & np.isfinite(mean), np.rint(mean) if whole else mean, preferred)
    return anchor


def as_point(anchor: Any, width: int) -> NDArray[np.float64]:
    """An anchor that was given, checked and copied.

    >>> as_point([1, 2], 2)
    array([1., 2.])
    """
    try:
        point = np.array(anchor, dtype=np.float64)
    except (TypeError, ValueError):
        point = np.empty(0)
    if point.shape != (width,) or not np.isfinite(point).all():
        raise ParameterError(f"An anchor is {width} finite numbers, one a feature, not {anchor!r}.")
    return point
