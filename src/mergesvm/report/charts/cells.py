"""A map of numbers as coloured cells, as SVG."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mergesvm.report.charts.charts import LINE
from mergesvm.report.charts.plot_area import LETTER
from mergesvm.report.html import Markup, plain, svg, tag

HIGH = 21.0
"""The height of a cell."""


def cell_map(
    values: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    label: str,
    marked: NDArray[np.bool_] | None = None,
    kind: str = "bad",
    full: float | None = None,
) -> Markup:
    """Numbers as cells, deep by their size; negative ones in the other colour, and none where there is no number.

    The colour is full at the largest number, or at ``full`` and beyond it. Those that are ``marked`` have a star. A
    number is written where there is room for it, and in the title always.

    >>> cell_map(np.array([[1.0, -2.0]]), ["a"], ["x", "y"], label="Map").count("<rect")
    3
    """
    wide = float(np.clip(300 / max(len(columns), 1), 15.0, 96.0))
    left = min(max([len(name) for name in rows] + [4]), 20) * LETTER + 10
    upright = max([len(name) for name in columns] + [1]) * LETTER > wide - 1
    top = (min(max([len(name) for name in columns] + [1]), 16) * LETTER if upright else LINE) + 8
    size = wide * len(columns), HIGH * len(rows)
    parts = [tag("rect", x=left, y=top, width=size[0], height=size[1], class_="empty")]
    for at, name in enumerate(rows):
        place = {"x": left - 8, "y": top + HIGH * (at + 0.5) + 4, "text_anchor": "end"}
        parts.append(tag("text", tag("title", name), plain(name, 20), class_="name", **place))
    for at, name in enumerate(columns):
        x_at, y_at = left + wide * (at + 0.5), top - 8
        turn = {"transform": f"rotate(-90 {x_at + 4:g} {y_at:g})", "x": x_at + 4} if upright else {"x": x_at}
        anchor = "start" if upright else "middle"
        parts.append(
            tag("text", tag("title", name), plain(name, 16), y=y_at, text_anchor=anchor, class_="name", **turn)
        )
    highest = full or float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0
    other = "main" if kind == "bad" else "bad"
    for row, column in np.argwhere(~np.isnan(values)).tolist():
        value = float(values[row, column])
        star = "*" if marked is not None and marked[row, column] else ""
        text, depth = _short(value) + star, 0.06 + 0.94 * min(abs(value) / highest, 1.0)
        x_at, y_at = left + wide * column, top + HIGH * row
        box = {"x": x_at + 0.5, "y": y_at + 0.5, "width": wide - 1, "height": HIGH - 1, "fill_opacity": depth}
        title = tag("title", f"{rows[row]}, {columns[column]}: {text}")
        parts.append(tag("rect", title, class_=f"cell fill {other if value < 0 else kind}", **box))
        shown = text if wide >= 5.5 * len(text) + 1 else star
        if shown:
            ink = "on" if depth > 0.82 else "mid" if depth > 0.6 else "name"
            middle = {"x": x_at + wide / 2, "y": y_at + HIGH / 2 + 4, "text_anchor": "middle", "pointer_events": "none"}
            parts.append(tag("text", shown, class_=f"{ink} small", **middle))
    return svg(parts, left + size[0] + 4, top + size[1] + 4, label)


def _short(value: float) -> str:
    """Three digits, where they are enough."""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"
