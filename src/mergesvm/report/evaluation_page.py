"""The page that shows an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mergesvm
from mergesvm.analysis.evaluation import Evaluation
from mergesvm.report.charts.charts import HEIGHT, Series, bar_chart, column_chart, heat_map, line_chart, number
from mergesvm.report.html import Markup, card, fact_list, join, meter, page, plain, ramp, table, tag, tile, tiles

MOST_CLASSES = 50
"""Of more classes than this, no matrix can be read."""

CHOSEN = 30
"""So many of them, the most confused, are shown instead."""

MOST_ROWS = 200
FEW_UNKNOWN = 8

Numbers = NDArray[np.float64]
Curve = Callable[[int | None], tuple[Numbers, Numbers]]
Area = Callable[[int | None], float]


def report_page(evaluation: Evaluation, title: str, facts: Mapping[str, str]) -> str:
    """An evaluation as one page of HTML that needs nothing else.

    >>> evaluation = Evaluation(("cat", "dog"))
    >>> evaluation.add(["cat", "dog"], ["cat", "dog"], [[0.9, 0.1], [0.3, 0.7]])
    >>> text = report_page(evaluation, "Cats & dogs", {"model": "pets.msvm"})
    >>> "<title>Cats &amp; dogs</title>" in text, "100.0%" in text
    (True, True)
    """
    cards = [
        _confusion(evaluation),
        _pairs(evaluation),
        _roc(evaluation),
        _precision_recall(evaluation),
        _calibration(evaluation),
        _classes(evaluation),
        _balance(evaluation),
    ]
    content = _tiles(evaluation), tag("div", join(cards), class_="cards")
    return page(title, fact_list(facts), *content, footer=_footer(evaluation))


def _name(label: object, limit: int | None = None) -> str:
    return plain(label, limit) or "(empty)"


def _shown(value: float, form: str = ".3f") -> str:
    return "-" if np.isnan(value) else format(value, form)


def _focus(evaluation: Evaluation) -> int | None:
    """Of two classes the last, whose curves say all; of more, None for their mean."""
    return len(evaluation.classes) - 1 if len(evaluation.classes) < 3 else None


def _tiles(evaluation: Evaluation) -> Markup:
    focus, weight, support = _focus(evaluation), evaluation.weight, evaluation.support
    shares = support[support > 0] / max(weight, 1e-300)
    of = "mean of the classes" if focus is None else f"of {_name(evaluation.classes[focus], 16)}"
    wrong = weight - float(np.trace(evaluation.confusion))
    return tiles(
        [
            tile("Accuracy", _shown(evaluation.accuracy, ".1%"), f"largest class alone: {max([*shares, 0.0]):.1%}"),
            tile("Balanced accuracy", _shown(evaluation.balanced_accuracy, ".1%"), "mean recall of the classes"),
            tile("ROC AUC", _shown(evaluation.auc(focus)), of),
            tile("Average precision", _shown(evaluation.average_precision(focus)), of),
            tile(
                "Log-loss", _shown(evaluation.log_loss), f"class shares alone: {float(-(shares @ np.log(shares))):.3f}"
            ),
            tile("Brier score", _shown(evaluation.brier), "squared error of the probabilities"),
            tile(
                "Calibration error",
                _shown(evaluation.calibration_error(focus), ".1%"),
                "predicted from observed, on average",
            ),
            tile("Rows", f"{evaluation.rows:,}", f"{number(round(wrong, 6))} wrong"),
        ]
    )


def _confusion(evaluation: Evaluation) -> Markup:
    counts, names = evaluation.confusion, [_name(label) for label in evaluation.labels]
    n_classes, unknown = len(evaluation.classes), len(evaluation.unknown)
    label = f"Confusion matrix of {n_classes} classes"
    if n_classes > MOST_CLASSES:
        chosen = _most_confused(counts)
        names = [names[at] for at in chosen]
        chart = heat_map(counts[np.ix_(chosen, chosen)], names, names, label=label, totals=evaluation.support[chosen])
        text = f"Percent of the true class; the {len(chosen)} most confused of {n_classes:,}."
    else:
        if unknown > FEW_UNKNOWN:
            counts = np.vstack([counts[:n_classes], counts[n_classes:].sum(axis=0)])
            names = [*names[:n_classes], f"{unknown} others"]
        chart = heat_map(counts, names, names[:n_classes], label=label)
        detail = "Rows, and their share" if n_classes <= 18 else "Percent" if n_classes <= 34 else "Colours by share"
        text = f"{detail} of the true class." + (" Orange names are not known to the model." if unknown else "")
    note = join([tag("span", text), ramp("main", "right"), ramp("bad", "wrong (root scale)")])
    return card("Confusion", tag("div", chart, class_="wide"), width=4, note=note)


def _pairs_by_count(counts: Numbers) -> list[tuple[int, int]]:
    """True and predicted class of all errors, the most frequent first."""
    errors = counts.copy()
    np.fill_diagonal(errors, 0.0)
    order = np.argsort(-errors, axis=None, kind="stable")[: int((errors > 0).sum())]
    return [divmod(int(at), counts.shape[1]) for at in order]


def _most_confused(counts: Numbers) -> list[int]:
    n_classes = counts.shape[1]
    seen = dict.fromkeys(at for pair in _pairs_by_count(counts) for at in pair if at < n_classes)
    return sorted([*seen, *(at for at in range(n_classes) if at not in seen)][:CHOSEN])


def _pairs(evaluation: Evaluation) -> Markup:
    counts, support, labels = evaluation.confusion, evaluation.support, evaluation.labels
    # About as many as stand beside the matrix.
    most = min(max(6, len(labels) * 7 // 5), 20)
    rows = [
        (_name(labels[i], 40), _name(labels[j], 40), number(counts[i, j]), meter(counts[i, j] / support[i]))
        for i, j in _pairs_by_count(counts)[:most]
    ]
    if not rows:
        return card("Most confused", tag("p", "No row was predicted wrongly."))
    columns = ("True", "Predicted", "Rows", "Of the true")
    return card("Most confused", table(columns, rows, texts=2, caption="Most confused pairs of classes"))


def _roc(evaluation: Evaluation) -> Markup:
    lines = _lines(evaluation, evaluation.roc, evaluation.auc, "AUC")
    axes = "false positive rate", "true positive rate"
    return card("ROC", line_chart(lines, *axes, label="ROC curves", diagonal=True), note=_about(evaluation))


def _precision_recall(evaluation: Evaluation) -> Markup:
    lines = _lines(evaluation, evaluation.precision_recall, evaluation.average_precision, "AP")
    focus = _focus(evaluation)
    if focus is not None and evaluation.rows:
        share = float(evaluation.support[focus]) / evaluation.weight
        lines.append(Series([share, share], f"by chance: {share:.3f}", "dashed", x=[0, 1]))
    chart = line_chart(lines, "recall", "precision", label="Precision-recall curves")
    return card("Precision and recall", chart, note=_about(evaluation))


def _about(evaluation: Evaluation) -> str:
    focus = _focus(evaluation)
    return "Each class against all others." if focus is None else f"Positive: {_name(evaluation.classes[focus], 60)}."


def _lines(evaluation: Evaluation, curve: Curve, area: Area, short: str) -> list[Series]:
    """For two classes one line; for more a faint one a class, the worst, the best, and the mean."""

    def line(index: int | None, name: str, kind: str) -> Series:
        x, y = curve(index)
        return Series(y, f"{name}: {short} {_shown(area(index))}", kind, x=x)

    focus = _focus(evaluation)
    if focus is not None:
        return [line(focus, _name(evaluation.classes[focus], 32), "main")]
    areas = np.array([area(index) for index in range(len(evaluation.classes))])
    ranked = [int(index) for index in np.argsort(areas) if not np.isnan(areas[index])]
    if not ranked:
        return []
    names = [_name(label, 28) for label in evaluation.classes]
    spread = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), MOST_CLASSES)).astype(int)).tolist()
    faint = [line(ranked[at], names[ranked[at]], "faint") for at in spread]
    worst, best = ranked[0], ranked[-1]
    marked = [line(best, f"best, {names[best]}", "good"), line(worst, f"worst, {names[worst]}", "bad")]
    return [*faint, *marked, line(None, "mean of the classes", "main")]


def _calibration(evaluation: Evaluation) -> Markup:
    focus = _focus(evaluation)
    expected, observed, weights = evaluation.calibration(focus)
    fine = evaluation.calibration(focus, bins=20)[2].tolist()
    of = "the predicted class" if focus is None else _name(evaluation.classes[focus], 60)
    note = "How often it is right when it is so sure." if focus is None else f"How often it is {of} when it says so."
    name = f"off by {_shown(evaluation.calibration_error(focus), '.1%')} on average; whiskers: 95%"
    line = Series(
        observed,
        name,
        x=expected,
        spans=_wilson(observed, weights * (evaluation.rows / max(evaluation.weight, 1e-300))),
    )
    axes = f"probability of {plain(of, 24)}", "observed share"
    chart = line_chart([line], *axes, label="Calibration", diagonal=True, height=HEIGHT - 84)
    titles = [f"{at / 20:.2f} to {(at + 1) / 20:.2f}: {number(weight)} rows" for at, weight in enumerate(fine)]
    columns = column_chart(fine, titles, label="How many rows have which probability", y_name="rows")
    return card("Calibration", chart, columns, note=note)


def _wilson(observed: Numbers, rows: Numbers, z: float = 1.96) -> list[tuple[float, float]]:
    """Intervals of 95% about observed shares (Wilson, 1927), which stay within 0 and 1 however few the rows."""
    inverse = z**2 / np.maximum(rows, 1e-9)
    middle = (observed + inverse / 2) / (1 + inverse)
    reach = np.sqrt(inverse * observed * (1 - observed) + inverse**2 / 4) / (1 + inverse)
    return list(zip((middle - reach).tolist(), (middle + reach).tolist(), strict=True))


def _classes(evaluation: Evaluation) -> Markup:
    n_classes, f1 = len(evaluation.classes), evaluation.f1
    order: Sequence[Any] = range(len(f1)) if len(f1) <= MOST_ROWS else np.argsort(f1)[:MOST_ROWS].tolist()
    parts, sizes = (evaluation.precision, evaluation.recall, f1), (evaluation.support, evaluation.predicted)
    labels, rows = evaluation.labels, []
    for at in order:
        known = at < n_classes
        name = _name(labels[at], 80) + ("" if known else " (not known to the model)")
        areas = (evaluation.auc(at), evaluation.average_precision(at)) if known else (np.nan, np.nan)
        scores = [_shown(float(part[at])) for part in parts]
        rows.append([name, *scores, *map(_shown, areas), *(number(size[at]) for size in sizes)])
    columns = ("Class", "Precision", "Recall", "F1", "AUC", "AP", "True rows", "Predicted")
    note = "" if len(f1) <= MOST_ROWS else f"The {MOST_ROWS} of {len(f1):,} classes with the lowest F1."
    return card("Classes", table(columns, rows, caption="Scores of each class"), width=4, note=note)


def _balance(evaluation: Evaluation) -> Markup:
    support, predicted, labels = evaluation.support, evaluation.predicted, evaluation.labels
    many = len(support) > MOST_CLASSES
    order = np.argsort(-support, kind="stable")[:MOST_CLASSES] if many else np.arange(len(support))
    names = [_name(labels[at]) for at in order]
    series = [Series(support[order], "true", "main"), Series(predicted[order], "predicted", "other")]
    note = f"The {MOST_CLASSES} largest of {len(support):,} classes." if many else "Rows of each class."
    return card("Class balance", bar_chart(names, series, label="True and predicted rows of each class"), note=note)


def _footer(evaluation: Evaluation) -> str:
    bounds = [evaluation.auc_error(at) for at in range(len(evaluation.classes))]
    known = [bound for bound in bounds if not np.isnan(bound)]
    worst = max([*known, 0.0])
    exact = f"; no AUC is off by more than {worst:.1g}" if worst else ""
    return (
        f"Written by mergesvm {mergesvm.__version__}. Counts and losses are exact. Curves are from histograms of "
        f"{evaluation.bins:,} bins a class{exact}."
    )
