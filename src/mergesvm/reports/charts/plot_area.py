"""The plot area of a chart: two axes, and the positions of numbers between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mergesvm.reports.charts.axis import Axis
from mergesvm.reports.charts.svg import element

WIDTH = 380.0
MAX_WIDTH = 480.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 8.0, 40.0

LETTER_WIDTH = 7.0
"""Approximate width of a letter; text can only be measured by drawing it."""

LINE_HEIGHT = 18.0
"""Height of a line of text."""

N_LETTERS_LEFT = 3
"""Tick labels with this many letters fit into the default left margin; longer ones widen it."""


@dataclass(frozen=True)
class PlotArea:
    """Two axes and the height between top and bottom.

    >>> area = PlotArea(Axis(), Axis(0.0, 2.0), height=100.0)
    >>> area.left, area.points([0.0, 1.0], [1.0, 2.0]).tolist()
    (46.0, [[46.0, 58.0], [370.0, 8.0]])
    """

    x_axis: Axis
    y_axis: Axis
    height: float

    @property
    def left(self) -> float:
        """Position of the y-axis."""
        longest = max((len(text) for _, text in self.y_axis.ticks()), default=0)
        return LEFT + LETTER_WIDTH * max(0, longest - N_LETTERS_LEFT)

    @property
    def width(self) -> float:
        """Length of the x-axis."""
        return WIDTH - self.left - RIGHT

    @property
    def bottom(self) -> float:
        """Position of the x-axis."""
        return TOP + self.height

    def points(self, x: Any, y: Any) -> NDArray[np.float64]:
        """Positions of points, (points, 2); NaN where a coordinate is not finite."""
        return np.column_stack([self.left + self.width * self.x_axis.place(x), self.y_positions(y)])

    def y_positions(self, y: Any) -> NDArray[np.float64]:
        """Vertical positions of numbers, which grow downwards."""
        return TOP + self.height * (1 - self.y_axis.place(y))

    def draw(self, x_name: str, y_name: str) -> Iterator[Markup]:
        """Tick labels, grid lines and names of both axes."""
        for fraction, text in self.x_axis.ticks():
            x_at = self.left + self.width * fraction
            yield element("text", text, x=x_at, y=self.bottom + 16, text_anchor="middle")
        for fraction, text in self.y_axis.ticks():
            y_at = TOP + self.height * (1 - fraction)
            yield element("line", x1=self.left, y1=y_at, x2=self.left + self.width, y2=y_at, class_="rule")
            yield element("text", text, x=self.left - 8, y=y_at + 4, text_anchor="end")
        yield element("text", x_name, x=self.left + self.width / 2, y=self.bottom + 34, text_anchor="middle")
        yield y_axis_name(y_name, TOP + self.height / 2)


def y_axis_name(name: str, middle: float) -> Markup:
    """The name of the y-axis, turned upwards."""
    return element("text", name, x=11, y=middle, text_anchor="middle", transform=f"rotate(-90 11 {middle:g})")
