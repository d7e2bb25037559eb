"""The command line: ``mergesvm COMMAND``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

import mergesvm
from mergesvm.cli.demo import run_demo
from mergesvm.errors import MergeSVMError

INTERRUPTED = 130
FAILED = 1

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Support vector machines that add, subtract and forget.",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        Console().print(f"mergesvm {mergesvm.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: `mergesvm demo --picture demo.png`")
def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the picture.")] = Path("mergesvm-demo.png"),
    seed: Annotated[int, typer.Option(help="How the rows are dealt to the nodes.")] = 0,
) -> None:
    """Four nodes learn handwritten digits in parallel, are merged, and forgotten in turn: exactly the batch model."""
    run_demo(Console(), picture, seed)


def main() -> None:
    """Run the command line, with an exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    # An interrupt unwinds like any error, so that nothing half-written stays behind.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    try:
        app()
    except (MergeSVMError, OSError) as error:
        Console(stderr=True).print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False)
        sys.exit(FAILED)
