"""The page that shows what the sums alone tell."""

from __future__ import annotations

import numpy as np

import mergesvm
from mergesvm.knowledge.provenance import now
from mergesvm.multiclass.decomposition import MULTICLASS_SCHEMES
from mergesvm.report.answers import Answers
from mergesvm.report.cards.drift import drift_cards
from mergesvm.report.cards.features import feature_cards
from mergesvm.report.cards.influence import influence_cards
from mergesvm.report.cards.path import path_cards, weights_name
from mergesvm.report.cards.threshold import threshold_cards
from mergesvm.report.formatting import shown, whole
from mergesvm.report.html import Markup, card, fact_list, join, meter, page, table, tag, tile, tiles

MOST_CLASSES = 200

FOOTER = (
    "Written by mergesvm {version} from sums alone: no row was read. Squared losses, coefficients, suspicions and "
    "distances are exact. All else is estimated as if the scores of each class were normal; measure it on rows kept "
    "back, where it matters: mergesvm evaluate."
)


def answers_page(answers: Answers, title: str, source: str) -> str:
    """All answers as one page of HTML that needs nothing else."""
    total = answers.subject.total
    mapped = total.signature.mapped
    facts = {
        "Knowledge": source,
        "Held out": answers.held_out or "nothing",
        "C": f"{answers.terms.C:g}, {answers.how}",
        "Class weights": weights_name(answers.terms.class_weight),
        "Multi-class": MULTICLASS_SCHEMES[answers.terms.multiclass],
        "Standardised": "yes" if answers.terms.standardize else "no",
        **({"Features": repr(total.features)} if mapped else {}),
        **({} if total.per_class else {"Form": "pooled"}),
        "Written": now(),
    }
    cards = [
        *path_cards(answers),
        *threshold_cards(answers),
        _classes(answers),
        *feature_cards(answers),
        *_missing(answers),
        *influence_cards(answers),
        *drift_cards(answers),
    ]
    remarks = [tag("p", f"Note: {remark}") for remark in answers.remarks]
    content = fact_list(facts), *remarks, _tiles(answers), tag("div", join(cards), class_="cards")
    return page(title, *content, footer=FOOTER.format(version=mergesvm.__version__))


def _tiles(answers: Answers) -> Markup:
    total, estimates = answers.subject.total, answers.estimates
    shares = total.frequencies / total.frequencies.sum()
    kind = "no model" if estimates is None else "estimated, held out" if estimates.held_out else "estimated, in sample"

    def numbers(key: str, form: str) -> tuple[str, str]:
        if estimates is None:
            return "-", kind
        deviation = estimates.deviations[key]
        exact = kind.replace("estimated", "exact") if key == "loss" else kind
        return shown(estimates.means[key], form), exact + (f", ± {deviation:{form}}" if np.isfinite(deviation) else "")

    counts = f"{len(total.labels):,} classes, {total.width:,} features"
    return tiles(
        [
            tile("Accuracy", *numbers("accuracy", ".1%")),
            tile("Balanced accuracy", *numbers("balanced_accuracy", ".1%")),
            tile("ROC AUC", *numbers("auc", ".3f")),
            tile("Log-loss", *numbers("log_loss", ".3f")),
            tile("Squared loss", *numbers("loss", ".4f")),
            tile("C", f"{answers.terms.C:g}" if estimates is not None else "-", answers.how),
            tile("Largest class", f"{shares.max():.1%}", "accuracy of predicting nothing else"),
            tile("Rows", f"{int(total.rows.sum()):,}", counts),
        ]
    )


def _missing(answers: Answers) -> list[Markup]:
    """What is not on the page, and why not."""
    titles = {
        "path": "Path of C",
        "elimination": "Fewer features",
        "curve": "Operating points",
        "influence": "Influence of pieces",
        "drift": "Drift between pieces",
    }
    if len(answers.subject.total.labels) > 2:
        del titles["curve"]  # which nobody with three classes looks for
    reasons = {title: getattr(answers, key) for key, title in titles.items()}
    rows = [[title, reason] for title, reason in reasons.items() if isinstance(reason, str)]
    note = "What this report can show of other knowledge, and what it takes."
    content = table(["What", "Why not"], rows, caption="What is not shown", texts=2)
    return [card("Not shown", content, width=4, note=note)] if rows else []


def _classes(answers: Answers) -> Markup:
    total, estimates = answers.subject.total, answers.estimates
    counts = total.frequencies
    recalls = np.full(len(counts), np.nan) if estimates is None else estimates.recalls
    order = np.argsort(-counts, kind="stable")[:MOST_CLASSES].tolist()
    rows = [
        [
            whole(total.labels[at], 32),
            f"{total.rows[at]:,}",
            f"{counts[at] / counts.sum():.1%}",
            shown(float(recalls[at]), ".1%"),
            meter(float(1 - recalls[at])) if np.isfinite(recalls[at]) else "-",
        ]
        for at in order
    ]
    many = f"The {MOST_CLASSES} largest of {len(counts):,}. " if len(counts) > MOST_CLASSES else ""
    where = "" if estimates is None else "held out" if estimates.held_out else "on the rows learned from, too high"
    note = (
        f"{many}Rows and shares are exact; recall, the share of a class that is found, is estimated for normal "
        f"scores{', ' if where else ''}{where}. Not to be trusted for classes of few rows."
    )
    return card("Classes", table(["Class", "Rows", "Share", "Recall", "Missed"], rows, caption="Classes"), note=note)
