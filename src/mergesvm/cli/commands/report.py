"""``mergesvm report``: an HTML page computed from knowledge alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import mergesvm as ms
from mergesvm.cli.command import Fields, command
from mergesvm.cli.console import Console, ConsoleOptions, Force, Output, Progress
from mergesvm.cli.model_options import ModelOptions
from mergesvm.cli.open_files import expand, have_folds, open_folds, open_pieces
from mergesvm.cli.outputs import check_distinct, check_output
from mergesvm.errors import MissingFileError, ParameterError

if TYPE_CHECKING:
    from mergesvm.reports.answers import Answers

KNOWLEDGE_SUFFIX = ".knowledge"
"""The files to read from a folder."""

MAX_PIECES_NAMED = 5


@command("mergesvm report 'day*.knowledge' -o answers.html")
def report_command(
    knowledge: Annotated[
        list[str],
        typer.Argument(
            help="Knowledge files, with or without folds, folders of them, or quoted globs. Several files are pieces "
            "to compare.",
            metavar="KNOWLEDGE...",
        ),
    ],
    output: Output,
    options: Annotated[ModelOptions, Fields(C="auto")],
    level: Annotated[float, typer.Option(help="Significance level of the tests for drift between pieces.")] = 0.01,
    force: Force = False,
    *,
    printing: ConsoleOptions,
) -> None:
    """Write an HTML report computed from knowledge alone: best C, expected accuracy, drift and more."""
    from mergesvm.reports.as_json import answers_facts
    from mergesvm.reports.write import SUFFIXES

    console = printing.console()
    check_output(output, force, *SUFFIXES)
    paths = _files(knowledge)
    check_distinct([output], paths)
    with console.progress("reporting") as progress:
        pieces = _open_named(paths)
        labels = tuple(dict.fromkeys(label for piece in pieces.values() for label in piece.labels))
        answers = ms.report(
            pieces,
            output,
            C=options.number_or_auto(),
            class_weight=options.weights(labels),
            multiclass=options.multiclass,
            **options.fixed,
            level=level,
            title=f"{_title(knowledge, list(pieces))}: report without data",
            facts={"Knowledge": ", ".join(knowledge)},
            overwrite=force,
            progress=lambda fraction: progress(Progress(fraction)),
        )
    assert answers is not None
    _print_answers(console, answers)
    console.written(output)
    console.result(output=output, **answers_facts(answers))


def _files(names: list[str]) -> list[Path]:
    """All files that names, folders and globs match."""
    wanted: list[str] = []
    for name in names:
        if Path(name).is_dir():
            inside = sorted(
                str(path) for path in Path(name).iterdir() if path.suffix == KNOWLEDGE_SUFFIX and path.is_file()
            )
            if not inside:
                raise MissingFileError(
                    f"There is no *{KNOWLEDGE_SUFFIX} file in the folder {name}. Name the files, or a glob."
                )
            wanted += inside
        else:
            wanted.append(name)
    paths = expand(wanted)
    folders = [path for path in paths if path.is_dir()]
    if folders:
        raise ParameterError(f"The glob matches the folder {folders[0]}. Name the folder itself.")
    return paths


def _open_named(paths: list[Path]) -> Mapping[str, ms.Knowledge | ms.Folds]:
    """The pieces by name: the file name without its extension, or the path if that is ambiguous."""
    stems = [path.name.removesuffix(KNOWLEDGE_SUFFIX) for path in paths]
    times = Counter(stems)
    names = [stem if times[stem] == 1 else str(path) for stem, path in zip(stems, paths, strict=True)]
    pieces: Iterator[ms.Knowledge | ms.Folds] = open_folds(paths) if have_folds(paths) else open_pieces(paths)
    return dict(zip(names, pieces, strict=True))


def _title(given: list[str], names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    first = Path(given[0])
    folder = (first if first.is_dir() else first.parent).resolve().name
    return f"{len(names)} pieces of {folder}"


def _print_answers(console: Console, answers: Answers) -> None:
    from mergesvm.reports.cards.pieces import drift_order
    from mergesvm.reports.formatting import weights_name
    from mergesvm.text import counted

    lines = [repr(answers.subject.total), *(f"Warning: {remark}" for remark in answers.remarks)]
    estimates, options = answers.estimates, answers.options
    if estimates is not None:
        where = f"held out: {answers.held_out}" if answers.held_out else "on the rows learned from, so optimistic"
        means = estimates.means
        lines.append(f"C={options.C:g} ({answers.how}), class weights {weights_name(options.class_weight)}")
        names = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "log_loss": "log-loss", "auc": "AUC"}
        known = [f"{name} {means[key]:.4f}" for key, name in names.items() if isfinite(means[key])]
        estimated = f"; {', '.join(known)}, estimated" if known else ""
        lines.append(f"squared loss {means['loss']:.4f}, exact{estimated} ({where})")
    if not isinstance(answers.influence, str):
        first = [row["piece"] for row in answers.influence.table()[:MAX_PIECES_NAMED]]
        lines.append(f"largest loss reduction without: {', '.join(first)}")
    if not isinstance(answers.drift, str):
        drifted = [answers.drift.names[at] for at in drift_order(answers.drift) if answers.drift.drifted[at]]
        more = ", ..." if len(drifted) > MAX_PIECES_NAMED else ""
        named = f": {', '.join(drifted[:MAX_PIECES_NAMED])}{more}" if drifted else ""
        lines.append(f"{counted(len(drifted), 'piece')} of {len(answers.drift.names)} drifted{named}")
    console.text(*lines)
