"""The sum of many pieces of knowledge, or of many folds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from mergesvm.knowledge import algebra
from mergesvm.knowledge.folds import Folds, merge_folds
from mergesvm.knowledge.knowledge import Knowledge

Learned = TypeVar("Learned", Knowledge, Folds)


def merge(pieces: Iterable[Learned]) -> Learned:
    """Add many pieces at once. Pieces may have different classes; folds are added fold by fold.

    >>> import mergesvm as ms
    >>> ms.merge(ms.learn([[float(i)]], ["odd" if i % 2 else "even"]) for i in range(5))
    Knowledge of 5 rows x 1 feature in 2 classes: even 3, odd 2
    """
    given: list[Any] = list(pieces)
    folded = [isinstance(piece, Folds) for piece in given]
    if any(folded) and not all(folded):
        raise TypeError("Cannot merge folds and knowledge. Use folds.total for the knowledge of all folds.")
    whole: Any = merge_folds(given) if any(folded) else algebra.merge(given)
    return whole  # type: ignore[no-any-return]
