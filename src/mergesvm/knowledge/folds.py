"""Folds: knowledge that can be validated on rows it has not seen, from one pass over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.data.readers.base import Layout
from mergesvm.errors import FormError, KnowledgeError, ParameterError, SignatureError, SubtractionError
from mergesvm.knowledge.algebra import merge, reanchor, settled
from mergesvm.knowledge.fold_assignment import FoldAssignment
from mergesvm.knowledge.knowledge import Knowledge, counted
from mergesvm.knowledge.provenance import Provenance, without
from mergesvm.knowledge.select import only, several

MOST_HELD = 0.9
"""A class of which a fold has more than this share is not subtracted: one digit would be lost."""


class Folds:
    """Knowledge of the rows of each fold. What is learned without a fold is the total less that fold.

    ``ms.learn(X, y, folds=5)`` gives them, for one pass over the rows. Like knowledge they add and subtract, fold by
    fold, and have files.

    Parameters
    ----------
    parts : sequence of Knowledge
        One a fold. Any pieces will do, such as days or hospitals, each of which is then held out in turn.
    rest : Knowledge, optional
        Of rows that are never held out.
    folding : FoldAssignment, optional
        By what rule rows fell into their folds.
    provenance : tuple of Origin
        The files from which all were learned.

    Examples
    --------
    >>> import mergesvm as ms
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> folds = ms.learn(X, y, folds=3)
    >>> folds
    Folds of 49, 54, 47 rows: Knowledge of 150 rows x 4 features in 3 classes: 0 50, 1 50, 2 50
    >>> len(folds), folds.train(0).rows.sum(), folds[0].rows.sum()
    (3, np.int64(101), np.int64(49))
    """

    def __init__(
        self,
        parts: Sequence[Knowledge],
        rest: Knowledge | None = None,
        folding: FoldAssignment | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        self.folding = FoldAssignment(len(parts), "given") if folding is None else folding
        pieces = [*parts] if rest is None else [*parts, rest]
        strangers = [piece for piece in pieces if not isinstance(piece, Knowledge)]
        if strangers:
            raise KnowledgeError(f"Folds are pieces of knowledge, not {type(strangers[0]).__name__}.")
        if len(parts) != self.folding.count:
            raise KnowledgeError(f"{self.folding.count} folds need as many pieces of knowledge, not {len(parts)}.")
        signature = reduce(lambda one, other: one.joined(other), (piece.signature for piece in pieces))
        if not signature.per_class:
            raise FormError(
                "Folds need the sums of every class, which the pooled form has not. Learn with per_class=True."
            )
        precision = "float32" if any(piece.precision == "float32" for piece in pieces) else "float64"
        alike = [replace(piece, signature=signature, precision=precision) for piece in pieces]
        self.signature, self.parts = signature, tuple(alike[: len(parts)])
        self.rest = alike[-1] if rest is not None and rest.labels else None
        origins = tuple(origin for piece in pieces for origin in piece.provenance)
        self.provenance = origins if provenance is None else provenance

    @classmethod
    def of_cells(cls, cells: Knowledge, folding: FoldAssignment, anchors: NDArray[np.float64] | None = None) -> Folds:
        """Folds from knowledge in which each class of each fold is a class of its own.

        Each fold may have an anchor of its own, the last one for rows that are never held out.
        """
        places: list[Any] = list(cells.labels)
        if folding.by == "given":  # where rows lie apart, none knows how many folds the others have
            folding = replace(folding, count=max([folding.count, *(cell.fold + 1 for cell in places)]))

        def part(fold: int) -> Knowledge:
            anchor = cells.anchor if anchors is None else anchors[fold]
            mine = [cell for cell in places if cell.fold == fold]
            if not mine:
                return Knowledge.zero(cells.signature, anchor)
            labels = tuple(cell.label for cell in mine)
            return replace(only(cells, mine), labels=labels, anchor=anchor, provenance=())

        return cls([part(fold) for fold in range(folding.count)], part(-1), folding, cells.provenance)

    @cached_property
    def total(self) -> Knowledge:
        """The knowledge of all rows."""
        return replace(merge(self.pieces()), provenance=self.provenance)

    def train(self, fold: int) -> Knowledge:
        """The knowledge of all rows but those of one fold."""
        fold = self._place(fold)
        total, others = self.total, self.pieces(fold)
        held_out = reanchor(self.parts[fold], total.anchor)
        rows, counts, sums = total.rows.copy(), total.counts.copy(), total.sums.copy()
        grams: list[Any] = list(total.grams)
        for held, label in enumerate(held_out.labels):
            at = total.labels.index(label)
            rows[at] -= held_out.rows[held]
            if rows[at] == 0:
                continue
            if _little_left(total, at, held_out, held):
                # The others are added up, because a difference would lose their digits.
                kept = merge([only(piece, [label]) for piece in others if label in piece.labels])
                kept = reanchor(kept, total.anchor)
                counts[at], sums[at], grams[at] = kept.counts[0], kept.sums[0], kept.grams[0]
            else:
                counts[at] -= held_out.counts[held]
                sums[at] -= held_out.sums[held]
                grams[at] = total.grams[at] - held_out.grams[held]
        left = np.flatnonzero(rows)
        difference = replace(
            total,
            labels=tuple(total.labels[at] for at in left),
            rows=rows[left],
            counts=counts[left],
            sums=sums[left],
            grams=tuple(grams[at] for at in left),
            peaks=total.peaks[left],
            provenance=(),
        )
        # Where all that is left lies far from the anchor, the others have better ones.
        return difference if settled(difference) is difference else replace(merge(others), provenance=())

    def _place(self, fold: int) -> int:
        if not -len(self) <= fold < len(self):
            raise ParameterError(f"There is no fold {fold}: there are {len(self)}, from 0 to {len(self) - 1}.")
        return fold % len(self)

    def pieces(self, without: int | None = None) -> list[Knowledge]:
        """The knowledge of all folds, or of all but one, and that of rows never held out."""
        parts = [part for fold, part in enumerate(self.parts) if fold != without]
        return parts if self.rest is None else [*parts, self.rest]

    @property
    def layout(self) -> Layout:
        """The columns of the rows."""
        return self.signature.layout

    @property
    def labels(self) -> tuple[Label, ...]:
        """The classes, sorted."""
        return self.total.labels

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, sorted, as an array."""
        return self.total.classes

    @property
    def rows(self) -> NDArray[np.int64]:
        """How many rows each fold has, (folds,)."""
        return np.array([part.rows.sum() for part in self.parts], dtype=np.int64)

    def select(self, features: Sequence[Any]) -> Folds:
        """Folds of some features only; see :meth:`Knowledge.select`."""
        return self._each(lambda piece: piece.select(features))

    def only(self, classes: Iterable[Label]) -> Folds:
        """Folds of some classes only; see :meth:`Knowledge.only`."""
        wanted = list(several(classes))
        self.total.only(wanted)
        return self._each(lambda piece: _some(piece, wanted))

    def join(self, groups: Mapping[Label, Iterable[Label]]) -> Folds:
        """Folds in which several classes have become one; see :meth:`Knowledge.join`."""
        self.total.join(groups)
        groups = {name: list(several(members)) for name, members in groups.items()}

        def joined(piece: Knowledge) -> Knowledge:
            known = {name: [label for label in old if label in piece.labels] for name, old in groups.items()}
            return piece.join({name: old for name, old in known.items() if old})

        return self._each(joined)

    def _each(self, change: Callable[[Knowledge], Knowledge]) -> Folds:
        rest = None if self.rest is None else change(self.rest)
        return Folds([change(part) for part in self.parts], rest, self.folding, self.provenance)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, fold: int) -> Knowledge:
        return self.parts[self._place(fold)]

    def __iter__(self) -> Iterator[Knowledge]:
        return iter(self.parts)

    def __add__(self, other: object) -> Folds:
        return merge_folds([self, other]) if isinstance(other, Folds) else NotImplemented

    def __radd__(self, other: object) -> Folds:
        # So that sum(folds), which begins with 0, works as one expects.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> Folds:
        if not isinstance(other, Folds):
            return NotImplemented
        check_alike(self, other, "subtract", "from")
        left = [_subtracted(self.parts[fold], other.parts[fold], f"fold {fold}") for fold in range(self.folding.count)]
        rest = self.rest
        if other.rest is not None:
            rest = _subtracted(rest or Knowledge.zero(self.signature), other.rest, "rows never held out")
        return Folds(left, rest, self.folding, without(self.provenance, other.provenance))

    def __getstate__(self) -> dict[str, Any]:
        # The total is the sum of what travels.
        return {name: value for name, value in self.__dict__.items() if name != "total"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file that holds no code and can be trusted; :meth:`load` reads it.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> folds = ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "a"], folds=[0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     folds.save(pathlib.Path(folder, "day.knowledge"))
        ...     ms.Folds.load(pathlib.Path(folder, "day.knowledge"))
        Folds of 1, 2 rows: Knowledge of 3 rows x 1 feature in 2 classes: a 2, b 1
        """
        from mergesvm.knowledge.folds_format import save_folds

        save_folds(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Folds:
        """Read from a file; everything is checked before anything is used."""
        from mergesvm.knowledge.folds_format import load_folds

        return load_folds(path)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{rows:,}" for rows in self.rows[:10].tolist()) + (", ..." if len(self.parts) > 10 else "")
        never = "" if self.rest is None else f", and {counted(int(self.rest.rows.sum()), 'row')} never held out"
        return f"Folds of {sizes} rows{never}: {self.total!r}"


def merge_folds(pieces: Sequence[Folds]) -> Folds:
    """The sum of many folds, fold by fold."""
    first = pieces[0]
    for other in pieces[1:]:
        check_alike(first, other, "add", "to")
    parts = [merge([piece.parts[fold] for piece in pieces]) for fold in range(len(first))]
    rests = [piece.rest for piece in pieces if piece.rest is not None]
    origins = tuple(origin for piece in pieces for origin in piece.provenance)
    return Folds(parts, merge(rests) if rests else None, first.folding, origins)


def check_alike(mine: Folds, theirs: Folds, verb: str, preposition: str) -> None:
    """Raise an error that names both rules, if rows fall into folds by different ones."""
    one, other = mine.folding, theirs.folding
    columns = {one.column, other.column} - {None}
    if (one.count, one.by) != (other.count, other.by) or len(columns) > 1:
        raise SignatureError(
            f"Cannot {verb} {other} {preposition} {one}: the same row could be in two of them. Learn all pieces with "
            f"the same folds."
        )


def _subtracted(whole: Knowledge, part: Knowledge, where: str) -> Knowledge:
    try:
        return whole - part
    except SubtractionError as error:
        raise SubtractionError(f"In {where}: {error}") from None


def _little_left(total: Knowledge, at: int, held_out: Knowledge, held: int) -> bool:
    """Whether a difference would lose more than one digit of what a class weighs, or of its squares in some column."""
    if held_out.counts[held] > MOST_HELD * total.counts[at]:
        return True
    squares, all_squares = held_out.grams[held].diagonal(), total.grams[at].diagonal()
    return bool((squares > MOST_HELD * all_squares).any())


def _some(piece: Knowledge, wanted: list[Label]) -> Knowledge:
    known = [label for label in wanted if label in piece.labels]
    return piece.only(known) if known else Knowledge.zero(piece.signature, piece.anchor)
