"""The origins of sums and differences: no piece counts twice, and none is subtracted that is not inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mergesvm.errors import DuplicatePieceError, SubtractionError
from mergesvm.knowledge.provenance.extent import Extent
from mergesvm.knowledge.provenance.origin import Origin, Provenance, new_id

MAX_NAMED = 3
"""Errors name at most this many pieces."""


def joined(provenances: Iterable[Provenance]) -> Provenance:
    """Return the origins of a sum; raise an error for a piece that is in two of them.

    >>> first, second = Origin.new("a.csv", 2, "2026-01-01"), Origin.new("b.csv", 3, "2026-01-02")
    >>> joined([(first,), (second,)]) == (first, second)
    True
    >>> joined([(first, second), (first,)])
    Traceback (most recent call last):
    ...
    mergesvm.errors.DuplicatePieceError: ... inside already: a.csv (id ..., 2 rows, 2026-01-01). ...
    """
    given = [provenance for provenance in provenances if provenance]
    if len(given) < 2:
        return given[0] if given else ()
    inside = _Inside()
    for provenance in given:
        inside.add(provenance)
    if inside.refused:
        raise DuplicatePieceError(
            f"Cannot merge pieces that are inside already: {_named(inside.refused)}. Their rows would count twice. "
            f"Leave them out, or pass force=True (--force-pieces) if their rows shall count twice."
        )
    return inside.provenance()


def without(whole: Provenance, part: Provenance, *, force: bool = False) -> Provenance:
    """Return the origins of a difference; raise an error for a piece that is not inside.

    With ``force``, such a piece is recorded as retired rows. This is possible once: rows that were retired under an id
    cannot be retired under it again. If there are rows without an id in ``whole``, only counts can tell what is inside.

    >>> first, second = Origin.new("a.csv", 2, "2026-01-01"), Origin.new("b.csv", 3, "2026-01-02")
    >>> without((first, second), (first,)) == (second,)
    True
    >>> without((second,), (first,))
    Traceback (most recent call last):
    ...
    mergesvm.errors.SubtractionError: ... not inside: a.csv (id ..., 2 rows, 2026-01-01). ...
    >>> without((second,), (first,), force=True)[-1].taken_back
    True
    """
    inside = _Inside()
    inside.add(whole)
    inside.remove(part, debt=force or any(origin.id is None and not origin.taken_back for origin in whole))
    if inside.refused:
        raise SubtractionError(
            f"Cannot subtract pieces that are not inside: {_named(inside.refused)}. They were never added, or were "
            f"subtracted before. If these rows are part of a larger piece that is inside, retire them with force=True "
            f"(--force-pieces)."
        )
    if inside.retired:
        raise SubtractionError(
            f"Cannot retire rows that were retired before: {_named(inside.retired)}. Nothing is left to be done."
        )
    return inside.provenance()


def new_ids_for_copies(provenances: Iterable[Provenance]) -> list[dict[str, str]]:
    """Return new ids for pieces that are in an earlier provenance already, one mapping per provenance.

    With them, see :func:`renamed`, the rows count twice, as two pieces.
    """
    inside, found = _Inside(), []
    for provenance in provenances:
        inside.add(provenance)
        found.append({origin.id: new_id() for origin in inside.refused if origin.id is not None})
        inside.refused.clear()
    return found


def renamed(provenance: Provenance, ids: Mapping[str, str]) -> Provenance:
    """Return the origins with other ids."""
    if not ids:
        return provenance
    return tuple(origin._replace(id=ids.get(origin.id or "", origin.id)) for origin in provenance)


class _Inside:
    """The pieces inside knowledge, by id; operations are linear in the number of pieces that they change.

    Retirements have the key "-" and their id. Origins without an id are kept in order, each under its own number.
    """

    def __init__(self) -> None:
        self._origins: dict[str | int, Origin] = {}
        self._last: dict[Origin, list[int]] = {}
        self._numbers = 0
        self.refused: list[Origin] = []
        self.retired: list[Origin] = []

    def provenance(self) -> Provenance:
        return tuple(self._origins.values())

    def add(self, provenance: Provenance) -> None:
        """Add the pieces and retirements of a summand; those that are inside already are noted as refused."""
        origins = self._origins
        for origin in provenance:
            if origin.id is None:
                self._append(origin)
            elif origin.taken_back:
                self._move(origin, f"-{origin.id}", origin.id, self.refused)
            elif f"-{origin.id}" in origins:
                self._move(origin, origin.id, f"-{origin.id}", self.refused)
            elif origin.id in origins:
                self._extend(origin.id, origin, self.refused)
            else:
                origins[origin.id] = origin

    def remove(self, provenance: Provenance, *, debt: bool) -> None:
        """Subtract pieces and retirements; without ``debt``, pieces that are not contained are recorded as refused."""
        for origin in provenance:
            opposite = origin._replace(taken_back=not origin.taken_back)
            if origin.id is None:
                self._cancel(origin, opposite)
            elif origin.taken_back:  # what the part has lost is not lost from the difference
                self._move(opposite, origin.id, f"-{origin.id}", self.refused)
            else:
                held = self._origins.get(origin.id)
                if debt or (held is not None and _contains(held.extent, origin.extent)):
                    self._move(opposite, f"-{origin.id}", origin.id, self.retired)
                else:
                    self.refused.append(origin)

    def _move(self, origin: Origin, key: str, opposite: str, refused: list[Origin]) -> None:
        """Add an origin under its key after cancelling what it has in common with its opposite."""
        held = self._origins.get(opposite)
        if held is not None and held.extent == origin.extent:
            del self._origins[opposite]
            return
        if held is not None:
            left, more = held.extent.minus(origin.extent), origin.extent.minus(held.extent)
            if left is None or more is None:
                refused.append(origin)
                return
            self._keep(opposite, held, left)
            if more.empty:
                return
            origin = origin._replace(extent=more)
        if key in self._origins:
            self._extend(key, origin, refused)
        else:
            self._origins[key] = origin

    def _extend(self, key: str, origin: Origin, refused: list[Origin]) -> None:
        """Add another part of a piece that is partly inside."""
        held = self._origins[key]
        both = None if held.extent.overlaps(origin.extent) else held.extent.plus(origin.extent)
        if both is None:
            refused.append(origin)
        else:
            self._keep(key, held, both)

    def _keep(self, key: str, origin: Origin, extent: Extent) -> None:
        if extent.empty:
            del self._origins[key]
        else:
            self._origins[key] = origin._replace(extent=extent)

    def _append(self, origin: Origin) -> None:
        self._origins[self._numbers] = origin
        self._last.setdefault(origin, []).append(self._numbers)
        self._numbers += 1

    def _cancel(self, origin: Origin, opposite: Origin) -> None:
        """Remove the last equal origin without an id, or record its rows as retired."""
        same = self._last.get(origin)
        if same:
            del self._origins[same.pop()]
        else:
            self._append(opposite)


def _contains(whole: Extent, part: Extent) -> bool:
    if whole == part:
        return True
    beyond = part.minus(whole)
    return beyond is not None and beyond.empty and whole.minus(part) is not None


def _named(origins: list[Origin]) -> str:
    more = len(origins) - MAX_NAMED
    return ", ".join(map(str, origins[:MAX_NAMED])) + (f", and {more:,} more" if more > 0 else "")
