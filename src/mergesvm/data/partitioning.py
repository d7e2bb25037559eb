"""Pieces of files, dealt out to workers so that all have about as much to read."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.splittable import SplittableReader

EVEN = 1.02
"""Pieces are dealt out in a row if the largest load is then at most so many times as large as it could be."""


def dealt_out(pieces: Sequence[Reader], count: int) -> list[list[Reader]]:
    """The pieces of each of at most so many workers; those that follow each other are one."""
    hands: dict[int, list[Reader]] = {}
    for piece, owner in zip(pieces, owners([piece.size for piece in pieces], count), strict=True):
        _append(hands.setdefault(owner, []), piece)
    return list(hands.values())


def owners(sizes: list[int], count: int) -> list[int]:
    """Which of so many workers gets which piece, so that all have about the same.

    >>> owners([5, 3, 3, 3, 3, 1], 3)
    [0, 1, 2, 1, 2, 0]
    >>> owners([10, 9, 10, 9, 10, 10, 9, 10], 2)
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    # In a row, if that is even enough: neighbours are read in one go.
    ends, total = list(accumulate(sizes)), max(1, sum(sizes))
    in_a_row = [min(count - 1, int(count * (end - size / 2) / total)) for end, size in zip(ends, sizes, strict=True)]
    fairly = [0] * len(sizes)
    loads = [(0, worker) for worker in range(count)]
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):  # the largest first
        load, fairly[place] = heapq.heappop(loads)  # each to the one that has least
        heapq.heappush(loads, (load + sizes[place], fairly[place]))
    return in_a_row if _most(sizes, in_a_row) <= EVEN * _most(sizes, fairly) else fairly


def _most(sizes: list[int], owners: list[int]) -> int:
    loads: Counter[int] = Counter()
    for size, owner in zip(sizes, owners, strict=True):
        loads[owner] += size
    return max(loads.values(), default=0)


def _append(readers: list[Reader], piece: Reader) -> None:
    """Add a piece behind others, as one with the last of them where it goes on there."""
    last = readers[-1] if readers else None
    whole = last.joined(piece) if isinstance(last, SplittableReader) else None
    if whole is None:
        readers.append(piece)
    else:
        readers[-1] = whole
