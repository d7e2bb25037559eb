"""ProgressPrinter: reports the progress of a training on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

MIN_SECONDS_BETWEEN_REPORTS = 2.0

Progress = Callable[[int, int, float, int], None]
"""Called after each iteration with its number, the number of problems that have not converged, the largest violation,
and the number of shared rows."""


class ProgressPrinter:
    """Prints a line about the progress every few seconds, and at the end."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, iteration: int, active: int, violation: float, shared: int) -> None:
        """Print the progress, if the last line was long enough ago."""
        now = time.monotonic()
        if now - self._last >= MIN_SECONDS_BETWEEN_REPORTS or not active:
            self._last = now
            problems = f"{active} problem{'' if active == 1 else 's'} left"
            sys.stderr.write(f"iteration {iteration}: {problems}, violation {violation:.1e}, {shared:,} rows shared\n")
