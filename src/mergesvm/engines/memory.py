"""The amount of available memory."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the memory limit of a container."""


@cache
def memory_limit() -> int:
    """The memory of this machine, or the limit of its container, in bytes.

    >>> memory_limit() > 2**20
    True
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    allowed = [machine]
    for name in CGROUP_FILES:
        try:
            allowed.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # no container, or one without a limit
            continue
    return min(allowed)
