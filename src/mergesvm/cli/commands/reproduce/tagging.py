"""``mergesvm reproduce tagging``: animals found in pictures by brush strokes on others."""

from __future__ import annotations

from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.commands.reproduce.shared import ReproductionOptions
from mergesvm.cli.console import ConsoleOptions


@command("mergesvm reproduce tagging --data folder", "mergesvm reproduce tagging --quick")
def tagging_command(
    shared: ReproductionOptions,
    printing: ConsoleOptions,
    pairs: Annotated[int | None, typer.Option(min=1, help="Pairs of tagged pictures for each kind of animal.")] = None,
) -> None:
    """Animals found by brush strokes on one or two pictures, figures 3 and 4 of Alpcan and Bauckhage."""
    from mergesvm.reproduce.tagging.tagging import FULL, QUICK, Tagging

    sizes = shared.sizes(FULL, QUICK, pairs=pairs)
    shared.run(lambda source, seed: Tagging(source, seed, sizes), printing)
