"""Names of the cross-validation scores. Does not import numpy."""

from __future__ import annotations

from collections.abc import Sequence

from mergesvm.errors import ParameterError

LOSSES = ("neg_squared_loss", "neg_balanced_loss")
"""Scorings that are exact without data."""

SCORINGS = (*LOSSES, "accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc")


def check_scoring(scoring: str | Sequence[str]) -> tuple[str, ...]:
    """Names of scorings; a single name stands for a list of one.

    >>> check_scoring("accuracy")
    ('accuracy',)
    """
    if callable(scoring):
        raise ParameterError(
            f"scoring must be one or more of {', '.join(SCORINGS)}, not {scoring!r}. Scorers of scikit-learn need the "
            f"rows: use MergeSVCCV(scoring=...)."
        )
    names = (scoring,) if isinstance(scoring, str) else tuple(scoring)
    unknown = [name for name in names if name not in SCORINGS]
    if unknown or not names:
        wrong = unknown[0] if unknown else scoring
        raise ParameterError(f"scoring must be one or more of {', '.join(SCORINGS)}, not {wrong!r}.")
    return names
