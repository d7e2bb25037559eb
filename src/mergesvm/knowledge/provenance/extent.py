"""The rows of a piece that knowledge contains: all of them, or those of some folds or classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mergesvm.checks import listed

Values = frozenset[Any]

NONE: Values = frozenset()


class Chosen(NamedTuple):
    """Some folds, or some classes, of a piece; None for all.

    ``among`` are all values that rows of the piece have, and perhaps others; nothing if they are not known.

    >>> one, others = Chosen.some("a", among="abc"), Chosen.some("bc", among="abcd")
    >>> one.plus(others).values is None, sorted(Chosen().minus(one).values)
    (True, ['b', 'c'])
    """

    values: Values | None = None
    among: Values = NONE

    @classmethod
    def some(cls, values: Iterable[Any], among: Iterable[Any]) -> Chosen:
        """Return some of all values."""
        chosen, every = frozenset(values), frozenset(among)
        return cls(None if chosen == every else chosen, every)

    @property
    def empty(self) -> bool:
        """Whether there are no values."""
        return self.values is not None and not self.values

    def overlaps(self, other: Chosen) -> bool:
        """Return whether there are values in both."""
        _, mine, theirs = self._aligned(other)
        return not mine.isdisjoint(theirs)

    def within(self, other: Chosen) -> bool:
        """Return whether all values are in the other."""
        _, mine, theirs = self._aligned(other)
        return mine <= theirs

    def plus(self, other: Chosen) -> Chosen:
        """Return the values of both."""
        every, mine, theirs = self._aligned(other)
        return Chosen.some(mine | theirs, every)

    def minus(self, other: Chosen) -> Chosen:
        """Return the values that are not in the other."""
        every, mine, theirs = self._aligned(other)
        return Chosen.some(mine - theirs, every)

    def _aligned(self, other: Chosen) -> tuple[Values, Values, Values]:
        """Return all values, and those of both, by name."""
        known = self.among & other.among if self.among and other.among else self.among | other.among
        # A single name stands for all if nothing is known.
        every = known | (self.values or NONE) | (other.values or NONE) or frozenset([None])
        return every, every if self.values is None else self.values, every if other.values is None else other.values


class Extent(NamedTuple):
    """Some rows of a piece: those of these classes in these folds.

    ``n_folds`` is the number of folds into which the rows were divided when they were learned, 0 without folds; with
    ``rest`` some rows are never held out, as fold -1. ``joined`` says that classes were joined after learning: what was
    restricted to classes before and after cannot be compared.

    >>> whole = Extent.divided(3, rest=False)
    >>> first = whole.of_fold(0)
    >>> str(first), str(whole.minus(first)), first.plus(whole.minus(first)) == whole
    ('fold 0 of 3', 'folds 1, 2 of 3', True)
    """

    folds: Chosen = Chosen()
    classes: Chosen = Chosen()
    n_folds: int = 0
    rest: bool = False
    joined: bool = False

    @classmethod
    def divided(cls, n_folds: int, rest: bool) -> Extent:
        """Return all rows of a piece that was divided into folds."""
        return cls(Chosen(None, frozenset(range(-1 if rest else 0, n_folds))), Chosen(), n_folds, rest)

    @property
    def whole(self) -> bool:
        """Whether these are all rows of the piece."""
        return self.folds.values is None and self.classes.values is None

    @property
    def empty(self) -> bool:
        """Whether there are no rows."""
        return self.folds.empty or self.classes.empty

    def of_fold(self, fold: int) -> Extent:
        """Return the rows of one fold."""
        kept = self.folds.values is None or fold in self.folds.values
        return self._replace(folds=Chosen.some([fold] if kept else [], self.folds.among))

    def of_classes(self, labels: Iterable[Any], among: Iterable[Any]) -> Extent:
        """Return the rows of these classes, among all classes that there are."""
        wanted, before = frozenset(labels), self.classes
        chosen = Chosen.some(wanted, among) if before.values is None else before._replace(values=before.values & wanted)
        return self._with_classes(chosen)

    def overlaps(self, other: Extent) -> bool:
        """Return whether there may be rows in both."""
        together = self.folds.overlaps(other.folds) and self.classes.overlaps(other.classes)
        return together or not self._comparable(other)

    def plus(self, other: Extent) -> Extent | None:
        """Return the rows of both, which do not overlap; None if folds and classes cannot describe them."""
        if self.classes.values == other.classes.values:
            return self._replace(folds=self.folds.plus(other.folds))
        if self.folds.values == other.folds.values:
            return self._with_classes(self.classes.plus(other.classes))
        return None

    def minus(self, other: Extent) -> Extent | None:
        """Return the rows that are not in the other; None if folds and classes cannot describe them."""
        if not self.overlaps(other):
            return self
        if not self._comparable(other):
            return None
        if self.classes.within(other.classes):
            return self._replace(folds=self.folds.minus(other.folds))
        if self.folds.within(other.folds):
            return self._with_classes(self.classes.minus(other.classes))
        return None

    def _with_classes(self, classes: Chosen) -> Extent:
        return self._replace(classes=Chosen() if classes.values is None else classes)

    def _comparable(self, other: Extent) -> bool:
        restricted = self.classes.values is not None or other.classes.values is not None
        return self.folds.among == other.folds.among and not ((self.joined or other.joined) and restricted)

    def __str__(self) -> str:
        parts = []
        if self.folds.values is not None:
            parts.append(f"fold{_plural(self.folds.values, 's')} {listed(sorted(self.folds.values))} of {self.n_folds}")
        if self.classes.values is not None:
            parts.append(f"class{_plural(self.classes.values, 'es')} {listed(sorted(self.classes.values))}")
        return ", ".join(parts)


def _plural(values: Values, ending: str) -> str:
    return "" if len(values) == 1 else ending


WHOLE = Extent()
