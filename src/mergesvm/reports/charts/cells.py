"""Charts of coloured cells: maps of numbers, and confusion matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mergesvm.reports.charts.svg import LETTER_WIDTH, LINE_HEIGHT, element, svg
from mergesvm.reports.formatting import number, plain

MAX_COLUMN_LETTERS = 16
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
            parts.append(grid.cell_text(row, column, shown, f"{_text_style(opacity)} small", 4))
    return svg(parts, *grid.size, label)


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
    style = _text_style(opacity)
    if grid.height >= 36 and grid.width >= LETTER_WIDTH * len(count):
        large = grid.height > 60
        yield grid.cell_text(row, column, count, f"{style} big" if large else style, 0)
        yield grid.cell_text(row, column, f"{fraction:.1%}", style if large else f"{style} small", 18 if large else 13)
    elif grid.height >= 19 and fraction >= 0.005:
        yield grid.cell_text(row, column, f"{100 * fraction:.0f}", f"{style} small", 4)


@dataclass(frozen=True)
class CellGrid:
    """A grid of cells of equal size, with names of at most ``row_letters`` to the left, and names above."""

    rows: Sequence[str]
    columns: Sequence[str]
    width: float
    height: float
    row_letters: int = 16
    above: float = 8.0

    @property
    def left(self) -> float:
        """Where the cells begin, to the right of the names of the rows."""
        return min(max([len(name) for name in self.rows] + [4]), self.row_letters) * LETTER_WIDTH + 10

    @property
    def _upright(self) -> bool:
        """Whether the names of columns are turned, because they are wider than a cell."""
        return self._longest * LETTER_WIDTH > self.width - 1

    @property
    def _longest(self) -> int:
        return max([len(name) for name in self.columns] + [1])

    @property
    def top(self) -> float:
        """Where the cells begin, below the names of the columns."""
        names = min(self._longest, MAX_COLUMN_LETTERS) * LETTER_WIDTH if self._upright else LINE_HEIGHT
        return names + self.above

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the chart."""
        return self.left + self.width * len(self.columns) + 4, self.top + self.height * len(self.rows) + 4

    def corner(self, row: int, column: int) -> tuple[float, float]:
        """The upper left corner of a cell."""
        return self.left + self.width * column, self.top + self.height * row

    def draw(self, style: str = "name", warned_from: int | None = None) -> Iterator[Markup]:
        """The background and the names; rows from ``warned_from`` on have names in the colour of warnings."""
        width, height = self.width * len(self.columns), self.height * len(self.rows)
        yield element("rect", x=self.left, y=self.top, width=width, height=height, class_="empty")
        for at, name in enumerate(self.rows):
            place = {"x": self.left - 8, "y": self.top + self.height * (at + 0.5) + 4, "text_anchor": "end"}
            kind = style.replace("name", "warn") if warned_from is not None and at >= warned_from else style
            yield element("text", element("title", name), plain(name, self.row_letters), class_=kind, **place)
        for at, name in enumerate(self.columns):
            x_at, y_at = self.left + self.width * (at + 0.5), self.top - 8
            if self._upright:
                turn = {"transform": f"rotate(-90 {x_at + 4:g} {y_at:g})", "x": x_at + 4, "text_anchor": "start"}
            else:
                turn = {"x": x_at, "text_anchor": "middle"}
            text = plain(name, MAX_COLUMN_LETTERS)
            yield element("text", element("title", name), text, y=y_at, class_=style, **turn)

    def cell(self, row: int, column: int, title: str, style: str, opacity: float) -> Markup:
        """A coloured cell with a tooltip."""
        x_at, y_at = self.corner(row, column)
        box = {"x": x_at + 0.5, "y": y_at + 0.5, "width": self.width - 1, "height": self.height - 1}
        return element("rect", element("title", title), class_=f"cell fill {style}", fill_opacity=opacity, **box)

    def cell_text(self, row: int, column: int, text: str, style: str, below_middle: float) -> Markup:
        """Text in the middle of a cell."""
        x_at, y_at = self.corner(row, column)
        place = {"x": x_at + self.width / 2, "y": y_at + self.height / 2 + below_middle}
        return element("text", text, class_=style, text_anchor="middle", pointer_events="none", **place)


def _text_style(opacity: float) -> str:
    """The colour of text that is readable on a cell of this opacity."""
    return "on" if opacity > 0.82 else "mid" if opacity > 0.6 else "name"


def _short(value: float) -> str:
    """About three digits."""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"
