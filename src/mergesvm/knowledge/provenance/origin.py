"""Origins: the sources of knowledge, each with a random id."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import NamedTuple

from mergesvm.knowledge.provenance.extent import WHOLE, Extent

ID_BYTES = 16


class Origin(NamedTuple):
    """A piece that was learned from one source, such as a file, or rows that were retired.

    Attributes
    ----------
    source : str
        The name of the file, or a description of rows in memory.
    rows : int
        Its number of rows, also if ``extent`` says that only some of them are inside.
    when : str
        The time of learning, UTC, in ISO 8601.
    taken_back : bool
        The rows were subtracted instead of added: a retirement.
    id : str or None
        128 random bits in hexadecimal; None if the piece was learned before there were ids.
    extent : Extent
        Which rows of the piece these are.
    """

    source: str
    rows: int
    when: str
    taken_back: bool = False
    id: str | None = None
    extent: Extent = WHOLE

    @classmethod
    def new(cls, source: str, rows: int, when: str | None = None) -> Origin:
        """Return the origin of a new piece, with a new id."""
        return cls(source, rows, now() if when is None else when, id=new_id())

    def __str__(self) -> str:
        part = "" if self.extent.whole else f", {self.extent}"
        retired = " retired" if self.taken_back else ""
        return f"{self.source} (id {self.short_id}, {self.rows:,} rows{retired}{part}, {self.when})"

    @property
    def short_id(self) -> str:
        """The first digits of the id, enough to tell pieces apart."""
        return "none" if self.id is None else self.id[:12]


Provenance = tuple[Origin, ...]

MEMORY, TABLE, CLUSTER = "rows in memory", "a table in memory", "rows on a cluster"
"""Sources of rows that are not in files."""

UNKNOWN = "unknown"
"""The source of rows without provenance."""

NOT_FILES = (MEMORY, TABLE, CLUSTER, UNKNOWN)


def now() -> str:
    """Return the current time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_id() -> str:
    """Return a new random id: 32 hexadecimal digits. Neither seeds nor rows determine it."""
    return secrets.token_hex(ID_BYTES)
