"""The cards on C: the loss on rows held out, and the accuracy to be expected there, at each C that was tried."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.validation import Validation
from mergesvm.report.answers import Answers
from mergesvm.report.charts.axis import Axis
from mergesvm.report.charts.charts import Series, line_chart
from mergesvm.report.html import Markup, card

Numbers = NDArray[np.float64]

KINDS = ("main", "good", "dashed")
"""Of the weightings that were tried, the chosen one first."""

WIDE = 20.0
"""Losses that differ by more than this factor are drawn by their logarithm."""

LOSS_NOTE = (
    "Mean of (1 - y f(x))² on rows that the model has not seen: exact, and what decides. Not to be trusted if rows "
    "that belong together lie in several folds."
)
ACCURACY_NOTE = (
    "Estimated for scores that are normal within each class, the mean over the folds. Not to be trusted to the last "
    "percent where scores have long tails or several humps."
)


def path_cards(answers: Answers) -> list[Markup]:
    """Loss and accuracy over C."""
    if isinstance(answers.path, str):
        return []
    path = answers.path
    balanced = answers.terms.class_weight is not None or "alike" in answers.how
    scoring = "neg_balanced_loss" if balanced else "neg_squared_loss"
    note = LOSS_NOTE.replace("on rows", "over the classes, on rows") if balanced else LOSS_NOTE
    cards = [card("Held-out loss over C", _chart(answers, path, scoring, -1.0, "held-out squared loss"), note=note)]
    if "accuracy" in path.scores:
        chart = _chart(answers, path, "accuracy", 1.0, "estimated accuracy")
        cards.append(card("Estimated accuracy over C", chart, note=ACCURACY_NOTE))
    return cards


def _chart(answers: Answers, path: Validation, scoring: str, sign: float, y_name: str) -> Markup:
    Cs, settings = path.grid.Cs, path.grid.settings
    scores = sign * path.mean(scoring).reshape(len(settings), len(Cs))
    known = scores[np.isfinite(scores)]
    log = scoring != "accuracy" and len(known) > 0 and float(known.min()) > 0 and known.max() > WIDE * known.min()
    places = [at for at, terms in enumerate(settings) if terms.class_weight == answers.terms.class_weight]
    order = [*places, *(at for at in range(len(settings)) if at not in places)]
    lines = [
        Series(scores[at], f"class weights {weights_name(settings[at].class_weight)}", kind, x=Cs)
        for at, kind in zip(order, KINDS, strict=False)
    ]
    C, chosen = answers.terms.C, scores[order[0]]
    value = float(np.interp(np.log(C), np.log(Cs), chosen))
    mark = f"{'given' if answers.how.startswith('as given') else 'chosen'}: C = {C:.4g}"
    lines.append(Series([value], mark, "bad", x=[C], spans=[(value, value)]))
    axes = Axis.over([*Cs, C], log=True), Axis.over(scores, log=bool(log))
    return line_chart(lines, "C", y_name, label=f"{y_name} over C".capitalize(), axes=axes)


def weights_name(weights: Any) -> str:
    """Class weights in a word."""
    return weights if isinstance(weights, str) else "none" if weights is None else "as given"
