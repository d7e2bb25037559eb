"""The frame of a line chart: its axes, and where on the picture numbers lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.report.charts.axis import Axis
from mergesvm.report.html import Markup, tag

WIDTH = 380.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 8.0, 40.0

LETTER = 7.0
"""About the width of a letter; there is no measuring text without drawing it."""

FITTING = 3
"""Numbers of so many letters fit beside the upright axis; for longer ones it moves to the right."""


@dataclass(frozen=True)
class PlotArea:
    """Two axes, and the height that is theirs.

    >>> frame = PlotArea(Axis(), Axis(0.0, 2.0), up=100.0)
    >>> frame.left, frame.points([0.0, 1.0], [1.0, 2.0]).tolist()
    (46.0, [[46.0, 58.0], [370.0, 8.0]])
    """

    x_axis: Axis
    y_axis: Axis
    up: float

    @property
    def left(self) -> float:
        """Where the upright axis is."""
        longest = max((len(text) for _, text in self.y_axis.ticks()), default=0)
        return LEFT + LETTER * max(0, longest - FITTING)

    @property
    def across(self) -> float:
        """The length of the other axis."""
        return WIDTH - self.left - RIGHT

    @property
    def bottom(self) -> float:
        """Where that axis is."""
        return TOP + self.up

    def points(self, x: Any, y: Any) -> NDArray[np.float64]:
        """Where points lie, (points, 2); NaN where a number is not finite."""
        return np.column_stack([self.left + self.across * self.x_axis.place(x), self.heights(y)])

    def heights(self, y: Any) -> NDArray[np.float64]:
        """How far down numbers lie."""
        return TOP + self.up * (1 - self.y_axis.place(y))

    def drawn(self, x_name: str, y_name: str) -> Iterator[Markup]:
        """Numbers, lines and names of both axes."""
        for share, text in self.x_axis.ticks():
            yield tag("text", text, x=self.left + self.across * share, y=self.bottom + 16, text_anchor="middle")
        for share, text in self.y_axis.ticks():
            y_at = TOP + self.up * (1 - share)
            yield tag("line", x1=self.left, y1=y_at, x2=self.left + self.across, y2=y_at, class_="rule")
            yield tag("text", text, x=self.left - 8, y=y_at + 4, text_anchor="end")
        yield tag("text", x_name, x=self.left + self.across / 2, y=self.bottom + 34, text_anchor="middle")
        middle = TOP + self.up / 2
        yield tag("text", y_name, x=11, y=middle, text_anchor="middle", transform=f"rotate(-90 11 {middle:g})")
