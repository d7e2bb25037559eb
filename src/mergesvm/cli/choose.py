"""Choose C, class weights and the multi-class scheme by cross-validation (``--C auto`` and similar)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from mergesvm.analysis.cross_validation.validation import validate
from mergesvm.cli.choice import Choice
from mergesvm.cli.console import Console
from mergesvm.cli.data_options import DataOptions, Names
from mergesvm.cli.model_options import ChoiceOptions
from mergesvm.cli.open_files import have_folds, open_pieces
from mergesvm.errors import ParameterError
from mergesvm.knowledge.folds import Folds


@dataclass(frozen=True)
class SecondPassOptions(DataOptions):
    """The files that the knowledge was learned from, to be read a second time."""

    PANEL: ClassVar[str] = "Second pass over the data"

    files: Annotated[
        Names, typer.Option("--data", help="Files the knowledge was learned from, to measure scores; may be repeated.")
    ] = None  # type: ignore[assignment]


def choose(paths: list[Path], options: ChoiceOptions, data: SecondPassOptions, console: Console) -> Choice:
    """Score all candidates on held-out folds."""
    if not data.files and data != SecondPassOptions():
        raise ParameterError(
            "Options for reading need files to read: name the files that were learned from with --data."
        )
    folds = open_folds_or_pieces(paths)
    grid = options.grid(folds.labels)
    scoring = options.score_name(grid["multiclass"], bool(data.files))
    source, column = None, folds.assignment.column
    if data.files:
        if folds.assignment.by == "given":
            raise ParameterError(
                "--data cannot be used with several pieces or with folds given row by row, because it is unknown which "
                "rows belong to which fold. Omit --data, or learn with --folds (and --groups)."
            )
        source = data.scan(like=folds, keep=() if column is None else (column,))
    with console.progress("measuring") as progress:
        validation = validate(folds, source, scoring=scoring, progress=progress, **grid, **options.fixed)
    return Choice(validation, source)


def open_folds_or_pieces(paths: list[Path]) -> Folds:
    """The folds of one file; or several pieces as folds."""
    if have_folds(paths):
        if len(paths) > 1:
            raise ParameterError(f"{len(paths)} files with folds were given. Add them first with mergesvm merge.")
        return Folds.load(paths[0])
    pieces = list(open_pieces(paths))
    if len(pieces) < 2:
        raise ParameterError(
            f"{paths[0]} has no folds, so nothing can be held out. Learn with --folds 5, or name several pieces to "
            f"hold out in turn: mergesvm solve 'day*.knowledge' --C auto."
        )
    return Folds(pieces)
