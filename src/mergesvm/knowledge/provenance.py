"""Where knowledge comes from: which sources were added, and which taken back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True)
class Origin:
    """One source of rows.

    Attributes
    ----------
    source : str
        Its name.
    rows : int
        How many rows it gave.
    when : str
        The time of learning, UTC, as ISO 8601 has it.
    taken_back : bool
        Whether the rows were subtracted, and not added.
    """

    source: str
    rows: int
    when: str
    taken_back: bool = False


Provenance = tuple[Origin, ...]


def now() -> str:
    """The present time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def without(whole: Provenance, part: Provenance) -> Provenance:
    """The origins that are left when a part is taken back: those that are in both vanish, others are noted as taken.

    >>> first, second = Origin("a.csv", 2, "2026-01-01"), Origin("b.csv", 3, "2026-01-02")
    >>> without((first, second), (first,)) == (second,)
    True
    >>> without((second,), (first,))[-1].taken_back
    True
    """
    left = list(whole)
    for origin in part:
        if origin in left:
            del left[len(left) - 1 - left[::-1].index(origin)]  # the last of its like
        else:
            left.append(replace(origin, taken_back=not origin.taken_back))
    return tuple(left)
