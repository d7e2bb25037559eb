"""Knowledge in numbers, for JSON."""

from __future__ import annotations

from typing import Any

import mergesvm as ms


def knowledge_facts(knowledge: ms.Knowledge | ms.Folds) -> dict[str, Any]:
    """Rows, features and classes of knowledge, and how rows are assigned to folds if it has any."""
    if isinstance(knowledge, ms.Folds):
        assignment = knowledge.assignment
        rule = {"by": assignment.by, "column": assignment.column, "rows": knowledge.rows.tolist()}
        return {**knowledge_facts(knowledge.total), "folds": rule}
    return {
        "rows": int(knowledge.rows.sum()),
        "features": knowledge.width,
        "classes": list(knowledge.labels),
        "counts": knowledge.rows.tolist(),
    }
