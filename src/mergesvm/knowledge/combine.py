"""Merging and subtracting knowledge, with or without folds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from mergesvm.knowledge import algebra
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge

Learned = TypeVar("Learned", Knowledge, Folds)


def merge(pieces: Iterable[Learned], *, force: bool = False) -> Learned:
    """Add many pieces at once. Pieces may have different classes; folds are added fold by fold.

    Parameters
    ----------
    pieces : iterable of Knowledge, or of Folds
    force : bool
        Allow a piece that is inside already: its rows then count twice, the second time as a piece with a new id.

    Examples
    --------
    >>> import mergesvm as ms
    >>> days = [ms.learn([[float(i)]], ["odd" if i % 2 else "even"]) for i in range(5)]
    >>> ms.merge(days)
    Knowledge of 5 rows x 1 feature in 2 classes: even 3, odd 2
    >>> ms.merge([ms.merge(days), days[2]])
    Traceback (most recent call last):
    ...
    mergesvm.errors.DuplicatePieceError: Cannot merge pieces that are inside already: rows in memory (id ...
    >>> ms.merge([ms.merge(days), days[2]], force=True)
    Knowledge of 6 rows x 1 feature in 2 classes: even 4, odd 2
    """
    given: list[Any] = list(pieces)
    folded = [isinstance(piece, Folds) for piece in given]
    if not any(folded):
        return algebra.merge(given, force=force)  # type: ignore[no-any-return]
    if not all(folded):
        raise TypeError("Cannot merge folds and knowledge. Use folds.total for the knowledge of all folds.")
    return given[0].plus(given[1:], force=force)  # type: ignore[no-any-return]


def subtract(whole: Learned, part: Learned, *, force: bool = False) -> Learned:
    """Subtract a piece that is inside: the result is the knowledge of the remaining rows. Folds need folds.

    Parameters
    ----------
    whole, part : Knowledge, or Folds
    force : bool
        Allow a piece that is not inside, such as rows of a larger piece that were learned again. Its rows are recorded
        as retired under its id, so that they cannot be retired twice. Counts are compared all the same.

    Examples
    --------
    >>> import mergesvm as ms
    >>> day = ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "a"])
    >>> row = ms.learn([[1.0]], ["a"])
    >>> ms.subtract(day, row)
    Traceback (most recent call last):
    ...
    mergesvm.errors.SubtractionError: Cannot subtract pieces that are not inside: rows in memory (id ...
    >>> rest = ms.subtract(day, row, force=True)
    >>> rest, [(origin.rows, origin.taken_back) for origin in rest.provenance]
    (Knowledge of 2 rows x 1 feature in 2 classes: a 1, b 1, [(3, False), (1, True)])
    """
    for piece in (whole, part):
        if not isinstance(piece, (Knowledge, Folds)):
            kind = type(piece).__name__
            raise TypeError(f"Only knowledge can be subtracted, not {kind}. A fitted estimator has it as knowledge_.")
    if isinstance(whole, Folds) and isinstance(part, Folds):
        return whole.minus(part, force=force)
    if isinstance(whole, Knowledge) and isinstance(part, Knowledge):
        return algebra.subtract(whole, part, force=force)
    raise TypeError("Cannot subtract folds and knowledge. Use folds.total for the knowledge of all folds.")
