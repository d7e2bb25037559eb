"""Line chart: curves, or dots with error bars, over two axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mergesvm.reports.charts.axis import Axis
from mergesvm.reports.charts.plot_area import BOTTOM, LINE_HEIGHT, MAX_WIDTH, TOP, WIDTH, PlotArea
from mergesvm.reports.charts.series import Series
from mergesvm.reports.charts.svg import element, svg
from mergesvm.reports.formatting import plain

HEIGHT = 384.0
UNIT_AXIS = Axis()

MIN_DISTANCE = 0.3
"""Consecutive points in the same square of this size are merged into one."""

MIN_DISTANCE_FAINT = 1.0
"""The same for faint lines."""

MAX_DEVIATION = 0.1
"""Points no further than this from the line between their neighbours are left out."""


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
