"""Subproblems: some rows of many binary problems, solved by sequential minimal optimisation (SMO)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.engines.threads import Threads

MAX_STEPS_PER_ROW = 1000
"""SMO usually needs a few steps per row; this limit ends a subproblem that does not converge."""

CHUNKS_PER_THREAD = 8
"""Subproblems take unequal time: each thread gets them in this number of chunks."""


@dataclass
class Subproblems:
    """Some rows of each of many binary problems, concatenated, with their dual variables.

    Attributes
    ----------
    starts : array of int, shape (problems + 1,)
        Problem k has the entries starts[k] to starts[k + 1].
    positions : array of int
        The position of each entry among the lifted rows.
    y, v, alpha, bound : arrays
        Sign of the class, y - f with the score f, dual variable, and its upper bound.
    totals : array of shape (problems,)
        y'alpha over all rows of a problem, not only those here.

    Examples
    --------
    Two rows at 0 and 1, of different classes: alpha (1 - exp(-1)) = 1.

    >>> y, rows = np.array([-1.0, 1.0]), np.array([[0.0, 0.0, 1.0], [np.sqrt(2), -1.0, 1.0]])
    >>> pair = Subproblems(np.array([0, 2]), np.array([0, 1]), y, y.copy(), np.zeros(2), np.full(2, 9.0), np.zeros(1))
    >>> pair.solve(rows, (0, 1.0, 0, 0.0), -1.0, np.array([1e-9]), Threads(1))
    >>> pair.alpha.round(3)
    array([1.582, 1.582])
    """

    starts: NDArray[np.int64]
    positions: NDArray[np.int64]
    y: NDArray[np.float64]
    v: NDArray[np.float64]
    alpha: NDArray[np.float64]
    bound: NDArray[np.float64]
    totals: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def problems(self) -> NDArray[np.int64]:
        """The problem of each entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sum values of the entries by problem."""
        return np.bincount(self.problems, values, len(self)).astype(np.float64)

    def intercepts(self, defaults: NDArray[np.float64]) -> NDArray[np.float64]:
        """The midpoint between the largest v in I_up and the smallest in I_low, by problem.

        A problem for which one of these sets is empty has its default.
        """
        from mergesvm.methods.kernel.jit.smo import midpoints

        found = defaults.copy()
        midpoints(self.starts, self.y, self.v, self.alpha, self.bound, found)
        return found

    def span(self, k: int) -> slice:
        """The slice of the entries of one problem."""
        return slice(int(self.starts[k]), int(self.starts[k + 1]))

    def solve(
        self, rows: NDArray[Any], kernel: Any, penalty: float, tolerances: NDArray[np.float64], threads: Threads
    ) -> None:
        """Solve all problems to their tolerances, in place; ``rows`` are lifted dense rows."""
        from mergesvm.methods.kernel.jit.smo import solve_subproblems

        def solve_chunk(chunk: tuple[int, int]) -> None:
            here = slice(*chunk)
            solve_subproblems(
                self.starts[chunk[0] : chunk[1] + 1],
                self.positions,
                rows,
                kernel,
                self.y,
                self.v,
                self.alpha,
                self.bound,
                self.totals[here],
                penalty,
                tolerances[here],
                MAX_STEPS_PER_ROW,
            )

        size = max(1, len(self) // (CHUNKS_PER_THREAD * threads.workers))
        threads.map(solve_chunk, list(spans(len(self), size)))
