"""The running piece of knowledge that grows by updates."""

from __future__ import annotations

from typing import NamedTuple

from mergesvm.knowledge.provenance.origin import Origin, Provenance


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
