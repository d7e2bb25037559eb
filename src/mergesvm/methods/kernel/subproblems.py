"""Small problems, many of them at a time, as compiled kernels solve them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.engines.threads import Threads

STEPS = 1000
"""In the plane of two rows a problem is solved in a few steps a row; this limit is for those that are not."""

PARTS = 8
"""Each thread gets the problems in so many parts, because some take longer than others."""


@dataclass
class Subproblems:
    """Some rows of each of many problems, one problem after another, and how far they are.

    Attributes
    ----------
    firsts : array of int, shape (problems + 1,)
        Where the rows of each problem begin.
    places : array of int
        Where each row is among the lifted ones.
    y, v, alpha, bound : arrays
    totals : array of shape (problems,)
        Y'alpha of all rows, also those elsewhere.

    Examples
    --------
    Two rows at 0 and 1 meet half way, where alpha (1 - exp(-1)) = 1:

    >>> y, rows = np.array([-1.0, 1.0]), np.array([[0.0, 0.0, 1.0], [np.sqrt(2), -1.0, 1.0]])
    >>> smalls = Subproblems(np.array([0, 2]), np.array([0, 1]), y, y.copy(), np.zeros(2), np.full(2, 9.0), np.zeros(1))
    >>> smalls.solve(rows, (0, 1.0, 0, 0.0), -1.0, np.array([1e-9]), Threads(1))
    >>> smalls.alpha.round(3)
    array([1.582, 1.582])
    """

    firsts: NDArray[np.int64]
    places: NDArray[np.int64]
    y: NDArray[np.float64]
    v: NDArray[np.float64]
    alpha: NDArray[np.float64]
    bound: NDArray[np.float64]
    totals: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.firsts) - 1

    @cached_property
    def problems(self) -> NDArray[np.int64]:
        """Which problem each row is of."""
        return np.repeat(np.arange(len(self)), np.diff(self.firsts))

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of values of the rows, by problem."""
        return np.bincount(self.problems, values, len(self)).astype(np.float64)

    def middles(self, intercepts: NDArray[np.float64]) -> NDArray[np.float64]:
        """By problem, the middle between the highest v that may rise and the lowest that may fall, as they are now.

        Where nothing may rise, or nothing fall, it is as given.
        """
        from mergesvm.methods.kernel.jit.dual import middles

        found = intercepts.copy()
        middles(self.firsts, self.y, self.v, self.alpha, self.bound, found)
        return found

    def span(self, k: int) -> slice:
        """Where the rows of a problem are."""
        return slice(int(self.firsts[k]), int(self.firsts[k + 1]))

    def solve(
        self, rows: NDArray[Any], kernel: Any, penalty: float, tolerances: NDArray[np.float64], threads: Threads
    ) -> None:
        """Solve all problems to their tolerances, in place; ``rows`` are lifted dense ones."""
        from mergesvm.methods.kernel.jit.dual import ascend_all

        def some(part: tuple[int, int]) -> None:
            here = slice(*part)
            ascend_all(
                self.firsts[part[0] : part[1] + 1],
                self.places,
                rows,
                kernel,
                self.y,
                self.v,
                self.alpha,
                self.bound,
                self.totals[here],
                penalty,
                tolerances[here],
                STEPS,
            )

        threads.map(some, list(spans(len(self), max(1, len(self) // (PARTS * threads.workers)))))
