"""Horizontal bars to either side of zero, as SVG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergesvm.report.charts.charts import LINE, number
from mergesvm.report.charts.plot_area import LETTER, WIDTH
from mergesvm.report.html import Markup, plain, svg, tag

THICK, GAP = 12.0, 6.0


def signed_bars(
    names: Sequence[str], values: Sequence[float], *, label: str, up: str = "", down: str = "", form: str = ""
) -> Markup:
    """A bar for each name, to the right of zero or to its left, each side in its colour; named, where it has a name.

    >>> signed_bars(["a", "b"], [1.0, -0.5], label="Bars", up="more", down="less").count("<rect")
    4
    """
    numbers = [float(value) if np.isfinite(value) else 0.0 for value in values]
    texts = [format(value, form) if form else _signed(value) for value in numbers]
    left = min(max([len(name) for name in names] + [2]), 18) * LETTER + 8
    room = LETTER * max([len(text) for text in texts] + [1]) + 6
    low, high = min([*numbers, 0.0]), max([*numbers, 0.0])
    across = WIDTH - left - room - (room if low < 0 else 0)
    unit = across / (high - low or 1.0)
    zero, top = left + (room if low < 0 else 0) - unit * low, LINE + 8 if up or down else 4.0
    parts, at_x = [], 0.0
    for text, kind in ((up, "main"), (down, "bad")):
        if text:
            parts.append(tag("rect", x=at_x, y=4.0, width=12.0, height=10.0, rx=2.0, class_=f"fill {kind}"))
            parts.append(tag("text", plain(text, 22), x=at_x + 18, y=13.0, class_="name"))
            at_x += 18 + LETTER * (len(plain(text, 22)) + 2)
    bottom = top + (THICK + GAP) * len(names)
    parts.append(tag("line", x1=zero, y1=top, x2=zero, y2=bottom - GAP + 2, class_="rule"))
    for row, (name, value, text) in enumerate(zip(names, numbers, texts, strict=True)):
        y_at, long = top + (THICK + GAP) * row, abs(value) * unit
        place = {"x": left - 8, "y": y_at + THICK - 2, "text_anchor": "end"}
        parts.append(tag("text", tag("title", name), plain(name, 18), class_="name", **place))
        box = {"x": zero - (long if value < 0 else 0), "y": y_at, "width": max(long, 0.75), "height": THICK, "rx": 1.5}
        kind = "bad" if value < 0 else "main"
        parts.append(tag("rect", tag("title", f"{name}: {text}"), class_=f"fill {kind}", **box))
        end = {"x": zero - long - 4, "text_anchor": "end"} if value < 0 else {"x": zero + long + 4}
        parts.append(tag("text", text, y=y_at + THICK - 2, class_="small", **end))
    return svg(parts, WIDTH, bottom, label, widest=480)


def _signed(value: float) -> str:
    return f"-{number(-value)}" if value < 0 else number(value)
