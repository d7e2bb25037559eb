"""Choose C, class weights and the multi-class scheme by cross-validation (``--C auto`` and similar)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mergesvm as ms
from mergesvm.analysis.cross_validation.score_names import LOSSES
from mergesvm.analysis.cross_validation.validation import Validation
from mergesvm.cli.console import Console, dropped_rows, numeric_table, table_cell
from mergesvm.cli.data_options import SecondPassOptions
from mergesvm.cli.model_options import ChoiceOptions
from mergesvm.cli.open_files import have_folds, open_pieces
from mergesvm.errors import ParameterError
from mergesvm.multiclass.schemes import MULTICLASS_SCHEMES
from mergesvm.text import counted

MAX_CANDIDATES_SHOWN = 5


@dataclass(frozen=True)
class Choice:
    """A cross-validation, and the rows that were read to measure scores, if any."""

    validation: Validation
    source: ms.Scan | None

    @property
    def scoring(self) -> str:
        """The score that decided."""
        return self.validation.scoring[0]

    @property
    def how(self) -> str:
        """How the scores were computed: exact, measured or estimated."""
        if self.scoring in LOSSES:
            return "exact"
        return "measured" if self.validation.measured else "estimated"

    @property
    def table(self) -> list[dict[str, Any]]:
        """All candidates: options, mean score, standard deviation and the score of each fold; None where undefined."""
        scores = self.validation.scores[self.scoring]
        return [
            {
                **{option: row[option] for option in ("C", "class_weight", "multiclass")},
                "score": _finite(row[self.scoring]),
                "deviation": _finite(row[f"{self.scoring} deviation"]),
                "scores": [_finite(score) for score in scores[at].tolist()],
            }
            for at, row in enumerate(self.validation.table())
        ]

    @property
    def edge(self) -> str | None:
        """Whether the chosen C is the smallest or largest of several."""
        Cs, best = self.validation.grid.Cs, self.validation.best.C
        return None if len(Cs) < 2 else "smallest" if best == Cs[0] else "largest" if best == Cs[-1] else None

    @property
    def gain(self) -> float:
        """How much better a C chosen at the edge is than its neighbour."""
        validation, means = self.validation, self.validation.mean()
        at = validation.best_index
        return float(means[at] - means[at + (1 if self.edge == "smallest" else -1)])

    def facts(self) -> dict[str, Any]:
        """The choice and all candidates, for JSON."""
        rows, best = self.table, self.validation.best_index
        return {
            "chosen": {option: rows[best][option] for option in ("C", "class_weight", "multiclass")},
            "scoring": self.scoring,
            "how": self.how,
            "score": rows[best]["score"],
            "deviation": rows[best]["deviation"],
            "edge": self.edge,
            "folds": self.validation.folds.rows.tolist(),
            "measured_rows": None if self.source is None else self.source.rows,
            "dropped": None if self.source is None else self.source.dropped,
            "candidates": rows,
        }


def choose(paths: list[Path], options: ChoiceOptions, data: SecondPassOptions, console: Console) -> Choice:
    """Score all candidates on held-out folds."""
    if not data.files and data != SecondPassOptions():
        raise ParameterError(
            "Options for reading need files to read: name the files that were learned from with --data."
        )
    folds = _folds_or_pieces(paths)
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
        validation = ms.validate(folds, source, scoring=scoring, progress=progress, **grid, **options.fixed)
    return Choice(validation, source)


def _folds_or_pieces(paths: list[Path]) -> ms.Folds:
    """The folds of one file; or several pieces as folds."""
    if have_folds(paths):
        if len(paths) > 1:
            raise ParameterError(f"{len(paths)} files with folds were given. Add them first with mergesvm merge.")
        return ms.Folds.load(paths[0])
    pieces = list(open_pieces(paths))
    if len(pieces) < 2:
        raise ParameterError(
            f"{paths[0]} has no folds, so nothing can be held out. Learn with --folds 5, or name several pieces to "
            f"hold out in turn: mergesvm solve 'day*.knowledge' --C auto."
        )
    return ms.Folds(pieces)


def print_choice(console: Console, choice: Choice) -> None:
    """Print what was chosen, by which score, and the next best candidates."""
    rows, best = choice.table, choice.validation.best_index
    chosen, folds = rows[best], choice.validation.folds
    read, dropped = (0, 0) if choice.source is None else (choice.source.rows, choice.source.dropped)
    how = {
        "exact": "exact, from knowledge alone",
        "estimated": "estimated from knowledge alone, assuming normal scores within each class",
        "measured": f"measured on {counted(read, 'row')}{dropped_rows(dropped)}",
    }[choice.how]
    console.text(
        f"Best of {len(rows):,} candidates on held-out rows ({len(folds)} folds): "
        f"C={chosen['C']:g}, class weights {_weights(chosen)}, {MULTICLASS_SCHEMES[chosen['multiclass']]}.",
        f"{choice.scoring} {chosen['score']:.4f}, standard deviation over folds {chosen['deviation']:.4f}; {how}.",
    )
    texts = ("class weights", "multi-class")
    table = numeric_table("C", *texts, choice.scoring, "deviation", texts=texts)
    table.columns[0].justify = "right"
    for row in _best(rows):
        numbers = ("-" if row[name] is None else f"{row[name]:.4f}" for name in ("score", "deviation"))
        table.add_row(f"{row['C']:g}", table_cell(_weights(row)), MULTICLASS_SCHEMES[row["multiclass"]], *numbers)
    console.out.print(table)
    if choice.edge is not None:
        console.text(
            f"Warning: {chosen['C']:g} is the {choice.edge} C tried, and better by {choice.gain:.2g} than the next. "
            f"Try {'smaller' if choice.edge == 'smallest' else 'larger'} values with --Cs."
        )


def _best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best candidates, and the best of each weighting and scheme, so that these can be compared."""
    order = sorted(rows, key=lambda row: -math.inf if row["score"] is None else row["score"], reverse=True)
    settings = [(str(row["class_weight"]), row["multiclass"]) for row in order]
    return [row for at, row in enumerate(order) if at < MAX_CANDIDATES_SHOWN or settings.index(settings[at]) == at]


def _weights(row: dict[str, Any]) -> str:
    given = row["class_weight"]
    if given is None or isinstance(given, str):
        return given or "none"
    return ",".join(f"{label}={weight:g}" for label, weight in given.items())


def _finite(value: float) -> float | None:
    """A number for JSON, which has no NaN."""
    return None if math.isnan(value) else float(value)
