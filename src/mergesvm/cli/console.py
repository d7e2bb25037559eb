"""How commands speak: to people, to machines, or not at all; and how they show that something is going on."""

from __future__ import annotations

import json
import sys
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from mergesvm.data.scan import Scan
from mergesvm.errors import ExistingFileError, MissingFolderError, ParameterError

PATIENCE_SECONDS = 1.0
"""Work that takes longer than this shows its progress."""


class Console:
    """The voice of one command.

    Parameters
    ----------
    quiet : bool
        Say nothing but errors.
    as_json : bool
        Say one JSON object, and nothing else.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = RichConsole(quiet=quiet or as_json, highlight=False, soft_wrap=True)
        self.silent = quiet or as_json
        self._began = time.perf_counter()

    def table(self, table: Table, width: int) -> None:
        """Show a table that needs so much room, whatever the terminal says."""
        RichConsole(quiet=self.silent, highlight=False, width=max(self.out.width, width)).print(table)

    def result(self, **values: Any) -> None:
        """Tell a machine what came out."""
        if self.as_json:
            seconds = round(time.perf_counter() - self._began, 3)
            sys.stdout.write(json.dumps({**values, "seconds": seconds}, default=str) + "\n")

    @contextmanager
    def progress(self, what: str) -> Iterator[Any]:
        """A function to be called after each slice of a scan, which shows how far it is once that takes long."""
        console = RichConsole(stderr=True)
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        task = bar.add_task(what, total=1.0, rows="")
        began = time.perf_counter()
        wanted = not self.silent and console.is_terminal

        def update(scan: Scan) -> None:
            elapsed = time.perf_counter() - began
            if wanted and elapsed > PATIENCE_SECONDS:
                bar.start()  # does nothing the second time
                # Workers elsewhere tell how far they are, and their rows only when they are done.
                rows = f"{scan.rows:,} rows, {scan.rows / elapsed:,.0f} rows/s" if scan.rows else ""
                bar.update(task, completed=scan.share, rows=rows)

        try:
            yield update
        finally:
            if bar.live.is_started:
                bar.stop()


def check_output(path: Path | None, force: bool, *suffixes: str) -> None:
    """Say before the work what would make its result impossible to write."""
    if path is None:
        return
    if suffixes and path.suffix.lower() not in suffixes:
        raise ParameterError(f"{path} has to end in {' or '.join(suffixes)}.")
    if not path.parent.is_dir():
        raise MissingFolderError(f"There is no folder {path.parent} to write {path.name} to. Create it first.")
    if path.is_dir():
        raise ParameterError(f"{path} is a folder. Give the name of a file.")
    if path.exists() and not force:
        raise ExistingFileError(f"{path} is there already. Choose another name, or --force to replace it.")


def printable(text: object) -> str:
    r"""Text that a terminal shows and does not obey: control characters and the like are written as escapes.

    >>> printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(
        letter.encode("unicode_escape", "backslashreplace").decode()
        if letter != "\n" and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else letter
        for letter in str(text)
    )


def said(value: float) -> str:
    """A number as people read it.

    >>> said(1234567), said(0.25)
    ('1,234,567', '0.25')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
