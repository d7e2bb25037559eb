"""Knowledge in numbers, for JSON."""

from __future__ import annotations

from typing import Any

import mergesvm as ms

MAX_NAMES = 10
"""Constant features that are named."""


def knowledge_facts(knowledge: ms.Knowledge | ms.Folds) -> dict[str, Any]:
    """Rows, features and classes of knowledge, and how rows are assigned to folds if it has any."""
    from mergesvm.analysis.constant_features import constant_features

    if isinstance(knowledge, ms.Folds):
        assignment = knowledge.assignment
        rule = {"by": assignment.by, "column": assignment.column, "rows": knowledge.rows.tolist()}
        return {**knowledge_facts(knowledge.total), "folds": rule}
    return {
        "rows": int(knowledge.rows.sum()),
        "features": knowledge.width,
        "classes": list(knowledge.labels),
        "counts": knowledge.rows.tolist(),
        "constant": constant_features(knowledge),
        "weights": knowledge.counts.tolist(),
    }


def constant_note(constant: list[str], features: int) -> str:
    """A sentence on features that are constant; empty if none is.

    >>> constant_note(["unit"], 3)
    '1 of 3 features is constant, and does not tell classes apart: unit.'
    """
    if not constant:
        return ""
    verbs = "is constant, and does" if len(constant) == 1 else "are constant, and do"
    more = ", ..." if len(constant) > MAX_NAMES else ""
    listed = ", ".join(constant[:MAX_NAMES]) + more
    return f"{len(constant):,} of {features:,} features {verbs} not tell classes apart: {listed}."
