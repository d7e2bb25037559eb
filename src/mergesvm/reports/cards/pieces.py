"""Cards on pieces: the influence of each piece on the model, and how pieces differ from one another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mergesvm.analysis.pieces.drift import Drift
from mergesvm.reports.answers import Answers
from mergesvm.reports.charts.bars import signed_bar_chart
from mergesvm.reports.charts.cells import cell_map
from mergesvm.reports.formatting import full_name, name, p_value, plain, shown
from mergesvm.reports.layout import card, table

MAX_BARS = 25
MAX_ROWS = 50
MAX_PIECES = 50
MAX_CLASSES = 20
MAX_SHIFTED_FEATURES = 2

REDUCTION = "relative_loss_reduction"

BARS_NOTE = (
    "How much the loss on all other pieces falls without the piece, relative to the loss with it: exact. It grows with "
    "the size of a piece: compare pieces of similar size."
)
INFLUENCE_TABLE_NOTE = (
    "Each piece left out in turn, {which}. Losses are exact; accuracies are estimated for scores that are normal "
    "within each class. A piece can be unusual and correct: look at it before removing it."
)
INFLUENCE_COLUMNS = (
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
OPAQUE_RATIO = 4.0
"""Cells are opaque from this multiple of the median distance on."""

DRIFT_MAP_NOTE = (
    "Distance between the mean of each class in a piece and in all others, in standard deviations: exact. A star marks "
    "significant differences. Small pieces are further away by chance."
)
DRIFT_TABLE_NOTE = (
    "{which}. Largest shifts: of features, in standard deviations. P-values assume normal rows, especially those of "
    "covariances; bold ones are significant at {level:g} after Holm's correction for all tests. With many rows small "
    "differences are significant, and with fewer rows of a class than features too many are: look at the distances."
)
DRIFT_COLUMNS = ("Piece", "Class", "Largest shifts", "Rows", "Means", "p", "Covariances", "p", "Class fractions", "p")


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
        card("Influence of pieces", _influence_table(rows), width=4, note=INFLUENCE_TABLE_NOTE.format(which=which)),
    ]


def _influence_table(rows: list[dict[str, Any]]) -> Markup:
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
    return table(INFLUENCE_COLUMNS, cells, caption="Influence of pieces", dense=True)


def drift_cards(answers: Answers) -> list[Markup]:
    """Distances as a map and all numbers as a table; pieces that drifted first, then the furthest."""
    found = answers.drift
    return [] if isinstance(found, str) else [_drift_map(found), _drift_table(found)]


def drift_order(found: Drift) -> list[int]:
    """Indices of pieces: those that drifted first, then by their largest distance in any class."""
    furthest = np.nan_to_num(found.distances, nan=-1.0).max(axis=1)
    order: list[int] = np.lexsort([-furthest, ~found.drifted]).tolist()
    return order


def _drift_map(found: Drift) -> Markup:
    order = drift_order(found)[:MAX_PIECES]
    furthest = np.nan_to_num(found.distances, nan=-1.0).max(axis=0)
    classes = sorted(np.argsort(-furthest, kind="stable")[:MAX_CLASSES].tolist())
    shown_parts = [
        f"the {len(some)} {which} of {count:,} {what}"
        for some, which, count, what in (
            (order, "worst", len(found.names), "pieces"),
            (classes, "furthest", len(found.labels), "classes"),
        )
        if len(some) < count
    ]
    chart = cell_map(
        found.distances[np.ix_(order, classes)],
        [name(found.names[at]) for at in order],
        [name(found.labels[at]) for at in classes],
        label="Distance of class means of pieces",
        marked=found.means_drifted[np.ix_(order, classes)],
        full=_opaque_distance(found.distances),
    )
    note = DRIFT_MAP_NOTE + (f" Shown: {' and '.join(shown_parts)}." if shown_parts else "")
    return card("Drift between pieces", chart, note=note)


def _opaque_distance(distances: NDArray[np.float64]) -> float | None:
    """The distance from which on cells are opaque: the largest, unless a few are far larger than all others."""
    known = distances[np.isfinite(distances)]
    if not len(known) or known.max() <= 0:
        return None
    return float(np.clip(OPAQUE_RATIO * np.median(known), 1e-300, known.max()))


def _drift_table(found: Drift) -> Markup:
    means, covariances, proportions = found.means_drifted, found.covariances_drifted, found.proportions_drifted
    places = [(piece, place) for piece in range(len(found.names)) for place in range(len(found.labels))]
    distances = np.nan_to_num(found.distances, nan=-1.0)
    places.sort(key=lambda at: (not (means[at] or proportions[at[0]]), -distances[at]))
    lines = []
    for piece, place in places[:MAX_ROWS]:
        at = piece, place
        lines.append(
            [
                full_name(found.names[piece]),
                full_name(found.labels[place], 20),
                Markup('<span style="display: inline-block; min-width: 11em">{}</span>').format(_shifts(found, at)),
                f"{found.rows[at]:,}",
                shown(float(found.distances[at]), ".2f"),
                p_value(float(found.mean_p_values[at]), bool(means[at])),
                shown(float(found.covariance_distances[at]), ".2f"),
                p_value(float(found.covariance_p_values[at]), bool(covariances[at]), found.reasons[piece][place]),
                shown(float(found.proportion_distances[piece]), ".1%"),
                p_value(float(found.proportion_p_values[piece]), bool(proportions[piece])),
            ]
        )
    which = f"The {MAX_ROWS} worst of {len(places):,} classes of pieces" if len(places) > MAX_ROWS else "Worst first"
    content = table(DRIFT_COLUMNS, lines, caption="Drift of pieces", texts=3, dense=True)
    return card("Drift in numbers", content, width=4, note=DRIFT_TABLE_NOTE.format(which=which, level=found.level))


def _shifts(found: Drift, at: tuple[int, int]) -> str:
    """The features whose means shifted most, with the shifts."""
    shifts = found.shifts[at]
    order = np.argsort(-np.nan_to_num(np.abs(shifts), nan=-1.0), kind="stable")[:MAX_SHIFTED_FEATURES]
    parts = [f"{name(found.feature(int(k)), 24)} {shifts[k]:+.2f}" for k in order.tolist() if np.isfinite(shifts[k])]
    return ", ".join(parts)
