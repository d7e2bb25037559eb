"""The cards on two classes: the ROC curve to be expected, and where to put the threshold."""

from __future__ import annotations

from mergesvm.report.answers import Answers
from mergesvm.report.charts.charts import Series, line_chart
from mergesvm.report.formatting import name, shown
from mergesvm.report.html import Markup, card, table, tag

CURVE_NOTE = (
    "Estimated for scores that are normal within each class{where}. Not to be trusted at its ends, where single rows "
    "decide."
)
POINTS_NOTE = (
    "Thresholds on decision_function; above them {positive} is predicted. Recall, false positives, precision and "
    "accuracy are estimates like the ROC curve: check thresholds on rows before much depends on them."
)


def threshold_cards(answers: Answers) -> list[Markup]:
    """The curve and its points; of more than two classes none."""
    found, estimates = answers.curve, answers.estimates
    if isinstance(found, str) or estimates is None:
        return []
    curve, positive = found.curve, name(found.curve.positive, 32)
    line = Series(curve.recall, f"{positive}: AUC {shown(curve.auc)}", x=curve.false_positive_rate)
    axes = "false positive rate", "true positive rate"
    where = ", of rows held out" if estimates.held_out else ", of the rows learned from: too good"
    chart = line_chart([line], *axes, label="Expected ROC curve", diagonal=True)
    rows = []
    for wish, point in found.points.items():
        numbers = point.recall, point.false_positive_rate, point.precision, point.accuracy
        cost = "-" if point.cost is None else f"{point.cost:.4g}"
        rows.append([wish, f"{point.threshold:.4g}", *(shown(value, ".2%") for value in numbers), cost])
    columns = ("Wanted", "Threshold", "Recall", "False positives", "Precision", "Accuracy", "Cost a row")
    points = tag("div", table(columns, rows, caption="Operating points"), class_="dense")
    return [
        card("Expected ROC", chart, note=CURVE_NOTE.format(where=where)),
        card("Operating points", points, width=4, note=POINTS_NOTE.format(positive=positive)),
    ]
