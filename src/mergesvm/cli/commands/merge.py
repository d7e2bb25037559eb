"""``mergesvm merge``: add knowledge files."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

import mergesvm as ms
from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, ForcePieces, Output
from mergesvm.cli.open_files import expand, have_folds, open_folds, open_pieces
from mergesvm.cli.outputs import check_distinct, check_output
from mergesvm.reports.knowledge_facts import knowledge_facts


@command("mergesvm merge day1.knowledge day2.knowledge -o all.knowledge")
def merge_command(
    pieces: Annotated[list[str], typer.Argument(help="Knowledge files or quoted globs.", metavar="PIECES...")],
    output: Output,
    force: Force = False,
    force_pieces: ForcePieces = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Merge knowledge files into the knowledge of all their rows together.

    A piece that is inside two of them is refused, because its rows would count twice.
    """
    from mergesvm.knowledge.algebra import merge_stream

    console = printing.console()
    check_output(output, force)
    paths = expand(pieces)
    check_distinct([output], paths)
    opened: Any = open_folds(paths) if have_folds(paths) else open_pieces(paths)
    # Files are added as they are read, so that only a few are in memory at a time.
    opened = console.tracked(opened, len(paths), "merging")
    knowledge: Any = merge_stream(opened, partial(ms.merge, force=force_pieces))
    knowledge.save(output, overwrite=force)
    console.text(f"{len(paths)} pieces merged: {knowledge}")
    console.written(output)
    console.result(output=output, pieces=len(paths), **knowledge_facts(knowledge))
