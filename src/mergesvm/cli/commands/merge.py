"""``mergesvm merge``: add knowledge files."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Annotated, Any

import typer

from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, Output
from mergesvm.cli.open_files import expand, have_folds, open_folds, open_pieces
from mergesvm.cli.outputs import check_distinct, check_output
from mergesvm.reports.knowledge_facts import knowledge_facts


@command("mergesvm merge day1.knowledge day2.knowledge -o all.knowledge")
def merge_command(
    pieces: Annotated[list[str], typer.Argument(help="Knowledge files or quoted globs.", metavar="PIECES...")],
    output: Output,
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Merge knowledge files into the knowledge of all their rows together."""
    from mergesvm.knowledge.algebra import merge_stream

    console = printing.console()
    check_output(output, force)
    paths = expand(pieces)
    check_distinct([output], paths)
    # Both ways add files as they are read, so that only a few are in memory at a time.
    knowledge: Any = reduce(add, open_folds(paths)) if have_folds(paths) else merge_stream(open_pieces(paths))
    knowledge.save(output, overwrite=force)
    console.text(f"{len(paths)} pieces merged: {knowledge}")
    console.written(output)
    console.result(output=output, pieces=len(paths), **knowledge_facts(knowledge))
