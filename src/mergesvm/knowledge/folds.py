"""Folds: knowledge for cross-validation, learned in one pass over the rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.errors import FormError, KnowledgeError, ParameterError, SignatureError, SubtractionError
from mergesvm.knowledge import algebra
from mergesvm.knowledge.algebra import (
    added,
    common_signature,
    lowest_precision,
    origins_of,
    reanchor,
    recentred,
    take_classes,
)
from mergesvm.knowledge.fold_assignment import FoldAssignment
from mergesvm.knowledge.folds_format import fold_origins, load_folds, save_folds
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance.combine import joined, new_ids_for_copies, renamed, without
from mergesvm.knowledge.provenance.extent import Extent
from mergesvm.knowledge.provenance.origin import Provenance
from mergesvm.knowledge.select import as_list, restricted
from mergesvm.text import counted

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
        The pieces from which all folds were learned (default: those of the parts).

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
        signature = common_signature(pieces)
        if not signature.per_class:
            raise FormError(
                "Folds need the sums of every class, which the pooled form does not have. Learn with per_class=True."
            )
        precision = lowest_precision(pieces)
        alike = [replace(piece, signature=signature, precision=precision) for piece in pieces]
        self.signature, self.parts = signature, tuple(alike[: len(parts)])
        self.rest = alike[-1] if rest is not None and rest.labels else None
        self.provenance = joined(map(origins_of, pieces)) if provenance is None else provenance

    @classmethod
    def of_cells(
        cls,
        cells: Knowledge,
        assignment: FoldAssignment,
        anchors: NDArray[np.float64] | None = None,
        origins: Mapping[int, Provenance] | None = None,
    ) -> Folds:
        """Build folds from knowledge whose classes are the cells: one class in one fold each.

        ``anchors`` gives each fold its own anchor, the last one for rows that are never held out. ``origins`` are those
        of each fold; without them, the rows of all origins were divided among the folds.
        """
        places: list[Any] = list(cells.labels)
        if assignment.by == "given":  # a rank with rows of few folds does not know the number of all
            assignment = replace(assignment, count=max([assignment.count, *(cell.fold + 1 for cell in places)]))

        rest, total = any(cell.fold < 0 for cell in places), cells.provenance
        if origins is None:
            total = restricted(total, lambda _: Extent.divided(assignment.count, rest))

        def part(fold: int) -> Knowledge:
            anchor = cells.anchor if anchors is None else anchors[fold]
            mine = fold_origins(total, fold) if origins is None else origins[fold]
            at = [place for place, cell in enumerate(places) if cell.fold == fold]
            if not at:
                return replace(Knowledge.zero(cells.signature, anchor), provenance=mine)
            labels = tuple(places[place].label for place in at)
            return replace(take_classes(cells, np.array(at)), labels=labels, anchor=anchor, provenance=mine)

        parts = [part(fold) for fold in range(assignment.count)]
        return cls(parts, part(-1) if rest else None, assignment, total)

    @cached_property
    def total(self) -> Knowledge:
        """The knowledge of all rows."""
        return replace(added(self.pieces()), provenance=self.provenance)

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
                kept = added([_class_of(piece, label) for piece in others if label in piece.labels])
                kept = reanchor(kept, total.anchor)
                counts[at], sums[at], grams[at] = kept.counts[0], kept.sums[0], kept.grams[0]
            else:
                counts[at] -= held_out.counts[held]
                sums[at] -= held_out.sums[held]
                grams[at] = total.grams[at] - held_out.grams[held]
        difference = replace(total, rows=rows, counts=counts, sums=sums, grams=tuple(grams))
        difference = take_classes(difference, np.flatnonzero(rows))
        # If all remaining rows are far from the anchor, the anchors of the other folds are better.
        left = difference if recentred(difference) is difference else added(others)
        return replace(left, provenance=without(total.provenance, origins_of(self.parts[fold]), force=True))

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

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays of all folds."""
        return tuple(array for piece in self.pieces() for array in piece.arrays())

    def select(self, features: Sequence[Any]) -> Folds:
        """Return folds of some features; see :meth:`Knowledge.select`."""
        return self._map(lambda piece: piece.select(features))

    def only(self, classes: Iterable[Label]) -> Folds:
        """Return folds of some classes; see :meth:`Knowledge.only`."""
        wanted = list(as_list(classes))
        origins = self.total.only(wanted).provenance

        def chosen(extent: Extent) -> Extent:
            return extent if origins == self.provenance else extent.of_classes(wanted, self.labels)

        return self._map(lambda piece: _some(piece, wanted), chosen)

    def join(self, groups: Mapping[Label, Iterable[Label]]) -> Folds:
        """Return the folds with each group of classes joined into one class; see :meth:`Knowledge.join`."""
        self.total.join(groups)
        groups = {name: list(as_list(members)) for name, members in groups.items()}

        def renamed_classes(piece: Knowledge) -> Knowledge:
            known = {name: [label for label in old if label in piece.labels] for name, old in groups.items()}
            return piece.join({name: old for name, old in known.items() if old})

        return self._map(renamed_classes, lambda extent: extent._replace(joined=extent.joined or bool(groups)))

    def _map(
        self, change: Callable[[Knowledge], Knowledge], restrict: Callable[[Extent], Extent] = lambda extent: extent
    ) -> Folds:
        """Change all pieces; ``restrict`` says which of their rows are left, in the same way for all."""

        def changed(piece: Knowledge) -> Knowledge:
            return replace(change(piece), provenance=restricted(piece.provenance, restrict))

        rest = None if self.rest is None else changed(self.rest)
        parts = [changed(part) for part in self.parts]
        return Folds(parts, rest, self.assignment, restricted(self.provenance, restrict))

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, fold: int) -> Knowledge:
        return self.parts[self._place(fold)]

    def __iter__(self) -> Iterator[Knowledge]:
        return iter(self.parts)

    def __add__(self, other: object) -> Folds:
        return self.plus([other]) if isinstance(other, Folds) else NotImplemented

    def __radd__(self, other: object) -> Folds:
        # sum(folds) starts with 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: object) -> Folds:
        return self.minus(other) if isinstance(other, Folds) else NotImplemented

    def plus(self, others: Sequence[Folds], *, force: bool = False) -> Folds:
        """Return the sum with others, fold by fold; see :func:`mergesvm.merge`."""
        for other in others:
            check_same_assignment(self, other, "add", "to")
        given = [self, *others]
        common_signature([folds.parts[0] for folds in given])
        if force:  # a copy has the same new id in all folds
            copies = new_ids_for_copies(folds.provenance for folds in given)
            given = [folds._with_ids(ids) for folds, ids in zip(given, copies, strict=True)]
        origins = joined(folds.provenance for folds in given)
        parts = [algebra.merge([folds.parts[fold] for folds in given]) for fold in range(len(self))]
        rests = [folds.rest for folds in given if folds.rest is not None]
        return Folds(parts, algebra.merge(rests) if rests else None, self.assignment, origins)

    def minus(self, other: Folds, *, force: bool = False) -> Folds:
        """Return the difference, fold by fold; see :func:`mergesvm.subtract`."""
        check_same_assignment(self, other, "subtract", "from")
        origins = without(self.provenance, other.provenance, force=force)
        pairs = enumerate(zip(self.parts, other.parts, strict=True))
        left = [_subtracted(*pair, f"fold {fold}", force) for fold, pair in pairs]
        rest = self.rest
        if other.rest is not None:
            rest = _subtracted(rest or Knowledge.zero(self.signature), other.rest, "rows never held out", force)
        return Folds(left, rest, self.assignment, origins)

    def _with_ids(self, ids: dict[str, str]) -> Folds:
        def change(piece: Knowledge) -> Knowledge:
            return replace(piece, provenance=renamed(piece.provenance, ids))

        rest = None if self.rest is None else change(self.rest)
        return Folds([change(part) for part in self.parts], rest, self.assignment, renamed(self.provenance, ids))

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


def check_same_assignment(mine: Folds, theirs: Folds, verb: str, preposition: str) -> None:
    """Raise an error unless both assign rows to folds by the same rule."""
    one, other = mine.assignment, theirs.assignment
    columns = {one.column, other.column} - {None}
    if (one.count, one.by) != (other.count, other.by) or len(columns) > 1:
        raise SignatureError(
            f"Cannot {verb} {other} {preposition} {one}: the same row could be in two different folds. Learn all "
            f"pieces with the same folds."
        )


def _subtracted(whole: Knowledge, part: Knowledge, where: str, force: bool) -> Knowledge:
    try:
        return algebra.subtract(whole, part, force=force)
    except SubtractionError as error:
        raise SubtractionError(f"In {where}: {error}") from None


def _difference_cancels(total: Knowledge, at: int, held_out: Knowledge, held: int) -> bool:
    """Return whether subtracting a fold would lose more than a digit of a class's weight or of its squares."""
    if held_out.counts[held] > MAX_SUBTRACTED_FRACTION * total.counts[at]:
        return True
    squares, all_squares = held_out.grams[held].diagonal(), total.grams[at].diagonal()
    return bool((squares > MAX_SUBTRACTED_FRACTION * all_squares).any())


def _class_of(piece: Knowledge, label: Label) -> Knowledge:
    return take_classes(piece, np.array([piece.labels.index(label)]))


def _some(piece: Knowledge, wanted: list[Label]) -> Knowledge:
    known = [label for label in wanted if label in piece.labels]
    return piece.only(known) if known else Knowledge.zero(piece.signature, piece.anchor)
