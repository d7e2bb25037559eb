"""The points of a line, or the bars of one colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Series:
    """Values with a name and a style.

    Attributes
    ----------
    y : sequence of float
    name : str
        Shown in the legend, unless it is empty or the style is faint.
    style : {"main", "good", "bad", "other", "faint", "dashed"}
    x : sequence of float
        Not used by bars.
    spans : sequence of (low, high), optional
        Draw the points as dots with these error bars.
    """

    y: Sequence[float] | NDArray[np.float64]
    name: str = ""
    style: str = "main"
    x: Sequence[float] | NDArray[np.float64] = ()
    spans: Sequence[tuple[float, float]] | None = None
