"""The running piece of knowledge or a model that grows by updates."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from mergesvm.knowledge.provenance.origin import MEMORY, Origin, Provenance


class Running(NamedTuple):
    """The origins of knowledge that grows by updates: one of the rows added and one of the rows retired.

    They end when the knowledge is handed out; later rows then belong to new pieces. So equal ids always mean the same
    rows, and a million updates do not leave a million ids.

    >>> from mergesvm.knowledge.provenance.origin import MEMORY
    >>> running = Running()
    >>> for _ in range(1000):
    ...     running = running.plus(Origin.new(MEMORY, 2))
    >>> [(origin.rows, origin.taken_back) for origin in running.minus(Origin.new(MEMORY, 5)).origins]
    [(2000, False), (5, True)]
    """

    added: Origin | None = None
    retired: Origin | None = None

    def plus(self, *origins: Origin) -> Running:
        """Count rows that were learned as rows of the running piece; the first gives it its id."""
        added = self.added
        for origin in origins:
            added = origin if added is None else added._replace(rows=added.rows + origin.rows)
        return self._replace(added=added)

    def minus(self, *origins: Origin) -> Running:
        """Count rows that were forgotten as rows of the running retirement."""
        retired = self.retired
        for origin in origins:
            rows = origin.rows + (0 if retired is None else retired.rows)
            retired = (retired or origin)._replace(rows=rows, taken_back=True)
        return self._replace(retired=retired)

    @property
    def origins(self) -> Provenance:
        """The running piece and the running retirement, as far as there are any."""
        return tuple(origin for origin in self if origin is not None)


class RunningCounts:
    """The provenance of a model that counts its rows: those that it ever learned, and those that it still holds.

    >>> counts = RunningCounts()
    >>> counts.note(learned=100, held=100)
    >>> counts.note(learned=120, held=50)
    >>> [(origin.rows, origin.taken_back) for origin in counts.provenance]
    [(120, False), (70, True)]
    """

    def __init__(self, provenance: Provenance = (), rows: int = 0) -> None:
        self._closed, self._running, self._source = provenance, Running(), MEMORY
        self._learned, self._retired = rows, 0

    def note(self, learned: int, held: int) -> None:
        """Extend the running piece and the running retirement to these counts."""
        retired = learned - held
        if learned > self._learned:
            self._running = self._running.plus(Origin.new(self._source, learned - self._learned))
        if retired > self._retired:
            self._running = self._running.minus(Origin.new(MEMORY, retired - self._retired))
        self._learned, self._retired = learned, retired

    @property
    def provenance(self) -> Provenance:
        """All origins, with the running ones as far as they have come."""
        return self._closed + self._running.origins

    def close(self, source: str = MEMORY) -> None:
        """End the running piece: rows that are learned later belong to a new one, from this source."""
        self._closed, self._running, self._source = self.provenance, Running(), source

    def clear(self) -> None:
        """Forget all origins, because there are no rows any more."""
        self._closed, self._running = (), Running()

    def __deepcopy__(self, memo: object) -> RunningCounts:
        return copy(self)  # all that it has is immutable
