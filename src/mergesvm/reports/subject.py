"""What a report is about: knowledge, the pieces it consists of, and the folds that can be held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mergesvm.analysis.pieces.pieces import named_pieces
from mergesvm.errors import KnowledgeError
from mergesvm.knowledge.combine import merge
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.text import counted

MAX_PIECES_AS_FOLDS = 20
"""Up to this many pieces are held out one by one; more are held out in groups."""

N_GROUPS = 10


@dataclass(frozen=True)
class Subject:
    """Knowledge to report on; ``held_out`` describes the folds, or says why there are none."""

    total: Knowledge
    folds: Folds | None
    held_out: str
    pieces: dict[str, Knowledge]
    remarks: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Any) -> Subject:
        """The subject of knowledge, folds, or a sequence or mapping of pieces of either.

        >>> import mergesvm as ms
        >>> Subject.of([ms.learn([[0.0], [1.0]], ["a", "b"]), ms.learn([[0.1], [1.1]], ["a", "b"])]).held_out
        '2 pieces, each in turn'
        """
        if isinstance(given, (Knowledge, Folds)):
            given = {"knowledge": given}
        values = list(given.values() if isinstance(given, Mapping) else given)
        totals = [piece.total if isinstance(piece, Folds) else piece for piece in values]
        named = dict(zip(given, totals, strict=True)) if isinstance(given, Mapping) else totals
        pieces = dict(zip(*named_pieces(named, 1), strict=True))
        folds: Folds | None
        if any(isinstance(piece, Folds) for piece in values):
            folds = merge(values) if len(values) > 1 else values[0]
            total, held_out = folds.total, counted(len(folds), "fold")
        else:
            total = merge(pieces.values())
            folds, held_out = _folds_of_pieces(list(pieces.values()))
        if not total.labels:
            raise KnowledgeError("There is nothing to report: the knowledge contains no rows.")
        return cls(total, folds, held_out, pieces, _shared_rows(pieces))


def _folds_of_pieces(pieces: list[Knowledge]) -> tuple[Folds | None, str]:
    """Pieces, or groups of them, as folds; and a description, or the reason why there are none."""
    filled = [piece for piece in pieces if piece.labels]
    if not all(piece.per_class for piece in pieces):
        return None, "Pooled knowledge has no sums per class, so nothing can be held out. Learn without --pooled."
    if len(filled) < 2:
        return None, "Nothing can be held out of one piece without folds. Learn with --folds 5, or name several pieces."
    if len(filled) <= MAX_PIECES_AS_FOLDS:
        return Folds(filled), f"{len(filled)} pieces, each in turn"
    groups = [merge(filled[first::N_GROUPS]) for first in range(N_GROUPS)]
    return Folds(groups), f"{len(filled)} pieces, in {N_GROUPS} groups"


def _shared_rows(pieces: dict[str, Knowledge]) -> tuple[str, ...]:
    """A warning if two pieces contain the same rows; only pieces of earlier file formats are not refused for that."""
    seen: dict[object, str] = {}
    for name, piece in pieces.items():
        for origin in piece.provenance:
            if not origin.taken_back and origin in seen and seen[origin] != name:
                return (f"{seen[origin]} and {name} were both learned from {origin.source}: its rows count twice.",)
            seen.setdefault(origin, name)
    return ()
