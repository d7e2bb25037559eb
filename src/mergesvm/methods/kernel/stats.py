"""Statistics that units send: of the binary problems, and of their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

UP, LOW, ALPHAS, SQUARE, FREE, FREE_SUM, LOSS, TOTAL, SUPPORT = range(9)
"""Columns of the statistics of a problem: the largest v in I_up, the smallest in I_low, sum(alpha), alpha' Q alpha, the
number of free alpha (between the bounds) and the sum of their v, the weighted hinge loss, y'alpha, and the number of
support vectors. See :mod:`mergesvm.methods.kernel.jit.smo` for v, I_up and I_low."""

N_STATS = 9

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class ProblemStats:
    """Statistics of some problems over all units."""

    high: NDArray[np.float64]  # the largest v in I_up
    low: NDArray[np.float64]  # the smallest v in I_low
    sums: NDArray[np.float64]  # (problems, N_STATS): the other columns, summed over the units

    @classmethod
    def of(cls, parts: list[NDArray[np.float64]]) -> ProblemStats:
        """Combine the statistics of all units, each (problems, N_STATS)."""
        stats = np.array(parts)
        return cls(stats[:, :, UP].max(axis=0), stats[:, :, LOW].min(axis=0), stats.sum(axis=0))

    @property
    def totals(self) -> NDArray[np.float64]:
        """Y'alpha of each problem."""
        return self.sums[:, TOTAL]

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """The midpoint of ``high`` and ``low``; 0 if either is infinite."""
        middle = (self.high + self.low) / 2
        return np.where(np.isfinite(middle), middle, 0.0)

    def objectives(self, penalty: float) -> NDArray[np.float64]:
        """The dual objective of each problem."""
        return self.sums[:, ALPHAS] - self.sums[:, SQUARE] / 2 - max(penalty, 0.0) * self.totals**2 / 2

    def squared_norms(self, penalty: float) -> NDArray[np.float64]:
        """|w|^2 of each problem; the penalty counts as that of a constant feature, sqrt(penalty)."""
        return self.sums[:, SQUARE] + max(penalty, 0.0) * self.totals**2

    def intercepts(self, penalty: float) -> NDArray[np.float64]:
        """The intercept of each problem: M beta y'alpha with a penalty, else the mean v of free support vectors.

        Without free support vectors it is the midpoint of the feasible interval, as in LIBSVM.
        """
        if penalty >= 0:
            return penalty * self.totals
        high, low, free = self.high, self.low, self.sums[:, FREE]
        middle = (np.where(np.isfinite(high), high, low) + np.where(np.isfinite(low), low, high)) / 2
        middle = np.where(np.isfinite(middle), middle, 0.0)
        return np.where(free > 0, self.sums[:, FREE_SUM] / np.maximum(free, 1), middle)

    def violations(self, penalty: float, intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest violation of the optimality (KKT) conditions of each problem."""
        if penalty < 0:
            return self.high - self.low
        return np.maximum(self.high - intercepts, intercepts - self.low)

    def relative_gaps(self, penalty: float, objectives: NDArray[np.float64]) -> NDArray[np.float64]:
        """The duality gap of each problem, relative to its objective."""
        primal = self.squared_norms(penalty) / 2 + self.sums[:, LOSS]
        with np.errstate(over="ignore"):
            return (primal - objectives) / np.maximum(np.abs(objectives), TINY)


@dataclass(frozen=True)
class RowSummary:
    """Statistics of some rows, from which no row can be read; summaries of different rows can be added.

    Rows of weight 0 do not count, and all others count once: as in ``SVC``, weights do not change the kernel.
    """

    stored: int  # number of values that are stored: all, if rows are dense
    n_rows: int
    sums: NDArray[np.float64]  # of the columns
    mean: float  # of all values
    scatter: float  # sum of squared deviations from the mean

    @property
    def cells(self) -> int:
        """Number of values."""
        return self.n_rows * len(self.sums)

    def __add__(self, other: RowSummary) -> RowSummary:
        moments = (self.cells, self.mean, self.scatter), (other.cells, other.mean, other.scatter)
        _, mean, scatter = pooled_moments(*moments[0], *moments[1])
        stored, n_rows = self.stored + other.stored, self.n_rows + other.n_rows
        return RowSummary(stored, n_rows, self.sums + other.sums, float(mean), float(scatter))


def pooled_moments(count: Any, mean: Any, scatter: Any, other_count: Any, other_mean: Any, other_scatter: Any) -> Any:
    """Count, mean and sum of squared deviations of two samples together (Chan, Golub and LeVeque).

    >>> count, mean, scatter = pooled_moments(1.0, 2.0, 0.0, 3.0, 6.0, 8.0)
    >>> float(count), float(mean), float(scatter)
    (4.0, 5.0, 20.0)
    """
    total = count + other_count
    fraction, distance = other_count / np.maximum(total, TINY), other_mean - mean
    return total, mean + distance * fraction, scatter + other_scatter + distance * distance * count * fraction
