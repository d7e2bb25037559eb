"""Centre and scale of the columns before rows are mapped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.features.pilot import Pilot

SCALINGS = ("auto", "whole", "columns", "range", "none")


@dataclass(frozen=True)
class Scaling:
    """Rows become (x - centre) / scale."""

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]


def find_scaling(pilot: Pilot, how: str) -> Scaling:
    """Compute the centre and the scale of the columns from a pilot sample.

    - "whole" divides all columns by one number, the root of their mean variance.
    - "columns" divides each column by its standard deviation.
    - "range" divides each column by its range, which keeps rare values small.
    - "none" leaves rows unchanged.
    - "auto" is "whole" if the columns seem to share a unit or are the output of a map, else "columns".

    Sparse rows are not centred.

    >>> find_scaling(Pilot.of([[0.0, 10.0], [2.0, 30.0]]), "columns")
    Scaling(centre=array([ 1., 20.]), scale=array([ 1., 10.]))
    """
    width = pilot.rows.shape[1]
    if how == "none":
        return Scaling(np.zeros(width), np.ones(width))
    centre = np.zeros(width) if pilot.sparse else pilot.rows.mean(axis=0)
    deviation = pilot.rows.std(axis=0)
    if how == "whole" or (how == "auto" and (pilot.mapped or _share_a_unit(pilot.rows))):
        scale = np.full(width, np.sqrt(np.mean(deviation**2)))
    else:
        scale = np.ptp(pilot.rows, axis=0) if how == "range" else deviation
    constant = scale <= pilot.rounding
    return Scaling(centre, np.where(constant | (scale == 0), 1.0, scale))


def _share_a_unit(rows: NDArray[np.float64]) -> bool:
    """Return whether columns seem to share a unit, as pixels do: most ranges are at least half of the widest."""
    ranges = np.ptp(rows, axis=0)
    varying = ranges[ranges > 0]
    return len(varying) > 0 and bool(np.median(varying) >= ranges.max() / 2)
