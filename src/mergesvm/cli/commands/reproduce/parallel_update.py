"""``mergesvm reproduce parallel-update``: convergence of the parallel update, and the active-set algorithm."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.commands.reproduce.shared import ReproductionOptions, positive_integers
from mergesvm.cli.console import ConsoleOptions


@command("mergesvm reproduce parallel-update --data folder", "mergesvm reproduce parallel-update --quick")
def parallel_update_command(
    shared: ReproductionOptions,
    printing: ConsoleOptions,
    rows: Annotated[int | None, typer.Option(min=10, help="Number of rows for the gradient experiments.")] = None,
    max_iter: Annotated[
        int | None, typer.Option(min=10, help="Largest number of iterations of the gradient experiments.")
    ] = None,
    units: Annotated[
        str | None, typer.Option(help="Numbers of units for the active-set algorithm, separated by commas.")
    ] = None,
    limits: Annotated[
        str | None, typer.Option(help="Largest numbers of support vectors, separated by commas; from 2.")
    ] = None,
) -> None:
    """Convergence by step, units and beta, and traffic and accuracy, of Alpcan and Bauckhage."""
    from mergesvm.reproduce.parallel_update.parallel_update import FULL, QUICK, ParallelUpdate

    given = {"units": positive_integers(units, "--units"), "limits": positive_integers(limits, "--limits")}
    sizes = shared.sizes(FULL, QUICK, rows=rows, max_iter=max_iter, **given)
    shared.run(lambda source, seed: ParallelUpdate(source, seed, sizes), printing)
