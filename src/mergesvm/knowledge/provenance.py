"""The sources of knowledge: which were added, and which subtracted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime


@dataclass(frozen=True)
class Origin:
    """One source of rows, such as a file: its name, its number of rows, and the time of learning, UTC, in ISO 8601.

    ``taken_back`` says that the rows were subtracted instead of added.
    """

    source: str
    rows: int
    when: str
    taken_back: bool = False


Provenance = tuple[Origin, ...]


def now() -> str:
    """Return the current time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def without(whole: Provenance, part: Provenance) -> Provenance:
    """Return the origins of a difference: those of ``part`` are removed, or marked as subtracted if not in ``whole``.

    >>> first, second = Origin("a.csv", 2, "2026-01-01"), Origin("b.csv", 3, "2026-01-02")
    >>> without((first, second), (first,)) == (second,)
    True
    >>> without((second,), (first,))[-1].taken_back
    True
    """
    left = list(whole)
    for origin in part:
        if origin in left:
            del left[len(left) - 1 - left[::-1].index(origin)]  # the last equal one
        else:
            left.append(replace(origin, taken_back=not origin.taken_back))
    return tuple(left)
