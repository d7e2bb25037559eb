"""Heat map of a confusion matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mergesvm.reports.charts.cells import CellGrid, text_style
from mergesvm.reports.charts.plot_area import LETTER_WIDTH
from mergesvm.reports.charts.svg import element, svg
from mergesvm.reports.formatting import number


def heat_map(
    counts: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    label: str,
    totals: NDArray[np.float64] | None = None,
) -> Markup:
    """Counts as cells of an opacity by their fraction of the row; the diagonal in one colour, errors in another.

    Off the diagonal, opacity grows with the square root of the fraction, so that rare errors are visible. Rows beyond
    the last column have no diagonal cell. If not all columns are shown, ``totals`` are the sums of the full rows.

    >>> heat_map(np.eye(2), ["a", "b"], ["a", "b"], label="Two").count("<title>")
    6
    """
    width = float(np.clip(660 / len(columns), 13.5, 190))
    grid = CellGrid(rows, columns, width, min(width, 84.0 if len(columns) < 5 else 48.0), above=26.0)
    parts = [
        element("text", "predicted", x=grid.left, y=12.0),
        element("text", "true", x=grid.left - 8, y=grid.top - 8, text_anchor="end"),
        *grid.draw("name small" if grid.height < 16 else "name", warned_from=len(columns)),
    ]
    weights = counts.sum(axis=1) if totals is None else totals
    for row, column in np.argwhere(counts > 0).tolist():
        fraction = float(counts[row, column] / weights[row])
        parts += _cell(grid, row, column, fraction, number(counts[row, column]))
    return svg(parts, *grid.size, label)


def _cell(grid: CellGrid, row: int, column: int, fraction: float, count: str) -> Iterator[Markup]:
    correct = row == column
    opacity = 0.06 + 0.94 * fraction if correct else 0.1 + 0.9 * fraction**0.5
    title = f"{grid.rows[row]} → {grid.columns[column]}: {count} ({fraction:.1%})"
    yield grid.cell(row, column, title, "main" if correct else "bad", opacity)
    style = text_style(opacity)
    if grid.height >= 36 and grid.width >= LETTER_WIDTH * len(count):
        large = grid.height > 60
        yield grid.cell_text(row, column, count, f"{style} big" if large else style, 0)
        yield grid.cell_text(row, column, f"{fraction:.1%}", style if large else f"{style} small", 18 if large else 13)
    elif grid.height >= 19 and fraction >= 0.005:
        yield grid.cell_text(row, column, f"{100 * fraction:.0f}", f"{style} small", 4)
