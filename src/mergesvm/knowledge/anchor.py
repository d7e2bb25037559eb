"""The anchor: the point about which sums are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.errors import ParameterError

PILOT_ROWS = 256
"""The anchor is chosen from this many rows."""

MAX_DEVIATIONS = 4.0
"""A column whose mean is within this many standard deviations of zero is anchored at zero, so that zeros stay zeros
and integers stay integers; its sums lose at most a factor 1 + 4^2 of precision, little more than one digit."""

MIN_ROWS = 8
"""Fewer rows do not override a preferred anchor."""


def choose_anchor(batch: Batch, preferred: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the preferred anchor, by default zero, moved to the mean of the first rows in columns far from it.

    Differences of sums of squares about the origin cancel if features are far from it: at offset 1e6 and unit variance
    no digit is left. About a point near the rows nothing cancels. Sparse rows are always summed about zero.

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
    elif len(pilot) < MIN_ROWS:
        return preferred
    integers = pilot.dtype.kind in "biu"
    with np.errstate(all="ignore"):  # NaN and infinity are reported when rows are summed
        pilot = pilot.astype(np.float64, copy=False)
        mean = pilot.mean(axis=0)
        far = np.abs(mean - preferred) > MAX_DEVIATIONS * pilot.std(axis=0)
    return np.asarray(np.where(far & np.isfinite(mean), np.rint(mean) if integers else mean, preferred))


def as_anchor(anchor: Any, width: int) -> NDArray[np.float64]:
    """Check an anchor and return a copy of it."""
    try:
        point = np.array(anchor, dtype=np.float64)
    except (TypeError, ValueError):
        point = np.empty(0)
    if point.shape != (width,) or not np.isfinite(point).all():
        raise ParameterError(f"anchor must be {width} finite numbers, one per feature, not {anchor!r}.")
    return point
