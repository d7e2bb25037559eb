"""How far apart rows are, which sets how fine a kernel has to be."""

from __future__ import annotations

from mergesvm.features.pilot import Pilot


def mean_squared_distance(pilot: Pilot) -> float:
    """E |x - z|^2 over pairs of rows of the pilot sample, which is twice the sum of the variances of its columns.

    >>> mean_squared_distance(Pilot.of([[0.0], [2.0]]))
    2.0
    """
    return float(2 * pilot.rows.var(axis=0).sum()) or 1.0
