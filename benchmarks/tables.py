"""Tables of the benchmarks."""

from __future__ import annotations

from rich.table import Table


def table(title: str, *columns: str) -> Table:
    """A table with a title on the left, a first column of text, and columns of numbers."""
    shown = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        shown.add_column(column, justify="right" if index else "left")
    return shown
