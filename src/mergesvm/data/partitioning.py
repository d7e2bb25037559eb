"""Assign parts of files to workers, so that all read about the same amount."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.splittable import SplittableReader

MAX_IMBALANCE = 1.02
"""Adjacent parts go to one worker if the largest load is then at most this many times that of the even assignment."""


def assign_parts(parts: Sequence[Reader], workers: int) -> list[list[Reader]]:
    """Return the parts of each worker, of at most ``workers``; adjacent parts of a file are joined."""
    assigned: dict[int, list[Reader]] = {}
    for part, worker in zip(parts, assign_sizes([part.size for part in parts], workers), strict=True):
        _append(assigned.setdefault(worker, []), part)
    return list(assigned.values())


def assign_sizes(sizes: list[int], workers: int) -> list[int]:
    """Assign parts to workers so that each has about the same total size; return the worker of each part.

    >>> assign_sizes([5, 3, 3, 3, 3, 1], 3)
    [0, 1, 2, 1, 2, 0]
    >>> assign_sizes([10, 9, 10, 9, 10, 10, 9, 10], 2)
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    # Adjacent parts to one worker, if that is even enough: they are read as one.
    ends, total = list(accumulate(sizes)), max(1, sum(sizes))
    adjacent = [
        min(workers - 1, int(workers * (end - size / 2) / total)) for end, size in zip(ends, sizes, strict=True)
    ]
    even = [0] * len(sizes)
    loads = [(0, worker) for worker in range(workers)]
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):  # the largest first
        load, even[index] = heapq.heappop(loads)  # to the worker with the least load
        heapq.heappush(loads, (load + sizes[index], even[index]))
    return adjacent if _largest_load(sizes, adjacent) <= MAX_IMBALANCE * _largest_load(sizes, even) else even


def _largest_load(sizes: list[int], workers: list[int]) -> int:
    loads: Counter[int] = Counter()
    for size, worker in zip(sizes, workers, strict=True):
        loads[worker] += size
    return max(loads.values(), default=0)


def _append(readers: list[Reader], part: Reader) -> None:
    """Append a part, joined to the last one if it continues it."""
    last = readers[-1] if readers else None
    joined = last.joined(part) if isinstance(last, SplittableReader) else None
    if joined is None:
        readers.append(part)
    else:
        readers[-1] = joined
