"""Horizontal bar charts: several series, or bars to either side of zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from markupsafe import Markup

from mergesvm.reports.charts.svg import LETTER_WIDTH, LINE_HEIGHT, MAX_WIDTH, WIDTH, Series, element, svg
from mergesvm.reports.formatting import number, plain

MAX_NAME_LETTERS = 18
SIGNED_BAR_HEIGHT, SIGNED_BAR_GAP = 12.0, 6.0


def bar_chart(names: Sequence[str], series: Sequence[Series], *, label: str) -> Markup:
    """Horizontal bars: for each name one bar of each series.

    >>> bar_chart(["a", "b"], [Series([3, 1], "true"), Series([2, 2], "predicted", "bad")], label="Bars").count("<rect")
    6
    """
    thickness = 11.0 if len(names) <= 24 else 5.0
    step = thickness * len(series) + 8
    left = _name_width(names)
    highest = max([float(value) for bars in series for value in bars.y] + [1e-300])
    scale = (WIDTH - left - 8 - LETTER_WIDTH * len(number(highest))) / highest
    parts = list(_bar_legend((bars.name, bars.style) for bars in series))
    for row, name in enumerate(names):
        top = LINE_HEIGHT + 8 + step * row
        parts.append(_bar_name(name, left, top + thickness * len(series) / 2 + 4))
        for at, bars in enumerate(series):
            length, y_at = scale * float(bars.y[row]), top + thickness * at
            title = element("title", f"{name}, {bars.name}: {number(bars.y[row])}")
            box = {"x": left, "y": y_at, "width": max(length, 0.75), "height": thickness - 1.0, "rx": 1.5}
            parts.append(element("rect", title, class_=f"fill {bars.style}", **box))
            if thickness > 6:
                text_at = {"x": left + length + 4, "y": y_at + thickness - 2}
                parts.append(element("text", number(bars.y[row]), class_="small", **text_at))
    return svg(parts, WIDTH, LINE_HEIGHT + 8 + step * len(names), label, MAX_WIDTH)


def signed_bar_chart(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    positive: str = "",
    negative: str = "",
    form: str = "",
) -> Markup:
    """A horizontal bar per name, to the right of zero for positive values and to the left for negative ones.

    The sides have different colours and, if given, names.

    >>> signed_bar_chart(["a", "b"], [1.0, -0.5], label="Bars", positive="more", negative="less").count("<rect")
    4
    """
    numbers = [float(value) if np.isfinite(value) else 0.0 for value in values]
    texts = [format(value, form) if form else "-" * (value < 0) + number(abs(value)) for value in numbers]
    left = _name_width(names)
    text_width = LETTER_WIDTH * max([len(text) for text in texts] + [1]) + 6
    low, high = min([*numbers, 0.0]), max([*numbers, 0.0])
    left_text_width = text_width if low < 0 else 0.0
    scale = (WIDTH - left - text_width - left_text_width) / (high - low or 1.0)
    zero = left + left_text_width - scale * low
    entries = [(name, style) for name, style in ((positive, "main"), (negative, "bad")) if name]
    parts, top = list(_bar_legend(entries)), LINE_HEIGHT + 8 if entries else 4.0
    step = SIGNED_BAR_HEIGHT + SIGNED_BAR_GAP
    bottom = top + step * len(names)
    parts.append(element("line", x1=zero, y1=top, x2=zero, y2=bottom - SIGNED_BAR_GAP + 2, class_="rule"))
    for row, (name, value, text) in enumerate(zip(names, numbers, texts, strict=True)):
        y_at, length = top + step * row, abs(value) * scale
        parts.append(_bar_name(name, left, y_at + SIGNED_BAR_HEIGHT - 2))
        box = {"y": y_at, "width": max(length, 0.75), "height": SIGNED_BAR_HEIGHT, "rx": 1.5}
        style, start = ("bad", zero - length) if value < 0 else ("main", zero)
        parts.append(element("rect", element("title", f"{name}: {text}"), class_=f"fill {style}", x=start, **box))
        end = {"x": zero - length - 4, "text_anchor": "end"} if value < 0 else {"x": zero + length + 4}
        parts.append(element("text", text, y=y_at + SIGNED_BAR_HEIGHT - 2, class_="small", **end))
    return svg(parts, WIDTH, bottom, label, MAX_WIDTH)


def _name_width(names: Sequence[str]) -> float:
    """The room for the names of bars."""
    return min(max([len(name) for name in names] + [2]), MAX_NAME_LETTERS) * LETTER_WIDTH + 8


def _bar_name(name: str, left: float, y_at: float) -> Markup:
    """The name of a bar, to the left of it."""
    text = plain(name, MAX_NAME_LETTERS)
    return element("text", element("title", name), text, x=left - 8, y=y_at, text_anchor="end", class_="name")


def _bar_legend(entries: Iterable[tuple[str, str]]) -> Iterator[Markup]:
    """Names and styles side by side above the bars."""
    x_at = 0.0
    for name, style in entries:
        text = plain(name, 22)
        yield element("rect", x=x_at, y=4.0, width=12.0, height=10.0, rx=2.0, class_=f"fill {style}")
        yield element("text", text, x=x_at + 18, y=13.0, class_="name")
        x_at += 32 + LETTER_WIDTH * len(text)
