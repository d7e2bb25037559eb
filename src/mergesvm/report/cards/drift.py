"""The cards on how pieces differ from one another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.drift import Drift
from mergesvm.report.answers import Answers
from mergesvm.report.charts.cells import cell_map
from mergesvm.report.formatting import name, p_value, shown, whole
from mergesvm.report.html import Markup, card, table, tag

MOST_PIECES = 50
MOST_CLASSES = 20
MOST_ROWS = 50
MOVED = 2
"""So many of the features that moved most are named."""

FAR = 4.0
"""Distances of more than so many times the median have the full colour."""

MAP_NOTE = (
    "Distance of the means of each class in a piece from those in all others, in standard deviations, exact; a star "
    "where chance does not explain it. Small pieces are further away by chance."
)
TABLE_NOTE = (
    "{which}. Moved most: features, in standard deviations. P-values assume normal rows, those of covariances most; "
    "bold ones are significant at {level:g} after Holm's correction for all tests. With a million rows everything is "
    "significant, and with fewer rows of a class than features more than should be: look at the distances."
)


def drift_cards(answers: Answers) -> list[Markup]:
    """Distances as a map, and all numbers as a table; pieces that drifted come first, and then the furthest."""
    found = answers.drift
    if isinstance(found, str):
        return []
    return [_map(found), _table(found)]


def drift_order(found: Drift) -> list[int]:
    """Pieces: first those that drifted, and then by their largest distance in any class."""
    furthest = np.nan_to_num(found.distances, nan=-1.0).max(axis=1)
    order: list[int] = np.lexsort([-furthest, ~found.drifted]).tolist()
    return order


def _map(found: Drift) -> Markup:
    order = drift_order(found)[:MOST_PIECES]
    furthest = np.nan_to_num(found.distances, nan=-1.0).max(axis=0)
    classes = sorted(np.argsort(-furthest, kind="stable")[:MOST_CLASSES].tolist())
    cut = [
        f"the {len(some)} {what} of {count:,} {of}"
        for some, what, count, of in (
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
        full=_full(found.distances),
    )
    note = MAP_NOTE + (f" Shown: {' and '.join(cut)}." if cut else "")
    return card("Drift between pieces", chart, note=note)


def _full(distances: NDArray[np.float64]) -> float | None:
    """Where the colour is full: at the largest distance, unless a few are far larger than all others."""
    known = distances[np.isfinite(distances)]
    return float(np.clip(FAR * np.median(known), 1e-300, known.max())) if len(known) and known.max() > 0 else None


def _table(found: Drift) -> Markup:
    means, spreads, shares = found.means_drifted, found.covariances_drifted, found.proportions_drifted
    places = [(piece, place) for piece in range(len(found.names)) for place in range(len(found.labels))]
    far = np.nan_to_num(found.distances, nan=-1.0)
    places.sort(key=lambda at: (not (means[at] or shares[at[0]]), -far[at]))
    lines = []
    for piece, place in places[:MOST_ROWS]:
        at = piece, place
        reason = found.reasons[piece][place]
        lines.append(
            [
                whole(found.names[piece]),
                whole(found.labels[place], 20),
                tag("span", _moved(found, at), style="display: inline-block; min-width: 11em"),
                f"{found.rows[at]:,}",
                shown(float(found.distances[at]), ".2f"),
                p_value(float(found.mean_p_values[at]), bool(means[at])),
                shown(float(found.covariance_distances[at]), ".2f"),
                p_value(float(found.covariance_p_values[at]), bool(spreads[at]), reason),
                shown(float(found.proportion_distances[piece]), ".1%"),
                p_value(float(found.proportion_p_values[piece]), bool(shares[piece])),
            ]
        )
    many = (
        f"The {MOST_ROWS} worst of {len(places):,} classes of pieces" if len(places) > MOST_ROWS else "The worst first"
    )
    columns = ("Piece", "Class", "Moved most", "Rows", "Means", "p", "Covariances", "p", "Shares", "p")
    content = tag("div", table(columns, lines, caption="Drift of pieces", texts=3), class_="dense")
    note = TABLE_NOTE.format(which=many, level=found.level)
    return card("Drift in numbers", content, width=4, note=note)


def _moved(found: Drift, at: tuple[int, int]) -> str:
    shifts = found.shifts[at]
    order = np.argsort(-np.nan_to_num(np.abs(shifts), nan=-1.0), kind="stable")[:MOVED]
    parts = [f"{name(found.feature(int(k)), 24)} {shifts[k]:+.2f}" for k in order.tolist() if np.isfinite(shifts[k])]
    return ", ".join(parts)
