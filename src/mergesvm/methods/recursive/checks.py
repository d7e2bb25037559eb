"""When a live model is compared with a fresh factorisation, and how far it was off."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import SolverWarning

NOTICEABLE = 1e-6
"""Coefficients that have drifted by more than this share are worth a warning."""

MOST = 1000
"""Of so many checks the outcome is kept."""

FEWEST_ROWS = 8
"""Checks are at least so many rows apart."""


@dataclass(frozen=True)
class Check:
    """How far the coefficients were from a fresh factorisation, as a share of the largest, after so many rows."""

    rows: int
    drift: float


class Checks:
    """The checks that were made, and when the next one is due.

    Early rows change most, and rounding with them: so checks begin soon and grow rarer.

    Parameters
    ----------
    every : int
        After how many rows they are made in the long run.
    width : int
        The first is made after twice as many rows as there are features.

    Examples
    --------
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
        self.due = max(2 * width, FEWEST_ROWS)

    def schedule(self, rows: int) -> None:
        """Say when the next check is due, after so many rows."""
        self.due = rows + max(FEWEST_ROWS, min(self.every, rows))

    def note(self, rows: int, before: NDArray[np.float64], fresh: NDArray[np.float64], expected: bool) -> float:
        """Note how far coefficients had drifted; a warning says so if it was noticeable and not expected."""
        size = float(np.abs(fresh).max(initial=0.0))
        drift = float(np.abs(before - fresh).max(initial=0.0)) / size if size > 0 else 0.0
        self.made = [*self.made[-MOST + 1 :], Check(rows, drift)]
        if drift > NOTICEABLE and not expected:
            warnings.warn(
                f"After {rows:,} rows the coefficients had drifted by {drift:.0e} of the largest, and were repaired by "
                f"a fresh factorisation. A smaller C, scaled features or a smaller check_every avoid this.",
                SolverWarning,
                stacklevel=2,
            )
        return drift
