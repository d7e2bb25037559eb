"""Signed bar chart: horizontal bars to either side of zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from mergesvm.reports.charts.bar_chart import bar_legend, bar_name, name_width
from mergesvm.reports.charts.plot_area import LETTER_WIDTH, LINE_HEIGHT, MAX_WIDTH, WIDTH
from mergesvm.reports.charts.svg import element, svg
from mergesvm.reports.formatting import number

THICKNESS, GAP = 12.0, 6.0


def signed_bar_chart(
    names: Sequence[str],
    values: Sequence[float],
    *,
    label: str,
    positive: str = "",
    negative: str = "",
    form: str = "",
) -> Markup:
    """A bar for each name, to the right of zero or to the left; the sides have colours and, if given, names.

    >>> signed_bar_chart(["a", "b"], [1.0, -0.5], label="Bars", positive="more", negative="less").count("<rect")
    4
    """
    numbers = [float(value) if np.isfinite(value) else 0.0 for value in values]
    texts = [format(value, form) if form else _signed(value) for value in numbers]
    left = name_width(names)
    text_width = LETTER_WIDTH * max([len(text) for text in texts] + [1]) + 6
    low, high = min([*numbers, 0.0]), max([*numbers, 0.0])
    left_text_width = text_width if low < 0 else 0.0
    scale = (WIDTH - left - text_width - left_text_width) / (high - low or 1.0)
    zero = left + left_text_width - scale * low
    entries = [(name, style) for name, style in ((positive, "main"), (negative, "bad")) if name]
    parts, top = list(bar_legend(entries)), LINE_HEIGHT + 8 if entries else 4.0
    bottom = top + (THICKNESS + GAP) * len(names)
    parts.append(element("line", x1=zero, y1=top, x2=zero, y2=bottom - GAP + 2, class_="rule"))
    for row, (name, value, text) in enumerate(zip(names, numbers, texts, strict=True)):
        y_at, length = top + (THICKNESS + GAP) * row, abs(value) * scale
        parts.append(bar_name(name, left, y_at + THICKNESS - 2))
        box = {"y": y_at, "width": max(length, 0.75), "height": THICKNESS, "rx": 1.5}
        style, start = ("bad", zero - length) if value < 0 else ("main", zero)
        parts.append(element("rect", element("title", f"{name}: {text}"), class_=f"fill {style}", x=start, **box))
        end = {"x": zero - length - 4, "text_anchor": "end"} if value < 0 else {"x": zero + length + 4}
        parts.append(element("text", text, y=y_at + THICKNESS - 2, class_="small", **end))
    return svg(parts, WIDTH, bottom, label, MAX_WIDTH)


def _signed(value: float) -> str:
    return f"-{number(-value)}" if value < 0 else number(value)
