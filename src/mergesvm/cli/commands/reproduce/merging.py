"""``mergesvm reproduce merging``: merged and batch training of streams."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.commands.reproduce.shared import ReproductionOptions, positive_integers
from mergesvm.cli.console import ConsoleOptions


@command("mergesvm reproduce merging --data folder", "mergesvm reproduce merging --quick --only mnist")
def merging_command(
    shared: ReproductionOptions,
    printing: ConsoleOptions,
    only: Annotated[str | None, typer.Option(help="adult, mnist or covertype, separated by commas.")] = None,
    slices: Annotated[int | None, typer.Option(min=1, help="Number of slices of the stream.")] = None,
    hidden: Annotated[int | None, typer.Option(min=1, help="Number of units of the hidden layer.")] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Numbers of nodes, separated by commas; 1 is always used. Default: 1,2,4,8.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Repetitions of each timing; the best one counts.")] = None,
) -> None:
    """Merged and batch training of a stream in slices, by Zhu, Ikeda, Pang, Ban and Sarrafzadeh."""
    from mergesvm.reproduce.merging.merging import FULL, QUICK, Merging
    from mergesvm.reproduce.paper_data import STREAMS, chosen_data

    chosen, numbers = chosen_data(only, STREAMS), positive_integers(nodes, "--nodes")
    numbers = numbers and tuple(sorted({1, *numbers}))
    sizes = shared.sizes(FULL, QUICK, slices=slices, hidden=hidden, nodes=numbers, repeat=repeat)
    shared.run(lambda source, seed: Merging(source, seed, sizes, chosen), printing)
