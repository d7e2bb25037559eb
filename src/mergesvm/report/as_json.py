"""The answers of a report as numbers for machines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mergesvm.cli.commands.knowing import facts
from mergesvm.report.answers import Answers
from mergesvm.report.cards.drift import drift_order


def answers_facts(answers: Answers) -> dict[str, Any]:
    """All numbers; those that are not there are None, and ``missing`` says why."""
    subject, terms, estimates = answers.subject, answers.terms, answers.estimates
    told: dict[str, Any] = {
        **facts(subject.total),
        "pieces": list(subject.pieces),
        "held_out": answers.held_out,
        "C": None if answers.model is None else terms.C,
        "how": answers.how,
        "class_weight": terms.class_weight,
        "multiclass": terms.multiclass,
        "remarks": list(answers.remarks),
    }
    if estimates is not None:
        recalls = zip(subject.total.labels, estimates.recalls.tolist(), strict=True)
        told["estimates"] = {
            "on": "held-out rows" if estimates.held_out else "the rows learned from",
            **estimates.means,
            "deviations": estimates.deviations,
            "recalls": [{"class": label, "recall": recall} for label, recall in recalls],
        }
    if answers.importance is not None:
        told["importance"] = answers.importance.table()
    tables: dict[str, Any] = {
        "path": lambda path: path.table(),
        "elimination": lambda found: {"best": found.best, "steps": found.table()},
        "curve": lambda found: {
            "auc": found.curve.auc,
            "positive": found.curve.positive,
            "points": [{"wanted": wish, **_point(point)} for wish, point in found.points.items()],
        },
        "influence": lambda found: found.table(),
        "drift": lambda found: {
            "level": found.level,
            "drifted": [found.names[at] for at in drift_order(found) if found.drifted[at]],
            "classes": found.table(),
        },
    }
    missing = {}
    for key, tell in tables.items():
        found = getattr(answers, key)
        if isinstance(found, str):
            missing[key] = found
        else:
            told[key] = tell(found)
    cleaned: dict[str, Any] = plain_numbers({**told, "missing": missing})
    return cleaned


def _point(point: Any) -> dict[str, Any]:
    return {key: value for key, value in asdict(point).items() if key not in ("shares", "positive")}


def plain_numbers(value: Any) -> Any:
    """The same for JSON, which knows no NaN, no arrays, and texts only as keys.

    >>> plain_numbers({1: [float("nan"), np.float64(2.0)]})
    {'1': [None, 2.0]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_numbers(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_numbers(each) for each in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
