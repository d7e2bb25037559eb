"""What commands print: text, tables and progress bars for people, or JSON for programs; and the options for it."""

from __future__ import annotations

import json
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.table import Table

Item = TypeVar("Item")

PROGRESS_DELAY_SECONDS = 1.0
"""Work that takes longer than this shows its progress."""

NO_MATPLOTLIB = "No picture: matplotlib is not installed. Install it with: pip install 'mergesvm[plots]'"

FAILED, INVALID_INPUT, UNEXPECTED = 1, 2, 70
"""Exit codes. 2 is also what typer uses for unknown commands and options; 70 is EX_SOFTWARE of sysexits.h."""

debug_requested = False
quiet_requested = False


def _remember_debug(requested: bool) -> bool:
    global debug_requested
    debug_requested = debug_requested or requested
    return requested


def _remember_quiet(requested: bool) -> bool:
    global quiet_requested
    quiet_requested = requested
    return requested


Model = Annotated[Path, typer.Argument(help="Model file.", metavar="MODEL")]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing output files.")]
ForcePieces = Annotated[
    bool,
    typer.Option(
        "--force-pieces",
        help="Merge a piece that is inside already, or subtract one that is not, such as single rows.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", callback=_remember_quiet)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print a traceback on errors.", callback=_remember_debug)]


@dataclass(frozen=True)
class Progress:
    """The fraction of the work that is done, in the form a progress bar takes."""

    fraction: float
    rows: int = 0


class Console:
    """The output of one command: text for people, one JSON object, or nothing but errors if quiet."""

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.as_json = as_json
        self.silent = quiet or as_json
        self._start = time.perf_counter()

    @cached_property
    def out(self) -> RichConsole:
        """The rich console for standard output, which does nothing if this console is silent."""
        from rich.console import Console as RichConsole

        return RichConsole(quiet=self.silent, highlight=False, soft_wrap=True)

    def text(self, *lines: str) -> None:
        """Print plain text, without interpreting markup or terminal control characters."""
        if not self.silent:
            sys.stdout.write(printable("\n".join(lines)) + "\n")

    def written(self, *paths: Path | None) -> None:
        """Print which files were written; None stands for a file that was not requested."""
        names = [str(path) for path in paths if path is not None]
        if names:
            self.text(f"written to {' and '.join(names)}")

    def table(self, table: Table, width: int) -> None:
        """Print a table at least this many characters wide, whatever the width of the terminal."""
        from rich.console import Console as RichConsole

        RichConsole(quiet=self.silent, highlight=False, width=max(self.out.width, width)).print(table)

    def result(self, **values: Any) -> None:
        """Print the result as JSON, if that was requested."""
        if self.as_json:
            seconds = round(time.perf_counter() - self._start, 3)
            sys.stdout.write(json.dumps({**values, "seconds": seconds}, default=str) + "\n")

    @contextmanager
    def progress(self, description: str) -> Iterator[Callable[[Any], None]]:
        """A function to call after each slice of a scan; it shows a progress bar once that takes long."""
        if self.silent or not sys.stderr.isatty():
            yield lambda _: None
            return
        with _progress_bar(description) as update:
            yield update

    @contextmanager
    def status(self, text: str) -> Iterator[Callable[[str], None]]:
        """A line about work that takes long, on a terminal, and a function to change its text."""
        from rich.console import Console as RichConsole

        line = RichConsole(stderr=True, quiet=self.silent).status(text)
        delayed = threading.Timer(PROGRESS_DELAY_SECONDS, line.start)
        delayed.daemon = True
        delayed.start()
        try:
            yield line.update
        finally:
            delayed.cancel()
            delayed.join()
            line.stop()

    def tracked(self, items: Iterable[Item], count: int, description: str) -> Iterator[Item]:
        """Yield items, with a progress bar once that takes long."""
        with self.progress(description) as progress:
            for number, item in enumerate(items):
                progress(Progress(number / count))
                yield item


@dataclass(frozen=True)
class ConsoleOptions:
    """What a command prints."""

    PANEL: ClassVar[str] = "Printing"

    quiet: Quiet = False
    as_json: AsJson = False
    debug: Debug = False

    def console(self, silent: bool = False) -> Console:
        """Create the console of the command; a silent one prints nothing but errors, not even JSON."""
        return Console(self.quiet or silent, self.as_json and not silent)


@contextmanager
def _progress_bar(description: str) -> Iterator[Callable[[Any], None]]:
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]}"),
        TimeRemainingColumn(),
        console=RichConsole(stderr=True),
        transient=True,
    )
    task = bar.add_task(description, total=1.0, rows="")
    start = time.perf_counter()

    def update(scan: Any) -> None:
        elapsed = time.perf_counter() - start
        if elapsed > PROGRESS_DELAY_SECONDS:
            bar.start()  # no effect if it has started
            # Remote workers report their progress, but their rows only at the end.
            rows = f"{scan.rows:,} rows, {scan.rows / elapsed:,.0f} rows/s" if scan.rows else ""
            bar.update(task, completed=scan.fraction, rows=rows)

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


def numeric_table(first: str, *columns: str, texts: Sequence[str] = ()) -> Table:
    """A table whose columns are aligned to the right, except the first and those listed as texts."""
    from rich.table import Table

    table = Table(first)
    for column in columns:
        table.add_column(column, justify="left" if column in texts else "right")
    return table


def printable(text: object) -> str:
    r"""Text with control characters escaped, so that a terminal shows them instead of obeying them.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        letter.encode("unicode_escape", "backslashreplace").decode()
        if letter != "\n" and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else letter
        for letter in str(text)
    )


def table_cell(text: object) -> str:
    """Text for a cell of a rich table, with markup and control characters escaped."""
    from rich.markup import escape

    return escape(printable(text))


def short_number(value: float) -> str:
    """A number for people: whole numbers in full, others with four digits.

    >>> short_number(1234567), short_number(0.25)
    ('1,234,567', '0.25')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def dropped_rows(count: int) -> str:
    """A remark on rows dropped for missing values; empty if there are none.

    >>> dropped_rows(3)
    ', 3 rows with missing values dropped'
    """
    return f", {count:,} rows with missing values dropped" if count else ""
