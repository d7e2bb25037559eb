"""``mergesvm reproduce democratic``: Pegasos one-vs-one by vote."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.commands.reproduce.shared import ReproductionOptions, positive_integers
from mergesvm.cli.console import ConsoleOptions


@command(
    "mergesvm reproduce democratic --data folder --only mnist",
    "mergesvm reproduce democratic --data folder --only emnist --lambda 1e-3",
)
def democratic_command(
    shared: ReproductionOptions,
    printing: ConsoleOptions,
    only: Annotated[str | None, typer.Option(help="mnist, fashion or emnist, separated by commas.")] = None,
    steps: Annotated[
        str | None, typer.Option(help="Numbers of steps per pair, separated by commas; default: those of the paper.")
    ] = None,
    strength: Annotated[
        float | None,
        typer.Option(
            "--lambda",
            help="Weight of the coefficients, which the paper does not state; default: chosen on held-out training "
            "rows.",
        ),
    ] = None,
    C: Annotated[float, typer.Option("--C", "-C", help="C of the closed form.")] = 1.0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads of the parallel run; default: one per core.")
    ] = None,
) -> None:
    """Pegasos for each pair of classes and a vote, by Vieira and Lerena, beside the closed form."""
    from mergesvm.reproduce.democratic.democratic import FULL, QUICK, Democratic
    from mergesvm.reproduce.paper_data import chosen_data

    chosen = chosen_data(only)
    sizes = shared.sizes(FULL, QUICK, steps=positive_integers(steps, "--steps"))
    shared.run(lambda source, seed: Democratic(source, seed, sizes, chosen, strength, C, workers), printing)
