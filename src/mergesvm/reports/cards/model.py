"""Cards on the model: scores at each C tried, and the threshold between two classes."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from mergesvm.analysis.cross_validation.validation import Validation
from mergesvm.reports.answers import Answers
from mergesvm.reports.charts.axis import Axis
from mergesvm.reports.charts.line_chart import line_chart
from mergesvm.reports.charts.svg import Series
from mergesvm.reports.formatting import name, shown, weights_name
from mergesvm.reports.layout import card, table

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
CURVE_NOTE = (
    "Estimated for scores that are normal within each class{where}. Unreliable at its ends, which depend on few rows."
)
POINTS_NOTE = (
    "Thresholds on decision_function, above which {positive} is predicted. All rates are estimates, like the ROC "
    "curve: check a threshold on real rows before relying on it."
)


def path_cards(answers: Answers) -> list[Markup]:
    """Loss and accuracy over C."""
    if isinstance(answers.path, str):
        return []
    path = answers.path
    balanced = answers.options.class_weight is not None or "balanced" in answers.how
    scoring = "neg_balanced_loss" if balanced else "neg_squared_loss"
    note = LOSS_NOTE.format(classes=", averaged over the classes," if balanced else "")
    cards = [
        card("Held-out loss over C", _path_chart(answers, path, scoring, -1.0, "held-out squared loss"), note=note)
    ]
    if "accuracy" in path.scores:
        chart = _path_chart(answers, path, "accuracy", 1.0, "estimated accuracy")
        cards.append(card("Estimated accuracy over C", chart, note=ACCURACY_NOTE))
    return cards


def _path_chart(answers: Answers, path: Validation, scoring: str, sign: float, y_name: str) -> Markup:
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


def threshold_cards(answers: Answers) -> list[Markup]:
    """The ROC curve and operating points; none for more than two classes."""
    found, estimates = answers.curve, answers.estimates
    if isinstance(found, str) or estimates is None:
        return []
    curve, positive = found.curve, name(found.curve.positive, 32)
    line = Series(curve.recall, f"{positive}: AUC {shown(curve.auc)}", x=curve.false_positive_rate)
    axes = "false positive rate", "true positive rate"
    where = " on held-out rows" if estimates.held_out else " on the rows learned from, so optimistic"
    chart = line_chart([line], *axes, label="Expected ROC curve", diagonal=True)
    rows = []
    for goal, point in found.points.items():
        rates = point.recall, point.false_positive_rate, point.precision, point.accuracy
        cost = "-" if point.cost is None else f"{point.cost:.4g}"
        rows.append([goal, f"{point.threshold:.4g}", *(shown(rate, ".2%") for rate in rates), cost])
    columns = ("Goal", "Threshold", "Recall", "False positives", "Precision", "Accuracy", "Cost per row")
    points = table(columns, rows, caption="Operating points", dense=True)
    return [
        card("Expected ROC", chart, note=CURVE_NOTE.format(where=where)),
        card("Operating points", points, width=4, note=POINTS_NOTE.format(positive=positive)),
    ]
