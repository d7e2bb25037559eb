"""Options for what a command prints (``--quiet``, ``--json``, ``--debug``), and for its output files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

if TYPE_CHECKING:
    from mergesvm.cli.console import Console

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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", callback=_remember_quiet)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print a traceback on errors.", callback=_remember_debug)]


@dataclass(frozen=True)
class ConsoleOptions:
    """What a command prints."""

    PANEL: ClassVar[str] = "Printing"

    quiet: Quiet = False
    as_json: AsJson = False
    debug: Debug = False

    def console(self, silent: bool = False) -> Console:
        """Create the console of the command; a silent one prints nothing but errors, not even JSON."""
        from mergesvm.cli.console import Console

        return Console(self.quiet or silent, self.as_json and not silent)
