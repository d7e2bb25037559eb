"""The HTML page of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

import mergesvm
from mergesvm.analysis.evaluation import Evaluation
from mergesvm.reports.charts.bars import bar_chart
from mergesvm.reports.charts.cells import heat_map
from mergesvm.reports.charts.line_chart import HEIGHT, column_chart, line_chart
from mergesvm.reports.charts.svg import Series
from mergesvm.reports.formatting import meter, name, number, plain, shown
from mergesvm.reports.layout import Legend, Tile, card, page, scrolling, table

MAX_CLASSES = 50
"""With more classes, only the most confused ones are in the confusion matrix."""

N_MOST_CONFUSED = 30
MAX_TABLE_ROWS = 200
MAX_UNKNOWN_CLASSES = 8

Numbers = NDArray[np.float64]
Curve = Callable[[int | None], tuple[Numbers, Numbers]]
Area = Callable[[int | None], float]


def evaluation_page(evaluation: Evaluation, title: str, facts: Mapping[str, str]) -> str:
    """An evaluation as one self-contained HTML page, with these facts at its top.

    >>> evaluation = Evaluation(("cat", "dog"))
    >>> evaluation.add(["cat", "dog"], ["cat", "dog"], [[0.9, 0.1], [0.3, 0.7]])
    >>> text = evaluation_page(evaluation, "Cats & dogs", {"model": "pets.msvm"})
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
    return page(title, facts, _tiles(evaluation), cards, footer=_footer(evaluation))


def _focus(evaluation: Evaluation) -> int | None:
    """The last of two classes, whose curves determine the other's; None for the mean of more."""
    return len(evaluation.classes) - 1 if len(evaluation.classes) < 3 else None


def _tiles(evaluation: Evaluation) -> list[Tile]:
    focus, weight, support = _focus(evaluation), evaluation.weight, evaluation.support
    fractions = support[support > 0] / max(weight, 1e-300)
    of = "mean of the classes" if focus is None else f"of {name(evaluation.classes[focus], 16)}"
    wrong = weight - float(np.trace(evaluation.confusion))
    entropy = float(-(fractions @ np.log(fractions)))
    error = evaluation.calibration_error(focus)
    return [
        Tile("Accuracy", shown(evaluation.accuracy, ".1%"), f"largest class alone: {max([*fractions, 0.0]):.1%}"),
        Tile("Balanced accuracy", shown(evaluation.balanced_accuracy, ".1%"), "mean recall of the classes"),
        Tile("ROC AUC", shown(evaluation.auc(focus)), of),
        Tile("Average precision", shown(evaluation.average_precision(focus)), of),
        Tile("Log-loss", shown(evaluation.log_loss), f"class frequencies alone: {entropy:.3f}"),
        Tile("Brier score", shown(evaluation.brier), "squared error of the probabilities"),
        Tile("Calibration error", shown(error, ".1%"), "mean of predicted minus observed, absolute"),
        Tile("Rows", f"{evaluation.rows:,}", f"{number(round(wrong, 6))} {'of weight ' * evaluation.weighted}wrong"),
    ]


def _confusion(evaluation: Evaluation) -> Markup:
    counts, names = evaluation.confusion, [name(label) for label in evaluation.labels]
    n_classes, unknown = len(evaluation.classes), len(evaluation.unknown)
    label = f"Confusion matrix of {n_classes} classes"
    if n_classes > MAX_CLASSES:
        chosen = _most_confused(counts)
        names = [names[at] for at in chosen]
        chart = heat_map(counts[np.ix_(chosen, chosen)], names, names, label=label, totals=evaluation.support[chosen])
        text = f"Percent of the true class; the {len(chosen)} most confused of {n_classes:,}."
    else:
        if unknown > MAX_UNKNOWN_CLASSES:
            counts = np.vstack([counts[:n_classes], counts[n_classes:].sum(axis=0)])
            names = [*names[:n_classes], f"{unknown} others"]
        chart = heat_map(counts, names, names[:n_classes], label=label)
        detail = (
            f"{_noun(evaluation).capitalize()} and fraction"
            if n_classes <= 18
            else "Percent"
            if n_classes <= 34
            else "Colour by fraction"
        )
        text = f"{detail} of the true class." + (" Orange names are unknown to the model." if unknown else "")
    legends = [Legend("main", "correct"), Legend("bad", "wrong (root scale)")]
    return card("Confusion", scrolling(chart), width=4, note=text, legends=legends)


def _pairs_by_count(counts: Numbers) -> list[tuple[int, int]]:
    """True and predicted class of each kind of error, the most frequent first."""
    errors = counts.copy()
    np.fill_diagonal(errors, 0.0)
    order = np.argsort(-errors, axis=None, kind="stable")[: int((errors > 0).sum())]
    return [divmod(int(at), counts.shape[1]) for at in order]


def _most_confused(counts: Numbers) -> list[int]:
    n_classes = counts.shape[1]
    seen = dict.fromkeys(at for pair in _pairs_by_count(counts) for at in pair if at < n_classes)
    return sorted([*seen, *(at for at in range(n_classes) if at not in seen)][:N_MOST_CONFUSED])


def _pairs(evaluation: Evaluation) -> Markup:
    counts, support, labels = evaluation.confusion, evaluation.support, evaluation.labels
    # About the height of the confusion matrix beside it.
    most = min(max(6, len(labels) * 7 // 5), 20)
    rows = [
        (name(labels[i], 40), name(labels[j], 40), number(counts[i, j]), meter(counts[i, j] / support[i]))
        for i, j in _pairs_by_count(counts)[:most]
    ]
    if not rows:
        return card("Most confused", "No row was predicted wrongly.")
    columns = ("True", "Predicted", _noun(evaluation).capitalize(), "Of true class")
    return card("Most confused", table(columns, rows, texts=2, caption="Most confused pairs of classes"))


def _roc(evaluation: Evaluation) -> Markup:
    lines = _lines(evaluation, evaluation.roc, evaluation.auc, "AUC")
    axes = "false positive rate", "true positive rate"
    return card("ROC", line_chart(lines, *axes, label="ROC curves", diagonal=True), note=_positive_class(evaluation))


def _precision_recall(evaluation: Evaluation) -> Markup:
    lines = _lines(evaluation, evaluation.precision_recall, evaluation.average_precision, "AP")
    focus = _focus(evaluation)
    if focus is not None and evaluation.rows:
        chance = float(evaluation.support[focus]) / evaluation.weight
        lines.append(Series([chance, chance], f"by chance: {chance:.3f}", "dashed", x=[0, 1]))
    chart = line_chart(lines, "recall", "precision", label="Precision-recall curves")
    return card("Precision and recall", chart, note=_positive_class(evaluation))


def _positive_class(evaluation: Evaluation) -> str:
    focus = _focus(evaluation)
    return "Each class against all others." if focus is None else f"Positive: {name(evaluation.classes[focus], 60)}."


def _lines(evaluation: Evaluation, curve: Curve, area: Area, short: str) -> list[Series]:
    """One line for two classes; for more, a faint line per class, the best, the worst, and the mean."""

    def line(index: int | None, title: str, style: str) -> Series:
        x, y = curve(index)
        return Series(y, f"{title}: {short} {shown(area(index))}", style, x=x)

    focus = _focus(evaluation)
    if focus is not None:
        return [line(focus, name(evaluation.classes[focus], 32), "main")]
    areas = np.array([area(index) for index in range(len(evaluation.classes))])
    ranked = [int(index) for index in np.argsort(areas) if not np.isnan(areas[index])]
    if not ranked:
        return []
    names = [name(label, 28) for label in evaluation.classes]
    spread = np.unique(np.linspace(0, len(ranked) - 1, min(len(ranked), MAX_CLASSES)).astype(int)).tolist()
    faint = [line(ranked[at], names[ranked[at]], "faint") for at in spread]
    worst, best = ranked[0], ranked[-1]
    marked = [line(best, f"best, {names[best]}", "good"), line(worst, f"worst, {names[worst]}", "bad")]
    return [*faint, *marked, line(None, "mean of the classes", "main")]


def _calibration(evaluation: Evaluation) -> Markup:
    focus = _focus(evaluation)
    expected, observed, weights = evaluation.calibration(focus)
    fine = evaluation.calibration(focus, bins=20)[2].tolist()
    of = "the predicted class" if focus is None else name(evaluation.classes[focus], 60)
    note = f"Fraction of rows that are {of if focus is not None else 'correct'}, by predicted probability."
    title = f"mean error {shown(evaluation.calibration_error(focus), '.1%')}; error bars: 95%"
    rows = weights * (evaluation.rows / max(evaluation.weight, 1e-300))
    line = Series(observed, title, x=expected, spans=_wilson(observed, rows))
    axes = f"probability of {plain(of, 24)}", "observed fraction"
    chart = line_chart([line], *axes, label="Calibration", diagonal=True, height=HEIGHT - 84)
    titles = [f"{at / 20:.2f} to {(at + 1) / 20:.2f}: {number(weight)} rows" for at, weight in enumerate(fine)]
    columns = column_chart(fine, titles, label="Rows by predicted probability", y_name="rows")
    return card("Calibration", chart, columns, note=note)


def _wilson(observed: Numbers, rows: Numbers, z: float = 1.96) -> list[tuple[float, float]]:
    """95% intervals of observed fractions (Wilson, 1927), which stay within 0 and 1 even for few rows."""
    inverse = z**2 / np.maximum(rows, 1e-9)
    middle = (observed + inverse / 2) / (1 + inverse)
    reach = np.sqrt(inverse * observed * (1 - observed) + inverse**2 / 4) / (1 + inverse)
    return list(zip((middle - reach).tolist(), (middle + reach).tolist(), strict=True))


def _classes(evaluation: Evaluation) -> Markup:
    n_classes, f1 = len(evaluation.classes), evaluation.f1
    order: Sequence[Any] = range(len(f1)) if len(f1) <= MAX_TABLE_ROWS else np.argsort(f1)[:MAX_TABLE_ROWS].tolist()
    parts, sizes = (evaluation.precision, evaluation.recall, f1), (evaluation.support, evaluation.predicted)
    labels, rows = evaluation.labels, []
    for at in order:
        known = at < n_classes
        title = name(labels[at], 80) + ("" if known else " (unknown to the model)")
        areas = (evaluation.auc(at), evaluation.average_precision(at)) if known else (np.nan, np.nan)
        scores = [shown(float(part[at])) for part in parts]
        rows.append([title, *scores, *map(shown, areas), *(number(size[at]) for size in sizes)])
    columns = (
        "Class",
        "Precision",
        "Recall",
        "F1",
        "AUC",
        "AP",
        f"True {_noun(evaluation)}",
        f"Predicted {_noun(evaluation)}",
    )
    note = "" if len(f1) <= MAX_TABLE_ROWS else f"The {MAX_TABLE_ROWS} classes of {len(f1):,} with the lowest F1."
    return card("Classes", table(columns, rows, caption="Scores of each class"), width=4, note=note)


def _noun(evaluation: Evaluation) -> str:
    """What the counts of classes are: rows, or the sums of their weights."""
    return "weight" if evaluation.weighted else "rows"


def _balance(evaluation: Evaluation) -> Markup:
    support, predicted, labels = evaluation.support, evaluation.predicted, evaluation.labels
    many = len(support) > MAX_CLASSES
    order = np.argsort(-support, kind="stable")[:MAX_CLASSES] if many else np.arange(len(support))
    names = [name(labels[at]) for at in order]
    series = [Series(support[order], "true", "main"), Series(predicted[order], "predicted", "other")]
    note = (
        f"The {MAX_CLASSES} largest of {len(support):,} classes."
        if many
        else f"{_noun(evaluation).capitalize()} of each class."
    )
    return card("Class balance", bar_chart(names, series, label="True and predicted rows of each class"), note=note)


def _footer(evaluation: Evaluation) -> str:
    bounds = [evaluation.auc_error(at) for at in range(len(evaluation.classes))]
    known = [bound for bound in bounds if not np.isnan(bound)]
    worst = max([*known, 0.0])
    accuracy = f"; the error of each AUC is at most {worst:.1g}" if worst else ""
    return (
        f"Written by mergesvm {mergesvm.__version__}. Counts and losses are exact. Curves are from histograms of "
        f"{evaluation.bins:,} bins per class{accuracy}."
    )
