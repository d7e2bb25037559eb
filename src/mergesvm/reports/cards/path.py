"""Cards on C: held-out loss and estimated accuracy at each C tried."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from mergesvm.analysis.cross_validation.validation import Validation
from mergesvm.reports.answers import Answers
from mergesvm.reports.charts.axis import Axis
from mergesvm.reports.charts.line_chart import line_chart
from mergesvm.reports.charts.series import Series
from mergesvm.reports.formatting import weights_name
from mergesvm.reports.layout import card

STYLES = ("main", "good", "dashed")
"""Line styles of the weightings, the chosen one first."""

MIN_RATIO_FOR_LOG = 20.0
"""Losses that differ by more than this factor are drawn on a logarithmic axis."""

LOSS_NOTE = (
    "Mean of (1 - y f(x))²{classes} on held-out rows: exact, and what C is chosen by. Misleading if related rows are "
    "in different folds."
)
ACCURACY_NOTE = (
    "Mean over the folds, estimated for scores that are normal within each class. Less accurate for scores with long "
    "tails or several modes."
)


def path_cards(answers: Answers) -> list[Markup]:
    """Loss and accuracy over C."""
    if isinstance(answers.path, str):
        return []
    path = answers.path
    balanced = answers.options.class_weight is not None or "balanced" in answers.how
    scoring = "neg_balanced_loss" if balanced else "neg_squared_loss"
    note = LOSS_NOTE.format(classes=", averaged over the classes," if balanced else "")
    cards = [card("Held-out loss over C", _chart(answers, path, scoring, -1.0, "held-out squared loss"), note=note)]
    if "accuracy" in path.scores:
        chart = _chart(answers, path, "accuracy", 1.0, "estimated accuracy")
        cards.append(card("Estimated accuracy over C", chart, note=ACCURACY_NOTE))
    return cards


def _chart(answers: Answers, path: Validation, scoring: str, sign: float, y_name: str) -> Markup:
    Cs, settings = path.grid.Cs, path.grid.settings
    scores = sign * path.mean(scoring).reshape(len(settings), len(Cs))
    known = scores[np.isfinite(scores)]
    positive = scoring != "accuracy" and len(known) > 0 and float(known.min()) > 0
    log = bool(positive and known.max() > MIN_RATIO_FOR_LOG * known.min())
    chosen = [at for at, options in enumerate(settings) if options.class_weight == answers.options.class_weight]
    order = [*chosen, *(at for at in range(len(settings)) if at not in chosen)]
    lines = [
        Series(scores[at], f"class weights {weights_name(settings[at].class_weight)}", style, x=Cs)
        for at, style in zip(order, STYLES, strict=False)
    ]
    C = answers.options.C
    value = float(np.interp(np.log(C), np.log(Cs), scores[order[0]]))
    mark = f"{'given' if answers.how.startswith('as given') else 'chosen'}: C = {C:.4g}"
    lines.append(Series([value], mark, "bad", x=[C], spans=[(value, value)]))
    axes = Axis.over([*Cs, C], log=True), Axis.over(scores, log=log)
    return line_chart(lines, "C", y_name, label=f"{y_name} over C".capitalize(), axes=axes)
