"""``mergesvm reproduce cascade``: speedup and efficiency of MPI ranks."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.commands.reproduce.shared import ReproductionOptions, positive_integers
from mergesvm.cli.console import ConsoleOptions


@command("mergesvm reproduce cascade --data folder --ranks 1,2,4,8", "mergesvm reproduce cascade --quick")
def cascade_command(
    shared: ReproductionOptions,
    printing: ConsoleOptions,
    ranks: Annotated[
        str | None,
        typer.Option(help="Numbers of ranks, separated by commas; 1 is always used. Default: 1,2,4,8, or quick 1,2."),
    ] = None,
    positives: Annotated[
        str | None,
        typer.Option(help="Numbers of rows of the frequent class, separated by commas; default: those of the paper."),
    ] = None,
    negatives: Annotated[int | None, typer.Option(min=1, help="Number of rows of the rare class.")] = None,
    hidden: Annotated[
        int | None, typer.Option(min=0, help="Width of the hidden layer of an additional workload; 0 for none.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Repetitions of each timing; the best one counts.")] = None,
) -> None:
    """Speedup and efficiency of MPI ranks that add their sums up a tree, by Zhang and Zhu."""
    from mergesvm.reproduce.cascade.cascade import FULL, QUICK, Cascade

    given = {"ranks": positive_integers(ranks, "--ranks"), "frequent": positive_integers(positives, "--positives")}
    sizes = shared.sizes(FULL, QUICK, **given, rare=negatives, hidden=hidden, repeat=repeat)
    shared.run(lambda source, seed: Cascade(source, seed, sizes), printing)
