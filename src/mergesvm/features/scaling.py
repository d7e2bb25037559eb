"""The centre and the scale of the columns, before a row is mapped."""

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
    """The centre and the scale of the columns of a pilot sample.

    "whole" divides all columns by one number, the root of their mean variance; "columns" each by its own standard
    deviation; "range" each by the range of its values, which does not blow up what is rare; "none" leaves rows as they
    are. "auto" is "whole" for columns that seem to be of one unit, as those of a map are, and "columns" for others.
    Sparse rows are not centred.

    >>> find_scaling(Pilot.of([[0.0, 10.0], [2.0, 30.0]]), "columns")
    Scaling(centre=array([ 1., 20.]), scale=array([ 1., 10.]))
    """
    width = pilot.rows.shape[1]
    if how == "none":
        return Scaling(np.zeros(width), np.ones(width))
    centre = np.zeros(width) if pilot.sparse else pilot.rows.mean(axis=0)
    spread = pilot.rows.std(axis=0)
    if how == "whole" or (how == "auto" and (pilot.features or _of_one_unit(pilot.rows))):
        scale = np.full(width, np.sqrt(np.mean(spread**2)))
    else:
        scale = np.ptp(pilot.rows, axis=0) if how == "range" else spread
    # A column that does not vary, but for rounding, has no scale.
    constant = scale <= (1e-5 if pilot.features else 1e-12) * np.abs(pilot.rows).max(axis=0)
    return Scaling(centre, np.where(constant | (scale == 0), 1.0, scale))


def _of_one_unit(rows: NDArray[np.float64]) -> bool:
    """Whether columns seem to be measured in one unit, as pixels are: most span at least half of the widest range."""
    span = np.ptp(rows, axis=0)
    moving = span[span > 0]
    return len(moving) > 0 and bool(np.median(moving) >= span.max() / 2)
