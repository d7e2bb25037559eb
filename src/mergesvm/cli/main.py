"""Entry point of the command line: ``mergesvm COMMAND``."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

import mergesvm
from mergesvm.cli import console
from mergesvm.cli.console import FAILED, INTERRUPTED, INVALID_INPUT, TERMINATED, printable
from mergesvm.cli.lazy_group import LazyGroup
from mergesvm.errors import MergeSVMError

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Support vector machines that add, subtract and forget.",
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"mergesvm {mergesvm.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line and exit: 0 success, 1 failure, 2 invalid usage or input, 130 interrupted."""
    # Raise SystemExit on signals, so that temporary files are removed on the way out.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        try:
            app()
        except BrokenPipeError:
            # The reader of a pipe has closed it; keep Python from failing again when it flushes stdout.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(FAILED)
        except (MergeSVMError, OSError, MemoryError) as error:
            _print_error(str(error) or "Out of memory.")
            sys.exit(INVALID_INPUT if isinstance(error, MergeSVMError) else FAILED)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning without its source location."""
    if not console.quiet_requested:
        _print_to_stderr("[yellow]Warning:[/]", str(message))


def _print_error(message: str) -> None:
    if console.debug_requested:
        traceback.print_exc()
    _print_to_stderr("[bold red]Error:[/]", message)


def _print_to_stderr(heading: str, message: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True, soft_wrap=True).print(f"{heading} {escape(printable(message))}", highlight=False)
