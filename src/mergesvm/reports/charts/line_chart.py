"""Line charts: curves, or dots with error bars, over two axes; and columns to show below one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mergesvm.reports.charts.axis import Axis
from mergesvm.reports.charts.svg import LETTER_WIDTH, LINE_HEIGHT, MAX_WIDTH, WIDTH, Series, element, svg
from mergesvm.reports.formatting import number, plain

HEIGHT = 384.0
COLUMN_HEIGHT = 64.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 10.0, 8.0, 40.0
UNIT_AXIS = Axis()

N_LETTERS_LEFT = 3
"""Tick labels with this many letters fit into the default left margin; longer ones widen it."""

MIN_DISTANCE = 0.3
"""Consecutive points in the same square of this size are merged into one."""

MIN_DISTANCE_FAINT = 1.0
"""The same for faint lines."""

MAX_DEVIATION = 0.1
"""Points no further than this from the line between their neighbours are left out."""


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
        yield _y_axis_name(y_name, TOP + self.height / 2)


def line_chart(
    series: Sequence[Series],
    x_name: str,
    y_name: str,
    *,
    label: str,
    diagonal: bool = False,
    height: float = HEIGHT,
    axes: tuple[Axis, Axis] = (UNIT_AXIS, UNIT_AXIS),
) -> Markup:
    """Lines over the unit square or other axes, with a legend below.

    >>> chart = line_chart([Series([0, 1], "steps", x=[0, 1])], "x", "y", label="A line")
    >>> chart.startswith('<svg role="img" aria-label="A line"'), chart.count("<path")
    (True, 1)
    """
    listed = [line for line in series if line.name and line.style != "faint"]
    area = PlotArea(*axes, height=height - TOP - BOTTOM - LINE_HEIGHT * len(listed))
    left, bottom = area.left, area.bottom
    parts = list(area.draw(x_name, y_name))
    if diagonal:
        parts.append(element("line", x1=left, y1=bottom, x2=left + area.width, y2=TOP, class_="dashed"))
    drawn = [part for line in series for part in _line(line, area)]
    if not drawn:
        middle = {"x": left + area.width / 2, "y": TOP + area.height / 2, "text_anchor": "middle"}
        drawn = [element("text", "nothing to draw", **middle)]
    for row, line in enumerate(listed):
        y_at = bottom + BOTTOM + LINE_HEIGHT * (row + 0.5)
        ends = {"x1": left, "y1": y_at, "x2": left + 20, "y2": y_at}
        drawn.append(element("line", class_=f"line {line.style}", stroke_width=2.5, **ends))
        drawn.append(element("text", plain(line.name, 48), x=left + 28, y=y_at + 4, class_="name"))
    return svg([*parts, *drawn], WIDTH, height, label, MAX_WIDTH)


def column_chart(values: Sequence[float], titles: Sequence[str], *, label: str, y_name: str) -> Markup:
    """Columns over equal parts of the unit interval, aligned with a line chart above.

    >>> column_chart([3, 1], ["three", "one"], label="Columns", y_name="rows").count("<rect")
    2
    """
    total_width, bottom, highest = WIDTH - LEFT - RIGHT, TOP + COLUMN_HEIGHT, max([*values, 0.0])
    width = total_width / len(values)
    parts = [element("line", x1=LEFT, y1=bottom, x2=LEFT + total_width, y2=bottom, class_="rule")]
    for at, (value, title) in enumerate(zip(values, titles, strict=True)):
        height = float(COLUMN_HEIGHT * value / highest) if highest else 0.0
        box = {"x": LEFT + width * at + 1, "y": bottom - height, "width": width - 2, "height": height, "rx": 1.0}
        parts.append(element("rect", element("title", title), class_="fill other", **box))
    parts.append(element("text", number(highest), x=LEFT - 8, y=TOP + 8, text_anchor="end"))
    parts.append(_y_axis_name(y_name, TOP + COLUMN_HEIGHT / 2))
    return svg(parts, WIDTH, bottom + 6, label, MAX_WIDTH)


def _y_axis_name(name: str, middle: float) -> Markup:
    """The name of the y-axis, turned upwards."""
    return element("text", name, x=11, y=middle, text_anchor="middle", transform=f"rotate(-90 11 {middle:g})")


def _line(line: Series, area: PlotArea) -> Iterator[Markup]:
    points = area.points(line.x, line.y)
    known = np.flatnonzero(np.isfinite(points).all(axis=1))
    if not len(known):
        return
    points = points[known]
    if line.spans is not None:
        for at, x_at in zip(known.tolist(), points[:, 0].tolist(), strict=True):
            low, high = area.y_positions(line.spans[at]).tolist()
            yield element("line", x1=x_at, y1=low, x2=x_at, y2=high, class_="whisker")
    title = [element("title", line.name)] if line.name else []
    distance = MIN_DISTANCE_FAINT if line.style == "faint" else MIN_DISTANCE
    style = f"line {line.style}" if line.spans is None else f"line {line.style} thin"
    yield element("path", *title, d=_path(points, distance), class_=style)
    if line.spans is not None:
        for x_at, y_at in points.tolist():
            yield element("circle", cx=x_at, cy=y_at, r=3.5, class_=f"fill {line.style}")


def _path(points: NDArray[np.float64], distance: float) -> str:
    """The points as an SVG path, without those that would not be visible."""
    moved = (np.diff(np.floor(points / distance), axis=0) != 0).any(axis=1)
    moved[-1:] = True
    points = points[np.append(True, moved)]
    for _ in range(8):
        points = points[_needed(points)]
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in np.round(points, 1).tolist())


def _needed(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mask of points to keep: drops every other point that is on the straight line between its neighbours."""
    needed = np.ones(len(points), dtype=bool)
    before, at, after = points[:-2:2], points[1:-1:2], points[2::2]
    (ax, ay), (bx, by) = (at - before).T, (after - before).T
    straight = np.hypot(bx, by)
    detour = np.hypot(ax, ay) + np.hypot(*(after - at).T) - straight
    needed[1:-1:2] = (np.abs(ax * by - ay * bx) > MAX_DEVIATION * straight) | (detour > MAX_DEVIATION)
    return needed
