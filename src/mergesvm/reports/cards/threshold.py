"""Cards on the threshold between two classes: expected ROC curve and operating points."""

from __future__ import annotations

from markupsafe import Markup

from mergesvm.reports.answers import Answers
from mergesvm.reports.charts.line_chart import line_chart
from mergesvm.reports.charts.series import Series
from mergesvm.reports.formatting import name, shown
from mergesvm.reports.layout import card, table

CURVE_NOTE = (
    "Estimated for scores that are normal within each class{where}. Unreliable at its ends, which depend on few rows."
)
POINTS_NOTE = (
    "Thresholds on decision_function, above which {positive} is predicted. All rates are estimates, like the ROC "
    "curve: check a threshold on real rows before relying on it."
)


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
