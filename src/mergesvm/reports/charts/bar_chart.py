"""Bar chart: horizontal bars of several series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from mergesvm.reports.charts.plot_area import LETTER_WIDTH, LINE_HEIGHT, MAX_WIDTH, WIDTH
from mergesvm.reports.charts.series import Series
from mergesvm.reports.charts.svg import element, svg
from mergesvm.reports.formatting import number, plain

MAX_NAME_LETTERS = 18


def bar_chart(names: Sequence[str], series: Sequence[Series], *, label: str) -> Markup:
    """Horizontal bars: for each name one bar of each series.

    >>> bar_chart(["a", "b"], [Series([3, 1], "true"), Series([2, 2], "predicted", "bad")], label="Bars").count("<rect")
    6
    """
    thickness = 11.0 if len(names) <= 24 else 5.0
    step = thickness * len(series) + 8
    left = name_width(names)
    highest = max([float(value) for bars in series for value in bars.y] + [1e-300])
    scale = (WIDTH - left - 8 - LETTER_WIDTH * len(number(highest))) / highest
    parts = list(bar_legend((bars.name, bars.style) for bars in series))
    for row, name in enumerate(names):
        top = LINE_HEIGHT + 8 + step * row
        parts.append(bar_name(name, left, top + thickness * len(series) / 2 + 4))
        for at, bars in enumerate(series):
            length, y_at = scale * float(bars.y[row]), top + thickness * at
            title = element("title", f"{name}, {bars.name}: {number(bars.y[row])}")
            box = {"x": left, "y": y_at, "width": max(length, 0.75), "height": thickness - 1.0, "rx": 1.5}
            parts.append(element("rect", title, class_=f"fill {bars.style}", **box))
            if thickness > 6:
                text_at = {"x": left + length + 4, "y": y_at + thickness - 2}
                parts.append(element("text", number(bars.y[row]), class_="small", **text_at))
    return svg(parts, WIDTH, LINE_HEIGHT + 8 + step * len(names), label, MAX_WIDTH)


def name_width(names: Sequence[str]) -> float:
    """The room for the names of bars."""
    return min(max([len(name) for name in names] + [2]), MAX_NAME_LETTERS) * LETTER_WIDTH + 8


def bar_name(name: str, left: float, y_at: float) -> Markup:
    """The name of a bar, to the left of it."""
    text = plain(name, MAX_NAME_LETTERS)
    return element("text", element("title", name), text, x=left - 8, y=y_at, text_anchor="end", class_="name")


def bar_legend(entries: Iterable[tuple[str, str]]) -> Iterator[Markup]:
    """Names and styles side by side above the bars."""
    x_at = 0.0
    for name, style in entries:
        text = plain(name, 22)
        yield element("rect", x=x_at, y=4.0, width=12.0, height=10.0, rx=2.0, class_=f"fill {style}")
        yield element("text", text, x=x_at + 18, y=13.0, class_="name")
        x_at += 32 + LETTER_WIDTH * len(text)
