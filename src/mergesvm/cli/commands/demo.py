"""``mergesvm demo``: learn in parallel, merge, forget and solve again, on real data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.console import Console


@command("mergesvm demo --picture demo.png")
def demo_command(
    picture: Annotated[
        Path, typer.Option(help="A .png, .svg or .pdf file for the plots; an existing file is overwritten.")
    ] = Path("mergesvm-demo.png"),
    seed: Annotated[int, typer.Option(help="Seed of the split into nodes and test rows.")] = 0,
) -> None:
    """Learn handwritten digits on four nodes, merge them and forget each in turn, exactly."""
    from mergesvm.cli.digits_demo import run_demo

    run_demo(Console(), picture, seed)
