"""How much memory there is to work in."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where a container is told how much it may take."""


@cache
def memory_limit() -> int:
    """The memory of this machine in bytes, or what its container may take of it.

    >>> memory_limit() > 2**20
    True
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    allowed = [machine]
    for name in LIMITS:
        try:
            allowed.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # no container, or one without a limit
            continue
    return min(allowed)
