"""Column chart: a histogram below a line chart."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mergesvm.reports.charts.plot_area import LEFT, MAX_WIDTH, RIGHT, TOP, WIDTH, y_axis_name
from mergesvm.reports.charts.svg import element, svg
from mergesvm.reports.formatting import number

HEIGHT = 64.0


def column_chart(values: Sequence[float], titles: Sequence[str], *, label: str, y_name: str) -> Markup:
    """Columns over equal parts of the unit interval, aligned with a line chart above.

    >>> column_chart([3, 1], ["three", "one"], label="Columns", y_name="rows").count("<rect")
    2
    """
    total_width, bottom, highest = WIDTH - LEFT - RIGHT, TOP + HEIGHT, max([*values, 0.0])
    width = total_width / len(values)
    parts = [element("line", x1=LEFT, y1=bottom, x2=LEFT + total_width, y2=bottom, class_="rule")]
    for at, (value, title) in enumerate(zip(values, titles, strict=True)):
        height = float(HEIGHT * value / highest) if highest else 0.0
        box = {"x": LEFT + width * at + 1, "y": bottom - height, "width": width - 2, "height": height, "rx": 1.0}
        parts.append(element("rect", element("title", title), class_="fill other", **box))
    parts.append(element("text", number(highest), x=LEFT - 8, y=TOP + 8, text_anchor="end"))
    parts.append(y_axis_name(y_name, TOP + HEIGHT / 2))
    return svg(parts, WIDTH, bottom + 6, label, MAX_WIDTH)
