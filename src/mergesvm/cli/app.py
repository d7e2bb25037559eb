"""The command line application: its root command, and how errors and warnings are shown.

Exit codes: 0 success, 1 failure such as a full disk, 2 invalid usage or input, 70 an unexpected error, 130 interrupted
(Ctrl-C), 143 terminated.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Annotated, Any

import typer

import mergesvm
from mergesvm.cli import console, streams
from mergesvm.cli.console import FAILED, INVALID_INPUT, UNEXPECTED, printable
from mergesvm.cli.lazy_group import LazyGroup
from mergesvm.errors import MergeSVMError

DEBUG_VARIABLE = "MERGESVM_DEBUG"

MAX_MESSAGE_LENGTH = 500
"""Longer messages of unexpected errors are cut."""

app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Support vector machines that add, subtract and forget.",
    epilog=f"Exit codes: 0 success, {FAILED} failure such as a full disk, {INVALID_INPUT} invalid usage or input, "
    f"{UNEXPECTED} an unexpected error, 130 interrupted, 143 terminated.",
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


def run() -> None:
    """Run the command that the arguments name, and exit; errors are shown in one line."""
    with warnings.catch_warnings():
        warnings.showwarning = _print_warning
        try:
            try:
                app()
            finally:
                streams.flush()
        except BrokenPipeError:  # the reader of a pipe has closed it
            sys.exit(FAILED)
        except (MergeSVMError, OSError, MemoryError) as error:
            _print_error(str(error) or "Out of memory.")
            sys.exit(INVALID_INPUT if isinstance(error, MergeSVMError) else FAILED)
        except Exception as error:  # noqa: BLE001 - the last resort
            message = " ".join(str(error).split())[:MAX_MESSAGE_LENGTH]
            _print_error(
                f"Unexpected {type(error).__name__}: {message} - please report this with the traceback, which "
                f"{DEBUG_VARIABLE}=1 shows."
            )
            sys.exit(UNEXPECTED)


def _print_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning without its source location."""
    if not console.quiet_requested:
        _print_to_stderr("[yellow]Warning:[/]", str(message))


def _print_error(message: str) -> None:
    if console.debug_requested or os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc()
    _print_to_stderr("[bold red]Error:[/]", message)


def _print_to_stderr(heading: str, message: str) -> None:
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True, soft_wrap=True).print(f"{heading} {escape(printable(message))}", highlight=False)
