"""What was chosen by cross-validation, and how it is told to people and machines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table

from mergesvm.analysis.scoring import LOSSES
from mergesvm.analysis.validation import Validation
from mergesvm.cli.console import Console, printable
from mergesvm.data.scan import Scan
from mergesvm.knowledge.knowledge import counted
from mergesvm.multiclass.decomposition import MULTICLASS_SCHEMES

MOST_SHOWN = 5
"""So many of the best candidates are shown to people."""


@dataclass(frozen=True)
class Choice:
    """What was chosen from what; and the rows that were read for it, if any."""

    validation: Validation
    source: Scan | None

    @property
    def scoring(self) -> str:
        """What decided."""
        return self.validation.scoring[0]

    @property
    def how(self) -> str:
        """How the scores were found: exact, measured or estimated."""
        if self.scoring in LOSSES:
            return "exact"
        return "measured" if self.validation.measured else "estimated"

    @property
    def table(self) -> list[dict[str, Any]]:
        """All candidates: their terms, mean score, its deviation, and the score in each fold; None where none is."""
        scores = self.validation.scores[self.scoring]
        return [
            {
                **{term: row[term] for term in ("C", "class_weight", "multiclass")},
                "score": _number(row[self.scoring]),
                "deviation": _number(row[f"{self.scoring} deviation"]),
                "scores": [_number(score) for score in scores[at].tolist()],
            }
            for at, row in enumerate(self.validation.table())
        ]

    @property
    def edge(self) -> str | None:
        """Whether the C chosen is the smallest or the largest of several."""
        Cs, best = self.validation.grid.Cs, self.validation.best.C
        return None if len(Cs) < 2 else "smallest" if best == Cs[0] else "largest" if best == Cs[-1] else None

    @property
    def gain(self) -> float:
        """By how much the C chosen at an edge is better than the next."""
        validation, means = self.validation, self.validation.mean()
        at = validation.best_index
        return float(means[at] - means[at + (1 if self.edge == "smallest" else -1)])


def print_choice(talk: Console, choice: Choice) -> None:
    """Say what was chosen, by which score, how that was found, and what came next."""
    rows, best = choice.table, choice.validation.best_index
    line, folds = rows[best], choice.validation.folds
    read = 0 if choice.source is None else choice.source.rows
    found = {
        "exact": "exact, from the sums alone",
        "estimated": "estimated from the sums alone, as if the scores of each class were normal",
        "measured": f"measured on {counted(read, 'row')}",
    }[choice.how]
    talk.out.print(
        printable(
            f"The best of {len(rows):,} candidates on rows that it has not seen, in {len(folds)} folds: "
            f"C={line['C']:g}, class weights {_weights(line)}, {MULTICLASS_SCHEMES[line['multiclass']]}.\n"
            f"{choice.scoring} {line['score']:.4f}, deviation over the folds {line['deviation']:.4f}; {found}."
        ),
        markup=False,
    )
    table = Table("C", "class weights", "multi-class", choice.scoring, "deviation")
    for column in (table.columns[0], *table.columns[3:]):
        column.justify = "right"
    for row in _best(rows):
        numbers = ("-" if row[name] is None else f"{row[name]:.4f}" for name in ("score", "deviation"))
        table.add_row(
            f"{row['C']:g}", escape(printable(_weights(row))), MULTICLASS_SCHEMES[row["multiclass"]], *numbers
        )
    talk.out.print(table)
    if choice.edge is not None:
        talk.out.print(
            f"Warning: {line['C']:g} is the {choice.edge} C that was tried, and better by {choice.gain:.2g} than the "
            f"next. Try {'smaller' if choice.edge == 'smallest' else 'larger'} ones: --Cs."
        )
    if choice.source is not None and choice.source.dropped:
        talk.out.print(f"{choice.source.dropped:,} rows with missing values left out")


def choice_facts(choice: Choice) -> dict[str, Any]:
    """What a machine wants to know of a choice: all candidates, too."""
    rows, best = choice.table, choice.validation.best_index
    return {
        "chosen": {term: rows[best][term] for term in ("C", "class_weight", "multiclass")},
        "scoring": choice.scoring,
        "how": choice.how,
        "score": rows[best]["score"],
        "deviation": rows[best]["deviation"],
        "edge": choice.edge,
        "folds": choice.validation.folds.rows.tolist(),
        "measured_rows": None if choice.source is None else choice.source.rows,
        "dropped": None if choice.source is None else choice.source.dropped,
        "candidates": rows,
    }


def _best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The best candidates, and the best of each setting, so that settings can be compared."""
    order = sorted(rows, key=lambda row: -math.inf if row["score"] is None else row["score"], reverse=True)
    settings = [_setting(row) for row in order]
    return [row for at, row in enumerate(order) if at < MOST_SHOWN or settings.index(settings[at]) == at]


def _setting(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["class_weight"]), row["multiclass"]


def _weights(row: dict[str, Any]) -> str:
    given = row["class_weight"]
    if given is None or isinstance(given, str):
        return given or "none"
    return ",".join(f"{label}={weight:g}" for label, weight in given.items())


def _number(value: float) -> float | None:
    """A number for JSON, which knows no NaN."""
    return None if math.isnan(value) else float(value)
