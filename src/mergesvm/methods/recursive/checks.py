"""Checks of a live model against a fresh factorisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import warn_solver

WARNING_DRIFT = 1e-6
"""Drift above which a warning is issued, relative to the largest coefficient."""

MAX_KEPT_CHECKS = 1000
"""Number of checks whose results are kept."""

MIN_ROWS_BETWEEN_CHECKS = 8


@dataclass(frozen=True)
class Check:
    """Difference between the coefficients and a fresh factorisation.

    Attributes
    ----------
    rows : int
        Number of rows learned before the check.
    drift : float
        Largest difference, relative to the largest coefficient.
    """

    rows: int
    drift: float


class Checks:
    """The results of past checks, and when the next one is due: in the long run after ``every`` rows.

    Rounding errors grow fastest during the first rows, so the first check is due after twice as many rows as features.

    >>> checks = Checks(every=1000, width=10)
    >>> checks.due
    20
    >>> checks.schedule(300)
    >>> checks.due
    600
    """

    def __init__(self, every: int, width: int) -> None:
        self.every = every
        self.made: list[Check] = []
        self.due = max(2 * width, MIN_ROWS_BETWEEN_CHECKS)

    def schedule(self, rows: int) -> None:
        """Set when the next check is due, given the number of rows learned."""
        self.due = rows + max(MIN_ROWS_BETWEEN_CHECKS, min(self.every, rows))

    def record(self, rows: int, before: NDArray[np.float64], fresh: NDArray[np.float64], expected: bool) -> float:
        """Record the drift of the coefficients; warn if it is large and was not ``expected``."""
        size = float(np.abs(fresh).max(initial=0.0))
        drift = float(np.abs(before - fresh).max(initial=0.0)) / size if size > 0 else 0.0
        self.made = [*self.made[-MAX_KEPT_CHECKS + 1 :], Check(rows, drift)]
        if drift > WARNING_DRIFT and not expected:
            warn_solver(
                f"After {rows:,} rows the coefficients had drifted by {drift:.0e} of the largest one, and were "
                f"recomputed. A smaller C, scaled features or a smaller check_every avoid this."
            )
        return drift
