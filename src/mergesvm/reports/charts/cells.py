"""What charts made of coloured cells have in common: the grid of cells, and the names of its rows and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from mergesvm.reports.charts.plot_area import LETTER_WIDTH, LINE_HEIGHT
from mergesvm.reports.charts.svg import element
from mergesvm.reports.formatting import plain

MAX_COLUMN_LETTERS = 16


@dataclass(frozen=True)
class CellGrid:
    """A grid of cells of equal size, with names to the left and above.

    Attributes
    ----------
    rows, columns : sequence of str
    width, height : float
        Of a cell.
    row_letters : int
        The most letters of a name of a row.
    above : float
        Room above the names of the columns.
    """

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


def text_style(opacity: float) -> str:
    """The colour of text that is readable on a cell of this opacity."""
    return "on" if opacity > 0.82 else "mid" if opacity > 0.6 else "name"
