"""The number of available CPU cores."""

from __future__ import annotations

import os
from functools import lru_cache

from joblib import cpu_count


def cores() -> int:
    """The number of cores that this process may use, as limited by the machine, the container or the user.

    >>> 1 <= cores() <= os.cpu_count()
    True
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return _cached(allowed, os.environ.get("LOKY_MAX_CPU_COUNT"))


@lru_cache(maxsize=16)
def _cached(allowed: int, wanted: str | None) -> int:  # noqa: ARG001
    """The count for these settings. Reading the limits of a container takes half a millisecond."""
    return int(cpu_count())
