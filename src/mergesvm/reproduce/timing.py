"""Time the fastest of several calls, which other work on the machine disturbs least."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")
Clock = Callable[[], float]


def timed(
    repeats: int, work: Callable[..., Result], *arguments: Any, clock: Clock = time.perf_counter
) -> tuple[Result, float]:
    """The result of the last of several calls, and the seconds of the fastest.

    The clock may be that of the CPU, ``time.process_time``.
    """
    seconds = []
    for _ in range(repeats):
        began = clock()
        result = work(*arguments)
        seconds.append(clock() - began)
    return result, min(seconds)


def min_cpu_seconds(repeats: int, work: Callable[..., Any], *arguments: Any) -> float:
    """CPU seconds of the fastest of several calls, at least two."""
    return timed(max(repeats, 2), work, *arguments, clock=time.process_time)[1]
