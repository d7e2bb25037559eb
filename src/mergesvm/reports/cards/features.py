"""Cards on features: coefficients, and the loss with fewer features."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from mergesvm.analysis.importance import Elimination
from mergesvm.models.linear import LinearModel
from mergesvm.reports.answers import Answers
from mergesvm.reports.charts.axis import Axis
from mergesvm.reports.charts.bars import signed_bar_chart
from mergesvm.reports.charts.cells import cell_map
from mergesvm.reports.charts.line_chart import line_chart
from mergesvm.reports.charts.svg import Series
from mergesvm.reports.formatting import name
from mergesvm.reports.layout import Legend, card, table

MAX_FEATURES = 20
MAX_CLASSES = 12
MAX_LAST_FEATURES = 12

CORRELATED = "Correlated features share their effect, so a small coefficient does not mean that a feature is useless."
LAST_NOTE = (
    "The exact loss with a feature and all above it. Not always the best set of its size, because a feature that was "
    "removed does not return."
)


def feature_cards(answers: Answers) -> list[Markup]:
    """Coefficients, the loss with fewer features, and the features removed last."""
    found = answers.elimination
    return [*_coefficients(answers), *([] if isinstance(found, str) else [_elimination(answers, found), _last(found)])]


def _coefficients(answers: Answers) -> list[Markup]:
    importance, model = answers.importance, answers.model
    if importance is None or model is None:
        return []
    order = np.argsort(-importance.overall, kind="stable")[:MAX_FEATURES]
    names, labels = [name(importance.names[at]) for at in order], answers.subject.total.labels
    n_features, title = len(importance.names), "Largest coefficients"
    which = f"The {MAX_FEATURES} largest of {n_features:,}. " if n_features > MAX_FEATURES else ""
    legends: list[Legend] = []
    if len(labels) == 2:
        note = f"{which}Exact change of the score with one standard deviation of a feature. {CORRELATED}"
        values = importance.coefs[0][order].tolist()
        sides = {"positive": f"for {name(labels[1])}", "negative": f"for {name(labels[0])}"}
        chart = signed_bar_chart(names, values, label=title, **sides)
    elif isinstance(model, LinearModel) and len(labels) <= MAX_CLASSES:
        note = f"{which}Exact change of the score of each class with one standard deviation of a feature. {CORRELATED}"
        legends = [Legend("main", "for"), Legend("bad", "against")]
        columns = [name(label) for label in labels]
        chart = cell_map(importance.coefs[:, order].T, names, columns, label=title, style="main")
    else:
        over = "classes" if isinstance(model, LinearModel) else "pairs of classes"
        note = (
            f"{which}Exact change of the scores with one standard deviation of a feature: root mean square over all "
            f"{over}. {CORRELATED}"
        )
        chart = signed_bar_chart(names, importance.overall[order].tolist(), label=title)
    return [card("Coefficients", chart, note=note, legends=legends)]


def _elimination(answers: Answers, found: Elimination) -> Markup:
    n_features = len(found.names)
    left = [float(n_features - step) for step in range(len(found.loss))]
    style = "main" if found.held_out_loss is None else "dashed"
    lines = [Series(found.loss, "on the rows learned from", style, x=left)]
    units = "" if answers.options.standardize else "The order depends on the units of the features. "
    if found.held_out_loss is None:
        note = f"Exact squared loss on the rows learned from. {units}It never rises with more features: hold out folds."
    else:
        note = (
            f"Exact squared loss with the features that are left. {units}The order was chosen on all rows, so the "
            f"held-out loss is slightly optimistic."
        )
        best = found.best or n_features
        lines.append(Series(found.held_out_loss, "on held-out rows", "main", x=left))
        least = float(found.held_out_loss[n_features - best])
        lines.append(Series([least], f"least with {best:,} of {n_features:,}", "bad", x=[best], spans=[(least, least)]))
    values = np.concatenate([line.y for line in lines])
    axes = Axis(0.0, float(n_features)), Axis.over(values)
    chart = line_chart(lines, "features left", "squared loss", label="Loss over the number of features", axes=axes)
    return card("Fewer features", chart, note=note)


def _last(found: Elimination) -> Markup:
    """The features removed last, with the loss when all others are removed."""
    losses = found.loss if found.held_out_loss is None else found.held_out_loss
    kept = found.features(len(found.names) - len(found.order))
    order = [*kept.tolist(), *found.order[::-1].tolist()][:MAX_LAST_FEATURES]
    rows = [
        [name(found.names[feature], 40), f"{count:,}", f"{losses[len(found.names) - count]:.4f}"]
        for count, feature in enumerate(order, start=1)
        if count >= len(kept)
    ]
    content = table(["Feature", "Features", "Loss"], rows, caption="Features removed last")
    return card("Features removed last", content, note=LAST_NOTE)
