"""``mergesvm subtract``: remove rows from knowledge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import mergesvm as ms
from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, ForcePieces, Output
from mergesvm.cli.open_files import expand, have_folds, open_learned
from mergesvm.cli.outputs import check_distinct, check_output
from mergesvm.errors import KnowledgeError
from mergesvm.reports.knowledge_facts import knowledge_facts


@command("mergesvm subtract all.knowledge day1.knowledge -o rest.knowledge")
def subtract_command(
    whole: Annotated[Path, typer.Argument(help="Knowledge file to subtract from.", metavar="WHOLE")],
    parts: Annotated[list[str], typer.Argument(help="Knowledge files to subtract.", metavar="PARTS...")],
    output: Output,
    force: Force = False,
    force_pieces: ForcePieces = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Subtract knowledge files, as if their rows had never been learned.

    A piece that is not inside, or no longer, is refused. --force-pieces retires rows of a larger piece that were
    learned again; the provenance then lists them as retired.
    """
    from mergesvm.knowledge.algebra import merge_stream

    console = printing.console()
    check_output(output, force)
    paths = expand(parts)
    check_distinct([output], [whole, *paths])
    have_folds([whole, *paths])
    knowledge: Any = open_learned(whole)
    try:  # all at once, because each subtraction takes as long as there are pieces inside
        part: Any = merge_stream(console.tracked(map(open_learned, paths), len(paths), "subtracting"), ms.merge)
        knowledge = ms.subtract(knowledge, part, force=force_pieces)
    except KnowledgeError:
        for path in paths:  # one by one, to name the file
            try:
                knowledge = ms.subtract(knowledge, open_learned(path), force=force_pieces)
            except KnowledgeError as error:
                raise type(error)(f"Cannot subtract {path} from {whole}. {error}") from None
    knowledge.save(output, overwrite=force)
    console.text(f"What is left: {knowledge}")
    console.written(output)
    console.result(output=output, **knowledge_facts(knowledge))
