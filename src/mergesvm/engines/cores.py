"""How many cores there are to work on."""

from __future__ import annotations

import os
from functools import lru_cache

from joblib import cpu_count


def cores() -> int:
    """The cores that this process may use, whether the machine, its container or its user says so.

    >>> 1 <= cores() <= os.cpu_count()
    True
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return _counted(allowed, os.environ.get("LOKY_MAX_CPU_COUNT"))


@lru_cache(maxsize=16)
def _counted(allowed: int, wanted: str | None) -> int:  # noqa: ARG001
    """The same, counted once as long as neither changes: the files of a container take half a millisecond to read."""
    return int(cpu_count())
