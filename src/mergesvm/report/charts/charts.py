"""Charts as SVG, coloured by the style of the page they are in: lines, columns, bars, and a heat map."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.report.charts.axis import Axis
from mergesvm.report.charts.plot_area import BOTTOM, LEFT, LETTER, RIGHT, TOP, WIDTH, PlotArea
from mergesvm.report.html import Markup, plain, svg, tag

HEIGHT = 384.0
LINE = 18.0
"""The height of a line of a legend."""

NEAR = {"faint": 1.0}
"""Of the points of a line that follow one another within a square of this size, by default of 0.3, one is kept."""

STRAIGHT = 0.1
"""Points that are no further from the straight line between their neighbours are left out."""


@dataclass(frozen=True)
class Series:
    """A line, or the bars of one colour: its points, its name, and one of the kinds main, good, bad, faint and dashed.

    Lines of an empty name, and all faint ones, are not in the legend. With ``spans``, the points are dots with
    whiskers that reach from the first to the second of each pair.
    """

    y: Sequence[float] | NDArray[np.float64]
    name: str = ""
    kind: str = "main"
    x: Sequence[float] | NDArray[np.float64] = ()
    spans: Sequence[tuple[float, float]] | None = None


UNIT = Axis()


def line_chart(
    series: Sequence[Series],
    x_name: str,
    y_name: str,
    *,
    label: str,
    diagonal: bool = False,
    height: float = HEIGHT,
    axes: tuple[Axis, Axis] = (UNIT, UNIT),
) -> Markup:
    """Lines over the unit square, or over other axes, with a legend beneath.

    >>> chart = line_chart([Series([0, 1], "steps", x=[0, 1])], "x", "y", label="A line")
    >>> chart.startswith('<svg role="img" aria-label="A line"'), chart.count("<path")
    (True, 1)
    """
    listed = [line for line in series if line.name and line.kind != "faint"]
    frame = PlotArea(*axes, up=height - TOP - BOTTOM - LINE * len(listed))
    left, bottom = frame.left, frame.bottom
    parts = list(frame.drawn(x_name, y_name))
    if diagonal:
        parts.append(tag("line", x1=left, y1=bottom, x2=left + frame.across, y2=TOP, class_="dashed"))
    drawn = [part for line in series for part in _line(line, frame)]
    if not drawn:
        middle = {"x": left + frame.across / 2, "y": TOP + frame.up / 2, "text_anchor": "middle"}
        drawn = [tag("text", "nothing to draw", **middle)]
    for row, line in enumerate(listed):
        y_at = bottom + BOTTOM + LINE * (row + 0.5)
        drawn.append(tag("line", x1=left, y1=y_at, x2=left + 20, y2=y_at, class_=f"line {line.kind}", stroke_width=2.5))
        drawn.append(tag("text", plain(line.name, 48), x=left + 28, y=y_at + 4, class_="name"))
    return svg([*parts, *drawn], WIDTH, height, label, widest=480)


def _line(line: Series, frame: PlotArea) -> Iterator[Markup]:
    points = frame.points(line.x, line.y)
    known = np.flatnonzero(np.isfinite(points).all(axis=1))
    if not len(known):
        return
    points = points[known]
    if line.spans is not None:
        for at, x_at in zip(known.tolist(), points[:, 0].tolist(), strict=True):
            low, high = frame.heights(line.spans[at]).tolist()
            yield tag("line", x1=x_at, y1=low, x2=x_at, y2=high, class_="whisker")
    title = [tag("title", line.name)] if line.name else []
    kind = f"line {line.kind}" if line.spans is None else f"line {line.kind} thin"
    yield tag("path", *title, d=_path(points, NEAR.get(line.kind, 0.3)), class_=kind)
    if line.spans is not None:
        for x_at, y_at in points.tolist():
            yield tag("circle", cx=x_at, cy=y_at, r=3.5, class_=f"fill {line.kind}")


def _path(points: NDArray[np.float64], near: float) -> str:
    moved = (np.diff(np.floor(points / near), axis=0) != 0).any(axis=1)
    moved[-1:] = True
    points = points[np.append(True, moved)]
    for _ in range(8):
        points = points[_needed(points)]
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in np.round(points, 1).tolist())


def _needed(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """All but those of every other point that lie on the straight way between their neighbours."""
    needed = np.ones(len(points), dtype=bool)
    before, at, after = points[:-2:2], points[1:-1:2], points[2::2]
    (ax, ay), (bx, by) = (at - before).T, (after - before).T
    straight = np.hypot(bx, by)
    detour = np.hypot(ax, ay) + np.hypot(*(after - at).T) - straight
    needed[1:-1:2] = (np.abs(ax * by - ay * bx) > STRAIGHT * straight) | (detour > STRAIGHT)
    return needed


def column_chart(values: Sequence[float], titles: Sequence[str], *, label: str, y_name: str) -> Markup:
    """Columns over equal parts of the unit interval, to stand beneath a line chart.

    >>> column_chart([3, 1], ["three", "one"], label="Columns", y_name="rows").count("<rect")
    2
    """
    across, up, highest = WIDTH - LEFT - RIGHT, 64.0, max([*values, 0.0])
    width = across / len(values)
    parts = [tag("line", x1=LEFT, y1=TOP + up, x2=LEFT + across, y2=TOP + up, class_="rule")]
    for at, (value, title) in enumerate(zip(values, titles, strict=True)):
        tall = up * value / highest if highest else 0.0
        place = {"x": LEFT + width * at + 1, "y": TOP + up - tall, "width": width - 2, "height": float(tall), "rx": 1.0}
        parts.append(tag("rect", tag("title", title), class_="fill other", **place))
    parts.append(tag("text", number(highest), x=LEFT - 8, y=TOP + 8, text_anchor="end"))
    parts.append(
        tag("text", y_name, x=11, y=TOP + up / 2, text_anchor="middle", transform=f"rotate(-90 11 {TOP + 32})")
    )
    return svg(parts, WIDTH, TOP + up + 6, label, widest=480)


def bar_chart(names: Sequence[str], series: Sequence[Series], *, label: str) -> Markup:
    """Horizontal bars: for each name one of each series.

    >>> bar_chart(["a", "b"], [Series([3, 1], "true"), Series([2, 2], "predicted", "bad")], label="Bars").count("<rect")
    6
    """
    thick = 11.0 if len(names) <= 24 else 5.0
    step = thick * len(series) + 8
    left = min(max([len(name) for name in names] + [2]), 18) * LETTER + 8
    highest = max([float(value) for bars in series for value in bars.y] + [1e-300])
    across = WIDTH - left - 8 - LETTER * len(number(highest))
    parts, at_x = [], 0.0
    for bars in series:
        parts.append(tag("rect", x=at_x, y=4.0, width=12.0, height=10.0, rx=2.0, class_=f"fill {bars.kind}"))
        parts.append(tag("text", bars.name, x=at_x + 18, y=13.0, class_="name"))
        at_x += 40 + LETTER * len(bars.name)
    for row, name in enumerate(names):
        top = LINE + 8 + step * row
        place = {"x": left - 8, "y": top + thick * len(series) / 2 + 4, "text_anchor": "end", "class_": "name"}
        parts.append(tag("text", tag("title", name), plain(name, 18), **place))
        for at, bars in enumerate(series):
            long, y_at = across * float(bars.y[row]) / highest, top + thick * at
            title = tag("title", f"{name}, {bars.name}: {number(bars.y[row])}")
            place = {"x": left, "y": y_at, "width": max(long, 0.75), "height": thick - 1.0, "rx": 1.5}
            parts.append(tag("rect", title, class_=f"fill {bars.kind}", **place))
            if thick > 6:
                parts.append(tag("text", number(bars.y[row]), x=left + long + 4, y=y_at + thick - 2, class_="small"))
    return svg(parts, WIDTH, LINE + 8 + step * len(names), label, widest=480)


def heat_map(
    counts: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    label: str,
    totals: NDArray[np.float64] | None = None,
) -> Markup:
    """Counts as cells, deep by their share of the total of the row; the diagonal in one colour, all else in another.

    Off the diagonal colours go by the root of the share, so that rare confusions are seen. Rows beyond the last column
    have no diagonal. Where there are more columns than are shown, ``totals`` are those of the rows over all of them.

    >>> heat_map(np.eye(2), ["a", "b"], ["a", "b"], label="Two").count("<title>")
    6
    """
    wide = float(np.clip(660 / len(columns), 13.5, 190))
    high = min(wide, 84.0 if len(columns) < 5 else 48.0)
    small = "name small" if high < 16 else "name"
    left = min(max([len(name) for name in rows] + [4]), 16) * LETTER + 10
    upright = max(len(name) for name in columns) * LETTER > wide - 1
    top = (min(max(len(name) for name in columns), 16) * LETTER if upright else LINE) + 26
    parts = [
        tag("text", "predicted", x=left, y=12.0),
        tag("text", "true", x=left - 8, y=top - 8, text_anchor="end"),
        tag("rect", x=left, y=top, width=wide * len(columns), height=high * len(rows), class_="empty"),
    ]
    for at, name in enumerate(rows):
        place = {"x": left - 8, "y": top + high * (at + 0.5) + 4, "text_anchor": "end"}
        kind = small if at < len(columns) else small.replace("name", "warn")
        parts.append(tag("text", tag("title", name), plain(name, 16), class_=kind, **place))
    for at, name in enumerate(columns):
        x_at, y_at = left + wide * (at + 0.5), top - 8
        turn = {"transform": f"rotate(-90 {x_at + 4:g} {y_at:g})", "x": x_at + 4} if upright else {"x": x_at}
        anchor = "start" if upright else "middle"
        parts.append(tag("text", tag("title", name), plain(name, 16), y=y_at, text_anchor=anchor, class_=small, **turn))
    weights = counts.sum(axis=1) if totals is None else totals
    for row, column in np.argwhere(counts > 0).tolist():
        share, corner = float(counts[row, column] / weights[row]), (left + wide * column, top + high * row)
        title = f"{rows[row]} → {columns[column]}: {number(counts[row, column])} ({share:.1%})"
        parts += _cell(share, row == column, number(counts[row, column]), title, corner, (wide, high))
    return svg(parts, left + wide * len(columns) + 4, top + high * len(rows) + 4, label)


def _cell(
    share: float, right: bool, count: str, title: str, corner: tuple[float, float], size: tuple[float, float]
) -> Iterator[Markup]:
    (x, y), (wide, high) = corner, size
    depth = 0.06 + 0.94 * share if right else 0.1 + 0.9 * share**0.5
    place = {"x": x + 0.5, "y": y + 0.5, "width": wide - 1, "height": high - 1, "fill_opacity": depth}
    yield tag("rect", tag("title", title), class_=f"cell fill {'main' if right else 'bad'}", **place)
    ink = "on" if depth > 0.82 else "mid" if depth > 0.6 else "name"
    middle = {"x": x + wide / 2, "text_anchor": "middle", "pointer_events": "none"}
    if high >= 36 and wide >= LETTER * len(count):
        yield tag("text", count, y=y + high / 2, class_=f"{ink} big" if high > 60 else ink, **middle)
        yield tag(
            "text",
            f"{share:.1%}",
            y=y + high / 2 + (18 if high > 60 else 13),
            class_=ink if high > 60 else f"{ink} small",
            **middle,
        )
    elif high >= 19 and share >= 0.005:
        yield tag("text", f"{100 * share:.0f}", y=y + high / 2 + 4, class_=f"{ink} small", **middle)


def number(value: float) -> str:
    """A count, or a weight with as many digits as matter.

    >>> number(1234.0), number(0.25), number(1234.56)
    ('1,234', '0.25', '1,234.6')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value >= 100 else f"{value:.3g}"
