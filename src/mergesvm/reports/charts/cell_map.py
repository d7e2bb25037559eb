"""Cell map: numbers as coloured cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mergesvm.reports.charts.cells import CellGrid, text_style
from mergesvm.reports.charts.svg import svg

CELL_HEIGHT = 21.0


def cell_map(
    values: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    label: str,
    marked: NDArray[np.bool_] | None = None,
    style: str = "bad",
    full: float | None = None,
) -> Markup:
    """Numbers as cells of an opacity by their size; negative numbers in another colour, no cell for NaN.

    Cells are opaque from ``full`` on, by default the largest number. A star follows numbers that are ``marked``. The
    number is written into its cell if there is room, and always in the tooltip.

    >>> cell_map(np.array([[1.0, -2.0]]), ["a"], ["x", "y"], label="Map").count("<rect")
    3
    """
    width = float(np.clip(300 / max(len(columns), 1), 15.0, 96.0))
    grid = CellGrid(rows, columns, width, CELL_HEIGHT, row_letters=20)
    parts = list(grid.draw())
    highest = full or float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0
    other = "main" if style == "bad" else "bad"
    for row, column in np.argwhere(~np.isnan(values)).tolist():
        value = float(values[row, column])
        star = "*" if marked is not None and marked[row, column] else ""
        text, opacity = _short(value) + star, 0.06 + 0.94 * min(abs(value) / highest, 1.0)
        title = f"{rows[row]}, {columns[column]}: {text}"
        parts.append(grid.cell(row, column, title, other if value < 0 else style, opacity))
        shown = text if width >= 5.5 * len(text) + 1 else star
        if shown:
            parts.append(grid.cell_text(row, column, shown, f"{text_style(opacity)} small", 4))
    return svg(parts, *grid.size, label)


def _short(value: float) -> str:
    """About three digits."""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"
