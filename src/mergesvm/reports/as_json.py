"""The answers of a report as numbers for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mergesvm.reports.answers import Answers
from mergesvm.reports.cards.pieces import drift_order
from mergesvm.reports.knowledge_facts import knowledge_facts


def answers_facts(answers: Answers) -> dict[str, Any]:
    """All numbers of a report; undefined numbers are None, and ``missing`` says why an answer is not there."""
    subject, options, estimates = answers.subject, answers.options, answers.estimates
    facts: dict[str, Any] = {
        **knowledge_facts(subject.total),
        "pieces": list(subject.pieces),
        "held_out": answers.held_out,
        "C": None if answers.model is None else options.C,
        "how": answers.how,
        "class_weight": options.class_weight,
        "multiclass": options.multiclass,
        "remarks": list(answers.remarks),
    }
    if estimates is not None:
        recalls = zip(subject.total.labels, estimates.recalls.tolist(), strict=True)
        facts["estimates"] = {
            "on": "held-out rows" if estimates.held_out else "the rows learned from",
            **estimates.means,
            "deviations": estimates.deviations,
            "recalls": [{"class": label, "recall": recall} for label, recall in recalls],
        }
    if answers.importance is not None:
        facts["importance"] = answers.importance.table()
    tables: dict[str, Any] = {
        "path": lambda path: path.table(),
        "elimination": lambda found: {"best": found.best, "steps": found.table()},
        "curve": lambda found: {
            "auc": found.curve.auc,
            "positive": found.curve.positive,
            "points": [{"wanted": goal, **_point(point)} for goal, point in found.points.items()],
        },
        "influence": lambda found: found.table(),
        "drift": lambda found: {
            "level": found.level,
            "drifted": [found.names[at] for at in drift_order(found) if found.drifted[at]],
            "classes": found.table(),
        },
    }
    missing = {}
    for key, tabulate in tables.items():
        found = getattr(answers, key)
        if isinstance(found, str):
            missing[key] = found
        else:
            facts[key] = tabulate(found)
    cleaned: dict[str, Any] = as_json_value({**facts, "missing": missing})
    return cleaned


def _point(point: Any) -> dict[str, Any]:
    return {key: value for key, value in asdict(point).items() if key not in ("prevalence", "positive")}


def as_json_value(value: Any) -> Any:
    """The same value with None for NaN and infinity, lists for arrays and tuples, and text for keys.

    >>> as_json_value({1: [float("nan"), np.float64(2.0)]})
    {'1': [None, 2.0]}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json_value(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [as_json_value(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
