"""What all reproductions share: options, printing of tables, and the picture."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from mergesvm.cli.console import NO_MATPLOTLIB, Console, ConsoleOptions
from mergesvm.cli.outputs import check_output
from mergesvm.errors import ParameterError
from mergesvm.reports.figures import SUFFIXES, save_figure

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from mergesvm.reproduce.paper_data import Source
    from mergesvm.reproduce.reproduction import Reproduction
    from mergesvm.reproduce.tables import ResultTable

    Sizes = TypeVar("Sizes", bound=DataclassInstance)

QUICK_REMARK = "A quick run has few rows and steps: its numbers cannot be compared with those of the paper."
TABLE_WIDTH = 118
"""Width of the tables in characters."""


@dataclass(frozen=True)
class ReproductionOptions:
    """The options of all reproductions."""

    data: Annotated[
        Path | None,
        typer.Option(help="Folder of data sets; default: MERGESVM_DATA, else OpenML, or with --quick scikit-learn."),
    ] = None
    quick: Annotated[bool, typer.Option("--quick", help="Few rows and steps, to see in seconds that it runs.")] = False
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything that is drawn at random.")] = 0
    picture: Annotated[
        Path | None, typer.Option(help="File for the picture; default: mergesvm-NAME.png of the reproduction.")
    ] = None

    def run(self, create: Callable[[Source, int], Reproduction], printing: ConsoleOptions) -> None:
        """Create the reproduction from rows and seed, run it, and print its tables as they are ready."""
        from mergesvm.reproduce.paper_data import Source

        reproduction = create(Source.of(self.data, self.quick), self.seed)
        picture = self.picture or Path(f"mergesvm-{reproduction.name}.png")
        check_output(picture, True, *SUFFIXES)
        console = printing.console()
        for table in reproduction.tables(lambda text: _status(console, text)):
            _print_table(console, table)
        remarks = [*([QUICK_REMARK] if self.quick else []), *reproduction.remarks()]
        console.text(*(fill(remark, TABLE_WIDTH, initial_indent="- ", subsequent_indent="  ") for remark in remarks))
        saved = save_figure(picture, reproduction.size, reproduction.n_axes, reproduction.draw)
        console.text(f"The picture is in {picture}." if saved else NO_MATPLOTLIB)
        written = str(picture) if saved else None
        console.result(**reproduction.figures(), seed=self.seed, quick=self.quick, picture=written)

    def sizes(self, full: Sizes, quick: Sizes, **given: Any) -> Sizes:
        """The sizes of a full or quick run, with those that were given as options."""
        chosen = {name: value for name, value in given.items() if value is not None}
        return replace(quick if self.quick else full, **chosen)


def positive_integers(text: str | None, option: str) -> tuple[int, ...] | None:
    """Parse positive integers separated by commas; None stays None.

    >>> positive_integers("1,2,4", "--ranks")
    (1, 2, 4)
    """
    if text is None:
        return None
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise ParameterError(f"{option} must be positive integers separated by commas. Got {text!r}.")
    return numbers


def _status(console: Console, text: str) -> AbstractContextManager[Any]:
    from rich.console import Console as RichConsole

    return RichConsole(stderr=True, quiet=console.silent).status(text)


def _print_table(console: Console, table: ResultTable) -> None:
    from rich.table import Table

    shown = Table()
    for column in table.columns:
        shown.add_column(column, justify="left" if column in table.text_columns else "right")
    for row in table.rows:
        shown.add_row(*row)
    console.text(fill(table.title, TABLE_WIDTH))
    console.table(shown, TABLE_WIDTH)
    if table.note:
        console.text(table.note)
