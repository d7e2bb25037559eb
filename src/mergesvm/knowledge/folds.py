"""Folds: knowledge for cross-validation, learned in one pass over the rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.errors import FormError, KnowledgeError, ParameterError, SignatureError, SubtractionError
from mergesvm.knowledge import algebra
from mergesvm.knowledge.algebra import lowest_precision, reanchor, recentred, take_classes
from mergesvm.knowledge.fold_assignment import FoldAssignment
from mergesvm.knowledge.folds_format import load_folds, save_folds
from mergesvm.knowledge.knowledge import Knowledge, counted
from mergesvm.knowledge.provenance import Provenance, without
from mergesvm.knowledge.select import as_list, only

MAX_SUBTRACTED_FRACTION = 0.9
"""If a fold has more than this fraction of a class, the other folds are added up: a difference would lose a digit."""


class Folds:
    """Knowledge of the rows of each fold: training without a fold uses the total minus that fold.

    ``ms.learn(X, y, folds=5)`` returns folds after one pass over the rows. Like knowledge they can be added and
    subtracted, fold by fold, and saved.

    Parameters
    ----------
    parts : sequence of Knowledge
        One per fold. Any pieces will do, such as days or hospitals, each of which is then held out in turn.
    rest : Knowledge, optional
        The knowledge of rows that are never held out.
    assignment : FoldAssignment, optional
        The rule by which rows were assigned to folds.
    provenance : tuple of Origin
        The files from which all pieces were learned.

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
        assignment: FoldAssignment | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        self.assignment = FoldAssignment(len(parts), "given") if assignment is None else assignment
        pieces = [*parts] if rest is None else [*parts, rest]
        others = [piece for piece in pieces if not isinstance(piece, Knowledge)]
        if others:
            raise KnowledgeError(f"Folds must be pieces of knowledge, not {type(others[0]).__name__}.")
        if len(parts) != self.assignment.count:
            raise KnowledgeError(
                f"{self.assignment.count} folds need {self.assignment.count} pieces of knowledge, not {len(parts)}."
            )
        signature = reduce(lambda one, other: one.joined(other), (piece.signature for piece in pieces))
        if not signature.per_class:
            raise FormError(
                "Folds need the sums of every class, which the pooled form does not have. Learn with per_class=True."
            )
        precision = lowest_precision(pieces)
        alike = [replace(piece, signature=signature, precision=precision) for piece in pieces]
        self.signature, self.parts = signature, tuple(alike[: len(parts)])
        self.rest = alike[-1] if rest is not None and rest.labels else None
        origins = tuple(origin for piece in pieces for origin in piece.provenance)
        self.provenance = origins if provenance is None else provenance

    @classmethod
    def of_cells(
        cls, cells: Knowledge, assignment: FoldAssignment, anchors: NDArray[np.float64] | None = None
    ) -> Folds:
        """Build folds from knowledge whose classes are the cells: one class in one fold each.

        ``anchors`` gives each fold its own anchor, the last one for rows that are never held out.
        """
        places: list[Any] = list(cells.labels)
        if assignment.by == "given":  # a rank with rows of few folds does not know the number of all
            assignment = replace(assignment, count=max([assignment.count, *(cell.fold + 1 for cell in places)]))

        def part(fold: int) -> Knowledge:
            anchor = cells.anchor if anchors is None else anchors[fold]
            mine = [cell for cell in places if cell.fold == fold]
            if not mine:
                return Knowledge.zero(cells.signature, anchor)
            labels = tuple(cell.label for cell in mine)
            return replace(only(cells, mine), labels=labels, anchor=anchor, provenance=())

        return cls([part(fold) for fold in range(assignment.count)], part(-1), assignment, cells.provenance)

    @cached_property
    def total(self) -> Knowledge:
        """The knowledge of all rows."""
        return replace(algebra.merge(self.pieces()), provenance=self.provenance)

    def train(self, fold: int) -> Knowledge:
        """Return the knowledge of all rows except those of one fold."""
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
            if _difference_cancels(total, at, held_out, held):
                kept = algebra.merge([only(piece, [label]) for piece in others if label in piece.labels])
                kept = reanchor(kept, total.anchor)
                counts[at], sums[at], grams[at] = kept.counts[0], kept.sums[0], kept.grams[0]
            else:
                counts[at] -= held_out.counts[held]
                sums[at] -= held_out.sums[held]
                grams[at] = total.grams[at] - held_out.grams[held]
        difference = replace(total, rows=rows, counts=counts, sums=sums, grams=tuple(grams), provenance=())
        difference = take_classes(difference, np.flatnonzero(rows))
        # If all remaining rows are far from the anchor, the anchors of the other folds are better.
        return difference if recentred(difference) is difference else replace(algebra.merge(others), provenance=())

    def _place(self, fold: int) -> int:
        if not -len(self) <= fold < len(self):
            raise ParameterError(f"There is no fold {fold}: there are {len(self)}, from 0 to {len(self) - 1}.")
        return fold % len(self)

    def pieces(self, without: int | None = None) -> list[Knowledge]:
        """Return the knowledge of all folds, or of all but one, and of rows that are never held out."""
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
        """The number of rows of each fold, (folds,)."""
        return np.array([part.rows.sum() for part in self.parts], dtype=np.int64)

    def select(self, features: Sequence[Any]) -> Folds:
        """Return folds of some features; see :meth:`Knowledge.select`."""
        return self._map(lambda piece: piece.select(features))

    def only(self, classes: Iterable[Label]) -> Folds:
        """Return folds of some classes; see :meth:`Knowledge.only`."""
        wanted = list(as_list(classes))
        self.total.only(wanted)
        return self._map(lambda piece: _some(piece, wanted))

    def join(self, groups: Mapping[Label, Iterable[Label]]) -> Folds:
        """Return the folds with each group of classes joined into one class; see :meth:`Knowledge.join`."""
        self.total.join(groups)
        groups = {name: list(as_list(members)) for name, members in groups.items()}

        def joined(piece: Knowledge) -> Knowledge:
            known = {name: [label for label in old if label in piece.labels] for name, old in groups.items()}
            return piece.join({name: old for name, old in known.items() if old})

        return self._map(joined)

    def _map(self, change: Callable[[Knowledge], Knowledge]) -> Folds:
        rest = None if self.rest is None else change(self.rest)
        return Folds([change(part) for part in self.parts], rest, self.assignment, self.provenance)

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, fold: int) -> Knowledge:
        return self.parts[self._place(fold)]

    def __iter__(self) -> Iterator[Knowledge]:
        return iter(self.parts)

    def __add__(self, other: object) -> Folds:
        return merge([self, other]) if isinstance(other, Folds) else NotImplemented

    def __radd__(self, other: object) -> Folds:
        # sum(folds) starts with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> Folds:
        if not isinstance(other, Folds):
            return NotImplemented
        check_same_assignment(self, other, "subtract", "from")
        left = [_subtracted(self.parts[fold], other.parts[fold], f"fold {fold}") for fold in range(len(self))]
        rest = self.rest
        if other.rest is not None:
            rest = _subtracted(rest or Knowledge.zero(self.signature), other.rest, "rows never held out")
        return Folds(left, rest, self.assignment, without(self.provenance, other.provenance))

    def __getstate__(self) -> dict[str, Any]:
        # The total can be computed again.
        return {name: value for name, value in self.__dict__.items() if name != "total"}

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write to a file, atomically; :meth:`load` reads it. The file contains no code.

        An existing file is an error if ``overwrite`` is False.

        >>> import mergesvm as ms, pathlib, tempfile
        >>> folds = ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "a"], folds=[0, 1, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     folds.save(pathlib.Path(folder, "day.knowledge"))
        ...     ms.Folds.load(pathlib.Path(folder, "day.knowledge"))
        Folds of 1, 2 rows: Knowledge of 3 rows x 1 feature in 2 classes: a 2, b 1
        """
        save_folds(path, self.parts, self.rest, self.total, self.assignment, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Folds:
        """Read from a file. The whole file is checked first."""
        return cls.of_cells(*load_folds(path))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{rows:,}" for rows in self.rows[:10].tolist()) + (", ..." if len(self.parts) > 10 else "")
        never = "" if self.rest is None else f", and {counted(int(self.rest.rows.sum()), 'row')} never held out"
        return f"Folds of {sizes} rows{never}: {self.total!r}"


Learned = TypeVar("Learned", Knowledge, Folds)


def merge(pieces: Iterable[Learned]) -> Learned:
    """Add many pieces at once. Pieces may have different classes; folds are added fold by fold.

    >>> import mergesvm as ms
    >>> ms.merge(ms.learn([[float(i)]], ["odd" if i % 2 else "even"]) for i in range(5))
    Knowledge of 5 rows x 1 feature in 2 classes: even 3, odd 2
    """
    given: list[Any] = list(pieces)
    folded = [isinstance(piece, Folds) for piece in given]
    if not any(folded):
        return algebra.merge(given)  # type: ignore[no-any-return]
    if not all(folded):
        raise TypeError("Cannot merge folds and knowledge. Use folds.total for the knowledge of all folds.")
    first = given[0]
    for other in given[1:]:
        check_same_assignment(first, other, "add", "to")
    parts = [algebra.merge([piece.parts[fold] for piece in given]) for fold in range(len(first))]
    rests = [piece.rest for piece in given if piece.rest is not None]
    origins = tuple(origin for piece in given for origin in piece.provenance)
    whole: Any = Folds(parts, algebra.merge(rests) if rests else None, first.assignment, origins)
    return whole  # type: ignore[no-any-return]


def check_same_assignment(mine: Folds, theirs: Folds, verb: str, preposition: str) -> None:
    """Raise an error unless both assign rows to folds by the same rule."""
    one, other = mine.assignment, theirs.assignment
    columns = {one.column, other.column} - {None}
    if (one.count, one.by) != (other.count, other.by) or len(columns) > 1:
        raise SignatureError(
            f"Cannot {verb} {other} {preposition} {one}: the same row could be in two different folds. Learn all "
            f"pieces with the same folds."
        )


def _subtracted(whole: Knowledge, part: Knowledge, where: str) -> Knowledge:
    try:
        return whole - part
    except SubtractionError as error:
        raise SubtractionError(f"In {where}: {error}") from None


def _difference_cancels(total: Knowledge, at: int, held_out: Knowledge, held: int) -> bool:
    """Return whether subtracting a fold would lose more than a digit of a class's weight or of its squares."""
    if held_out.counts[held] > MAX_SUBTRACTED_FRACTION * total.counts[at]:
        return True
    squares, all_squares = held_out.grams[held].diagonal(), total.grams[at].diagonal()
    return bool((squares > MAX_SUBTRACTED_FRACTION * all_squares).any())


def _some(piece: Knowledge, wanted: list[Label]) -> Knowledge:
    known = [label for label in wanted if label in piece.labels]
    return piece.only(known) if known else Knowledge.zero(piece.signature, piece.anchor)
