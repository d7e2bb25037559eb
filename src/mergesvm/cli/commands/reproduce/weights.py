"""``mergesvm reproduce weights``: class weights on unbalanced classes."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.commands.reproduce.shared import ReproductionOptions, positive_integers
from mergesvm.cli.console import ConsoleOptions


@command("mergesvm reproduce weights --data folder", "mergesvm reproduce weights --quick")
def weights_command(
    shared: ReproductionOptions,
    printing: ConsoleOptions,
    positives: Annotated[
        str | None,
        typer.Option(help="Numbers of rows of the frequent class, separated by commas; default: those of the paper."),
    ] = None,
    negatives: Annotated[int | None, typer.Option(min=1, help="Number of rows of the rare class.")] = None,
    test: Annotated[int | None, typer.Option(min=1, help="Number of test rows of each class.")] = None,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Number of random draws over which accuracies are averaged.")
    ] = None,
) -> None:
    """Accuracy of class weights on unbalanced classes, table 1 of Zhang and Zhu."""
    from mergesvm.reproduce.weights.weights import FULL, QUICK, Weights

    frequent = positive_integers(positives, "--positives")
    sizes = shared.sizes(FULL, QUICK, frequent=frequent, rare=negatives, test=test, draws=draws)
    shared.run(lambda source, seed: Weights(source, seed, sizes), printing)
