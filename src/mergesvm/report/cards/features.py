"""The cards on features: what each does to the scores, and what it costs to do without."""

from __future__ import annotations

import numpy as np

from mergesvm.analysis.importance import Elimination
from mergesvm.models.linear import LinearModel
from mergesvm.report.answers import Answers
from mergesvm.report.charts.axis import Axis
from mergesvm.report.charts.cells import cell_map
from mergesvm.report.charts.charts import Series, line_chart
from mergesvm.report.charts.signed_bars import signed_bars
from mergesvm.report.formatting import name
from mergesvm.report.html import Markup, card, join, ramp, table, tag

MOST_FEATURES = 20
MOST_CLASSES = 12
LAST = 12
"""So many of the features that stay longest are named."""

LAST_NOTE = (
    "The loss, exact, with a feature and all above it. Not always the best set of so many features: none that has left "
    "comes back."
)


def feature_cards(answers: Answers) -> list[Markup]:
    """Coefficients, what it costs to do with fewer features, and those that stay longest."""
    found = answers.elimination
    return [*_coefficients(answers), *([] if isinstance(found, str) else [_elimination(answers, found), _last(found)])]


def _coefficients(answers: Answers) -> list[Markup]:
    importance, model = answers.importance, answers.model
    if importance is None or model is None:
        return []
    order = np.argsort(-importance.overall, kind="stable")[:MOST_FEATURES]
    names = [name(importance.names[at]) for at in order]
    labels = answers.subject.total.labels
    many = len(importance.names) > MOST_FEATURES
    which = f"The {MOST_FEATURES} largest of {len(importance.names):,}. " if many else ""
    doubt = "Features that say the same share their weight, so a small one need not be useless."
    if len(labels) == 2:
        note = f"{which}Change of the score with one standard deviation of a feature, exact. {doubt}"
        values = importance.coefs[0][order].tolist()
        chart = signed_bars(
            names, values, label="Largest coefficients", up=f"for {name(labels[1])}", down=f"for {name(labels[0])}"
        )
        return [card("Coefficients", chart, note=note)]
    if isinstance(model, LinearModel) and len(labels) <= MOST_CLASSES:
        text = f"{which}Change of the score of each class with one standard deviation of a feature, exact. {doubt}"
        note = join([tag("span", text), ramp("main", "for"), ramp("bad", "against")])
        values = importance.coefs[:, order].T
        chart = cell_map(values, names, [name(label) for label in labels], label="Largest coefficients", kind="main")
        return [card("Coefficients", chart, note=note)]
    of = "classes" if isinstance(model, LinearModel) else "pairs of classes"
    note = (
        f"{which}Change of the scores with one standard deviation of a feature, exact; its root mean square over all "
        f"{of}. {doubt}"
    )
    chart = signed_bars(names, importance.overall[order].tolist(), label="Largest coefficients")
    return [card("Coefficients", chart, note=note)]


def _elimination(answers: Answers, found: Elimination) -> Markup:
    left = [float(len(found.names) - step) for step in range(len(found.loss))]
    lines = [
        Series(found.loss, "on the rows learned from", "dashed" if found.held_out_loss is not None else "main", x=left)
    ]
    doubt = "The order depends on the units of features. " if not answers.terms.standardize else ""
    if found.held_out_loss is None:
        note = f"Squared loss on the rows learned from, exact. {doubt}It falls with every feature: hold out folds."
    else:
        note = (
            f"Squared loss with the features that are left, exact. {doubt}The order has seen the rows held out, so the "
            f"loss is a little too low where it chose."
        )
        best = found.best or len(found.names)
        at = len(found.names) - best
        lines.append(Series(found.held_out_loss, "on rows held out", "main", x=left))
        mark = float(found.held_out_loss[at])
        lines.append(
            Series([mark], f"least with {best:,} of {len(found.names):,}", "bad", x=[best], spans=[(mark, mark)])
        )
    values = np.concatenate([line.y for line in lines])
    axes = Axis(0.0, float(len(found.names))), Axis.over(values)
    chart = line_chart(lines, "features left", "squared loss", label="Loss over the number of features", axes=axes)
    return card("Fewer features", chart, note=note)


def _last(found: Elimination) -> Markup:
    """The features that stay longest, with the loss once all others have left."""
    losses = found.loss if found.held_out_loss is None else found.held_out_loss
    kept = found.features(len(found.names) - len(found.order))
    order = [*kept.tolist(), *found.order[::-1].tolist()][:LAST]
    rows = [
        [name(found.names[feature], 40), f"{count:,}", f"{losses[len(found.names) - count]:.4f}"]
        for count, feature in enumerate(order, start=1)
        if count >= len(kept)
    ]
    content = table(["Feature", "Features", "Loss"], rows, caption="Features that stay longest")
    return card("Features that stay longest", content, note=LAST_NOTE)
