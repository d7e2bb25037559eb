"""``mergesvm reproduce recursive``: recursive least squares beside other linear methods."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.commands.reproduce.shared import ReproductionOptions
from mergesvm.cli.console import ConsoleOptions
from mergesvm.cli.parsing import as_numbers
from mergesvm.errors import ParameterError


@command("mergesvm reproduce recursive --data folder", "mergesvm reproduce recursive --quick")
def recursive_command(
    shared: ReproductionOptions,
    printing: ConsoleOptions,
    Cs: Annotated[
        str | None, typer.Option("--Cs", help="Values of C, separated by commas; default: 1e-4 to 1e4.")
    ] = None,
    sweep_rows: Annotated[
        int | None, typer.Option(min=10, help="Largest number of training rows for which values of C are compared.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Repetitions of each timing; the best one counts.")] = None,
) -> None:
    """One pass of recursive least squares, by Cassioli and others, beside three linear methods."""
    from mergesvm.reproduce.recursive.recursive import FULL, QUICK, Recursive

    values = None if Cs is None else tuple(as_numbers(Cs, "--Cs"))
    if values is not None and not all(0 < value < float("inf") for value in values):
        raise ParameterError(f"--Cs must be positive numbers separated by commas. Got {Cs!r}.")
    sizes = shared.sizes(FULL, QUICK, Cs=values, sweep_rows=sweep_rows, repeat=repeat)
    shared.run(lambda source, seed: Recursive(source, seed, sizes), printing)
