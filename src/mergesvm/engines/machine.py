"""The CPU cores and the memory that this process may use."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from pathlib import Path

from joblib import cpu_count

from mergesvm.errors import ParameterError

CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the memory limit of a container."""


def cores() -> int:
    """The number of cores that this process may use, as limited by the machine, the container or the user."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    return _cached(allowed, os.environ.get("LOKY_MAX_CPU_COUNT"))


@lru_cache(maxsize=16)
def _cached(allowed: int, wanted: str | None) -> int:  # noqa: ARG001
    """The count for these settings. Reading the limits of a container takes half a millisecond."""
    return int(cpu_count())


MAX_MEMORY_FRACTION = 0.6
"""The fraction of memory that one result may take; the work on it needs the rest."""


@cache
def memory_limit() -> int:
    """The memory of this machine, or the limit of its container, in bytes.

    >>> memory_limit() > 2**20
    True
    """
    allowed = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for name in CGROUP_FILES:
        try:
            allowed.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # no container, or one without a limit
            continue
    return min(allowed)


def fits_memory(needed: int) -> bool:
    """Return whether a result of this many bytes leaves enough memory for the work on it."""
    return needed <= MAX_MEMORY_FRACTION * memory_limit()


def check_memory(needed: int, what: str, cure: str) -> None:
    """Raise an error, before anything is allocated, if ``what`` takes more bytes than this machine can spare.

    >>> check_memory(10**15, "A model of 10 million classes", "Join some classes.")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: A model of 10 million classes takes 1,000,000.0 GB, and this machine has ...
    """
    if not fits_memory(needed):
        machine = memory_limit() / 1e9
        raise ParameterError(f"{what} takes {needed / 1e9:,.1f} GB, and this machine has {machine:,.1f} GB. {cure}")
