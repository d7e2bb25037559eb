"""``mergesvm subtract``: remove rows from knowledge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mergesvm.cli.command import command
from mergesvm.cli.console import ConsoleOptions, Force, Output
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
    *,
    printing: ConsoleOptions,
) -> None:
    """Subtract knowledge files, as if their rows had never been learned."""
    console = printing.console()
    check_output(output, force)
    paths = expand(parts)
    check_distinct([output], [whole, *paths])
    have_folds([whole, *paths])
    knowledge = open_learned(whole)
    for path in paths:
        try:
            knowledge = knowledge - open_learned(path)
        except KnowledgeError as error:
            raise type(error)(f"Cannot subtract {path} from {whole}. {error}") from None
    knowledge.save(output, overwrite=force)
    console.text(f"What is left: {knowledge}")
    console.written(output)
    console.result(output=output, **knowledge_facts(knowledge))
