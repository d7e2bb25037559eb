"""The command line: ``mergesvm COMMAND``."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

import mergesvm
from mergesvm.cli import options
from mergesvm.cli.commands.calibrate import calibrate_command
from mergesvm.cli.commands.demo import run_demo
from mergesvm.cli.commands.inspect import inspect_command
from mergesvm.cli.commands.knowing import learn_command, merge_command, subtract_command
from mergesvm.cli.commands.map import plan_command
from mergesvm.cli.commands.predicting import evaluate_command, predict_command
from mergesvm.cli.commands.report import report_command
from mergesvm.cli.commands.reproduce import reproduce_command
from mergesvm.cli.commands.solve import solve_command
from mergesvm.cli.commands.stream import stream_command
from mergesvm.cli.console import printable
from mergesvm.errors import MergeSVMError

FAILED, WRONG, INTERRUPTED, TERMINATED = 1, 2, 130, 143

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


COMMANDS: dict[str, tuple[Callable[..., None], *tuple[str, ...]]] = {
    "plan": (plan_command, "mergesvm plan day1.parquet --label y --features fourier:4000 -o plan.features"),
    "learn": (
        learn_command,
        "mergesvm learn day1.parquet --label y -o day1.knowledge",
        "mergesvm learn day1.parquet --label y --folds 5 -o folds.knowledge",
    ),
    "merge": (merge_command, "mergesvm merge day1.knowledge day2.knowledge -o all.knowledge"),
    "subtract": (subtract_command, "mergesvm subtract all.knowledge day1.knowledge -o rest.knowledge"),
    "solve": (
        solve_command,
        "mergesvm solve rest.knowledge --C 10 --class-weight complement --multiclass ovo -o model.msvm",
        "mergesvm solve folds.knowledge --C auto --class-weight auto -o chosen.msvm",
        "mergesvm solve 'day*.knowledge' --C auto -o chosen.msvm",
    ),
    "report": (report_command, "mergesvm report 'day*.knowledge' -o answers.html"),
    "stream": (stream_command, "mergesvm stream day1.parquet --label y --picture accuracy.png"),
    "calibrate": (calibrate_command, "mergesvm calibrate model.msvm heldout.parquet --label y -o calibrated.msvm"),
    "predict": (predict_command, "mergesvm predict model.msvm new.csv -o predictions.parquet"),
    "evaluate": (evaluate_command, "mergesvm evaluate model.msvm test.parquet --label y --report report.html"),
    "inspect": (inspect_command, "mergesvm inspect model.msvm"),
}
"""All commands but the demo, each with examples that work."""

for _name, (_command, *_examples) in COMMANDS.items():
    app.command(_name, epilog="\n\n".join(f"Example: `{example}`" for example in _examples))(_command)
app.add_typer(reproduce_command, name="reproduce")


def main() -> None:
    """Run the command line, with an exit code: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted."""
    # An interrupt unwinds like any error, so that nothing half-written stays behind.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(INTERRUPTED))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            app()
        except BrokenPipeError:
            # Who reads the output has gone, which is their right.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(FAILED)
        except (MergeSVMError, OSError, MemoryError) as error:
            _complain(str(error) or "There is not enough memory.")
            sys.exit(WRONG if isinstance(error, MergeSVMError) else FAILED)


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Say a warning as people are told things, and not with the line of a program that they have not written."""
    if not options.quieted:
        Console(stderr=True, soft_wrap=True).print(
            f"[yellow]Warning:[/] {escape(printable(str(message)))}", highlight=False
        )


def _complain(what: str) -> None:
    if options.debugging:
        traceback.print_exc()
    Console(stderr=True, soft_wrap=True).print(f"[bold red]Error:[/] {escape(printable(what))}", highlight=False)
