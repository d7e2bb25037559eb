"""Cards on the influence of each piece on the model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from mergesvm.reports.answers import Answers
from mergesvm.reports.charts.signed_bar_chart import signed_bar_chart
from mergesvm.reports.formatting import full_name, name, plain, shown
from mergesvm.reports.layout import card, table

MAX_BARS = 25
MAX_ROWS = 50

REDUCTION = "relative_loss_reduction"

BARS_NOTE = (
    "How much the loss on all other pieces falls without the piece, relative to the loss with it: exact. It grows with "
    "the size of a piece: compare pieces of similar size."
)
TABLE_NOTE = (
    "Each piece left out in turn, {which}. Losses are exact; accuracies are estimated for scores that are normal "
    "within each class. A piece can be unusual and correct: look at it before removing it."
)
COLUMNS = (
    "Piece",
    "Rows",
    "Loss reduction",
    "To median",
    "Change of model",
    "Loss on piece",
    "without it",
    "Accuracy on piece",
    "without it",
)


def influence_cards(answers: Answers) -> list[Markup]:
    """Relative loss reduction as bars, and all numbers as a table, the largest reduction first."""
    found = answers.influence
    if isinstance(found, str):
        return []
    rows = found.table()
    known = [row for row in rows if math.isfinite(row[REDUCTION])][:MAX_BARS]
    bars = signed_bar_chart(
        [name(row["piece"]) for row in known],
        [100 * row[REDUCTION] for row in known],
        label="Relative loss reduction without each piece, percent",
        form=".2f",
    )
    largest = f"The {len(known)} largest of {len(rows):,}, percent. " if len(known) < len(rows) else "Percent. "
    which = "largest reduction first" if len(rows) <= MAX_ROWS else f"the {MAX_ROWS} largest of {len(rows):,}"
    content = bars if known else "No piece can be left out."
    return [
        card("Loss reduction without a piece", content, note=largest + BARS_NOTE),
        card("Influence of pieces", _table(rows), width=4, note=TABLE_NOTE.format(which=which)),
    ]


def _table(rows: list[dict[str, Any]]) -> Markup:
    known = [row[REDUCTION] for row in rows if math.isfinite(row[REDUCTION])]
    median = float(np.median(known)) if known else math.nan
    cells = [
        [
            Markup("{} ({})").format(full_name(row["piece"]), plain(row["note"]))
            if row["note"]
            else full_name(row["piece"]),
            f"{row['rows']:,}",
            shown(row[REDUCTION], ".2%"),
            shown(round(row[REDUCTION] / median, 1) + 0.0, ".1f") if median > 0 else "-",
            shown(row["change"], ".1%"),
            shown(row["loss_on_piece"]),
            shown(row["loss_on_piece_without"]),
            shown(row["accuracy_on_piece"], ".1%"),
            shown(row["accuracy_on_piece_without"], ".1%"),
        ]
        for row in rows[:MAX_ROWS]
    ]
    return table(COLUMNS, cells, caption="Influence of pieces", dense=True)
