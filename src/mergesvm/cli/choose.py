"""How ``--C auto`` and its like choose the terms of a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from mergesvm.analysis.scoring import LOSSES
from mergesvm.analysis.validation import validate
from mergesvm.cli.console import Console
from mergesvm.cli.data_options import Names, Reading
from mergesvm.cli.open_files import keep_folds, loaded
from mergesvm.cli.options import as_class_weight, as_number, as_numbers
from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.multiclass.decomposition import MULTICLASS_SCHEMES
from mergesvm.report.choice import Choice

AUTO = "auto"


@dataclass(frozen=True)
class DataAgain(Reading):
    """The files that were learned from, where they are to be read once more."""

    files: Annotated[
        Names, typer.Option("--data", help="The files that were learned from, for a second pass; may be repeated.")
    ] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class ChoiceOptions:
    """The terms that are wanted, as the command line has them; "auto" for those to be chosen."""

    C: str
    Cs: str | None
    class_weight: str
    multiclass: str
    scoring: str | None

    @property
    def auto(self) -> bool:
        """Whether anything is to be chosen."""
        return AUTO in (self.C, self.class_weight, self.multiclass)

    def grid(self, labels: tuple[Label, ...]) -> dict[str, Any]:
        """What to choose from, as :func:`validate` takes it."""
        if self.Cs is not None and self.C != AUTO:
            raise ParameterError(f"--Cs are the values for --C auto, but --C is {self.C}. Leave one of them out.")
        several = None if self.Cs is None else as_numbers(self.Cs, "--Cs")
        weights = self.class_weight
        return {
            "Cs": several if self.C == AUTO else [as_number(self.C, "--C, if not auto,")],
            "class_weights": [None, "balanced"] if weights == AUTO else [as_class_weight(weights, labels)],
            # Two classes are one pair, and one against the rest.
            "multiclass": [*MULTICLASS_SCHEMES][: max(1, len(labels) - 1)]
            if self.multiclass == AUTO
            else self.multiclass,
        }

    def decides(self, schemes: Any, measured: bool) -> str:
        """The score to choose by: the loss that is exact with no data, unless it cannot compare what is compared."""
        compared = isinstance(schemes, list) and len(schemes) > 1
        if self.scoring is not None:
            if compared and self.scoring in LOSSES:
                raise ParameterError(
                    f"{self.scoring} does not compare one-vs-rest with one-vs-one, whose problems have other rows. "
                    f"Choose --scoring accuracy, or leave --multiclass auto out."
                )
            if measured and self.scoring in LOSSES:
                raise ParameterError(f"{self.scoring} is exact with no data: leave --data out.")
            return self.scoring
        weighted = self.class_weight != "none"
        if compared or measured:
            return "balanced_accuracy" if weighted else "accuracy"
        return "neg_balanced_loss" if weighted else "neg_squared_loss"


def choose(
    paths: list[Path], wishes: ChoiceOptions, fixed: dict[str, Any], reading: DataAgain, talk: Console
) -> Choice:
    """Score all candidates on folds that they have not seen."""
    if not reading.files and reading != DataAgain():
        raise ParameterError("There is nothing to read: name with --data the files that were learned from.")
    folds = open_folds(paths)
    grid = wishes.grid(folds.labels)
    scoring = wishes.decides(grid["multiclass"], bool(reading.files))
    source, column = None, folds.assignment.column
    if reading.files:
        if folds.assignment.by == "given":
            raise ParameterError(
                "Of pieces, or folds that were given row by row, it is not known which rows of --data are in which. "
                "Leave --data out; or learn with --folds, and with --groups, if rows belong together."
            )
        source = reading.scan(like=folds, keep=() if column is None else (column,))
    with talk.progress("measuring") as progress:
        validation = validate(folds, source, scoring=scoring, progress=progress, **grid, **fixed)
    return Choice(validation, source)


def open_folds(paths: list[Path]) -> Folds:
    """The folds of a file; or of several pieces, each of which is one."""
    if keep_folds(paths):
        if len(paths) > 1:
            raise ParameterError(
                f"{len(paths)} files are given, each with folds of its own. Add them first: mergesvm merge."
            )
        return Folds.load(paths[0])
    pieces = list(loaded(paths))
    if len(pieces) < 2:
        raise ParameterError(
            f"{paths[0]} does not keep the knowledge of folds, so that nothing can be held out. Learn with --folds 5; "
            f"or name several pieces, each of which is then held out in turn: mergesvm solve 'day*.knowledge' --C auto."
        )
    return Folds(pieces)
