"""Layout of the arrays that recursive least squares shares with its compiled functions. Does not import numba."""

MAX_PENDING = 8
"""Rank-one updates that are collected before they are written into the inverse."""

LANES = 4
"""The width is padded to a multiple of this: compiled loops process this many rows of the inverse at a time."""

ANCHOR, MEAN, INVERSE_MEAN, DEVIATION, GAIN, RIDGE = range(6)
"""Rows of ``vectors``.

``ANCHOR`` is a point near the rows, ``MEAN`` the mean of the rows relative to it, ``INVERSE_MEAN`` the inverse times
the mean, ``RIDGE`` the penalty on each coefficient. ``DEVIATION`` and ``GAIN`` are scratch space for one row.
"""

TOTAL_WEIGHT, SCALE, ROUNDING = range(3)
"""Entries of ``scalars``: the weight of all rows, a factor on the inverse, and the accumulated rounding error."""

N_PENDING, RIDGE_CURSOR = range(2)
"""Entries of ``counters``: the number of pending updates, and the next coordinate of the penalty to restore."""

OLDEST, N_HELD = range(2)
"""Entries of the state of a window: the index of the oldest row, and the number of rows."""

LEARNED, NOT_FINITE, INACCURATE = range(3)
"""Outcomes of one row: learned; rejected; or learned, but the inverse must be recomputed."""

MIN_REMAINING = 1e-9
"""If subtracting rows leaves a smaller fraction than this, the inverse is recomputed instead."""
