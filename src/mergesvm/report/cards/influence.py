"""The cards on what each piece does to the model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mergesvm.report.answers import Answers
from mergesvm.report.charts.signed_bars import signed_bars
from mergesvm.report.formatting import name, shown, whole
from mergesvm.report.html import Markup, card, join, table, tag

MOST_BARS = 25
MOST_ROWS = 50

BARS_NOTE = (
    "Suspicion: by what share the loss on all other pieces falls without the piece, exact. Large pieces have more of "
    "it than small ones: compare pieces of one size."
)
TABLE_NOTE = (
    "Each piece left out in turn: {which}. Losses are exact; accuracies are estimates for scores that are normal "
    "within each class. A piece can be unlike the others and right: look at it before you take it out."
)


def influence_cards(answers: Answers) -> list[Markup]:
    """Suspicion as bars, and all numbers as a table, the most suspicious pieces first."""
    found = answers.influence
    if isinstance(found, str):
        return []
    rows = found.table()
    which = _which(len(rows), MOST_ROWS)
    judged = [row for row in rows if math.isfinite(row["relative_loss_reduction"])][:MOST_BARS]
    bars = signed_bars(
        [name(row["piece"]) for row in judged],
        [100 * row["relative_loss_reduction"] for row in judged],
        label="Suspicion of pieces, percent",
        form=".2f",
    )
    most = f"The {len(judged)} most suspicious of {len(rows):,}, percent. " if len(judged) < len(rows) else "Percent. "
    return [
        card("Suspicion", bars if judged else tag("p", "No piece can be judged."), note=most + BARS_NOTE),
        card("Influence of pieces", _table(rows[:MOST_ROWS], rows), width=4, note=TABLE_NOTE.format(which=which)),
    ]


def _which(count: int, most: int) -> str:
    return "the most suspicious first" if count <= most else f"the {most} most suspicious of {count:,}"


def _table(rows: list[dict[str, Any]], every: list[dict[str, Any]]) -> Markup:
    known = [row["relative_loss_reduction"] for row in every if math.isfinite(row["relative_loss_reduction"])]
    usual = float(np.median(known)) if known else math.nan
    lines = [
        [
            join([whole(row["piece"]), *([tag("span", f" ({row['note']})")] if row["note"] else [])]),
            f"{row['rows']:,}",
            shown(row["relative_loss_reduction"], ".2%"),
            shown(round(row["relative_loss_reduction"] / usual, 1) + 0.0, ".1f") if usual > 0 else "-",
            shown(row["change"], ".1%"),
            shown(row["loss_on_piece"]),
            shown(row["loss_on_piece_without"]),
            shown(row["accuracy_on_piece"], ".1%"),
            shown(row["accuracy_on_piece_without"], ".1%"),
        ]
        for row in rows
    ]
    columns = (
        "Piece",
        "Rows",
        "Suspicion",
        "To median",
        "Moves model",
        "Loss on it",
        "without it",
        "Accuracy on it",
        "without it",
    )
    return tag("div", table(columns, lines, caption="Influence of pieces"), class_="dense")
