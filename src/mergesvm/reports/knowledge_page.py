"""The HTML page of a report computed from knowledge."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

import mergesvm
from mergesvm.knowledge.provenance.origin import now
from mergesvm.multiclass.schemes import MULTICLASS_SCHEMES
from mergesvm.reports.answers import Answers
from mergesvm.reports.cards.features import feature_cards
from mergesvm.reports.cards.model import path_cards, threshold_cards
from mergesvm.reports.cards.pieces import drift_cards, influence_cards
from mergesvm.reports.formatting import full_name, meter, number, shown, weights_name
from mergesvm.reports.layout import Tile, card, page, table

MAX_CLASSES = 200

FOOTER = (
    "Written by mergesvm {version} from knowledge alone; no rows were read. Squared losses, coefficients, loss "
    "reductions and distances are exact. Everything else is estimated, assuming normal scores within each class; "
    "to measure it on held-out rows, use mergesvm evaluate."
)


def knowledge_page(answers: Answers, title: str, facts: Mapping[str, str]) -> str:
    """All answers as one self-contained HTML page, with these facts at its top."""
    total, options = answers.subject.total, answers.options
    all_facts = {
        **facts,
        "Held out": answers.held_out or "nothing",
        "C": f"{options.C:g}, {answers.how}",
        "Class weights": weights_name(options.class_weight),
        "Multi-class": MULTICLASS_SCHEMES[options.multiclass],
        "Standardized": "yes" if options.standardize else "no",
        **({"Features": repr(total.features)} if total.signature.mapped else {}),
        **({} if total.per_class else {"Form": "pooled"}),
        "Written": now(),
    }
    cards = [
        *path_cards(answers),
        *threshold_cards(answers),
        _classes(answers),
        *feature_cards(answers),
        *_not_shown(answers),
        *influence_cards(answers),
        *drift_cards(answers),
    ]
    footer = FOOTER.format(version=mergesvm.__version__)
    return page(title, all_facts, _tiles(answers), cards, remarks=answers.remarks, footer=footer)


def _tiles(answers: Answers) -> list[Tile]:
    total, estimates = answers.subject.total, answers.estimates
    fractions = total.frequencies / total.frequencies.sum()
    kind = "no model" if estimates is None else "estimated, held out" if estimates.held_out else "estimated, in sample"

    def estimate_tile(title: str, key: str, form: str) -> Tile:
        if estimates is None:
            return Tile(title, "-", kind)
        note = kind.replace("estimated", "exact") if key == "loss" else kind
        deviation = estimates.deviations[key]
        note += f", ± {deviation:{form}}" if np.isfinite(deviation) else ""
        return Tile(title, shown(estimates.means[key], form), note)

    counts = f"{len(total.labels):,} classes, {total.width:,} features"
    return [
        estimate_tile("Accuracy", "accuracy", ".1%"),
        estimate_tile("Balanced accuracy", "balanced_accuracy", ".1%"),
        estimate_tile("ROC AUC", "auc", ".3f"),
        estimate_tile("Log-loss", "log_loss", ".3f"),
        estimate_tile("Squared loss", "loss", ".4f"),
        Tile("C", f"{answers.options.C:g}" if estimates is not None else "-", answers.how),
        Tile("Largest class", f"{fractions.max():.1%}", "accuracy of always predicting it"),
        Tile("Rows", f"{int(total.rows.sum()):,}", counts),
    ]


def _not_shown(answers: Answers) -> list[Markup]:
    """A table of what is missing from the page, and why."""
    titles = {
        "path": "Path of C",
        "elimination": "Fewer features",
        "curve": "Operating points",
        "influence": "Influence of pieces",
        "drift": "Drift between pieces",
    }
    if len(answers.subject.total.labels) > 2:
        del titles["curve"]  # not expected with more than two classes
    reasons = {title: getattr(answers, key) for key, title in titles.items()}
    rows = [[title, reason] for title, reason in reasons.items() if isinstance(reason, str)]
    content = table(["What", "Why not"], rows, caption="Not shown", texts=2)
    note = "What this report shows for other knowledge, and what it needs."
    return [card("Not shown", content, width=4, note=note)] if rows else []


def _classes(answers: Answers) -> Markup:
    total, estimates = answers.subject.total, answers.estimates
    counts = total.frequencies
    recalls = np.full(len(counts), np.nan) if estimates is None else estimates.recalls
    order = np.argsort(-counts, kind="stable")[:MAX_CLASSES].tolist()
    rows = [
        [
            full_name(total.labels[at], 32),
            f"{total.rows[at]:,}",
            number(counts[at]),
            f"{counts[at] / counts.sum():.1%}",
            shown(float(recalls[at]), ".1%"),
            meter(float(1 - recalls[at])) if np.isfinite(recalls[at]) else "-",
        ]
        for at in order
    ]
    largest = f"The {MAX_CLASSES} largest of {len(counts):,}. " if len(counts) > MAX_CLASSES else ""
    where = ""
    if estimates is not None:
        where = " on held-out rows" if estimates.held_out else " on the rows learned from, too high"
    note = (
        f"{largest}Rows and weights are exact; recall is estimated{where}, assuming normal scores. Unreliable for "
        f"classes of few rows."
    )
    return card(
        "Classes",
        table(["Class", "Rows", "Weight", "Of weight", "Recall", "Missed"], rows, caption="Classes"),
        note=note,
    )
