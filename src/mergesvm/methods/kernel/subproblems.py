"""Subproblems: some rows of many binary problems, solved by sequential minimal optimisation (SMO); their matrices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.engines.threads import Threads
from mergesvm.features.scratch import Scratch
from mergesvm.methods.kernel.interior_point import maximise_dual
from mergesvm.methods.kernel.setup import TrainingSetup
from mergesvm.models.kernel_function import Lifted

MAX_STEPS_PER_ROW = 1000
"""SMO usually needs a few steps per row. After this number a subproblem is left to the interior-point method."""

MAX_STEPS_IF_HARD = 20
"""The same, once a subproblem of the problem has been left to it."""

MAX_ROWS_FOR_INTERIOR_POINT = 2000
"""Up to this number of rows the interior-point method, which factors their kernel matrix, takes seconds."""

CHUNKS_PER_THREAD = 8
"""Subproblems take unequal time: each thread gets them in this number of chunks."""

MAX_CACHED_BYTES = 64 * 2**20
"""Keep the kernel matrices of all working sets if they take no more memory than this."""

MIN_REUSED_FRACTION = 1 / 4
"""Reuse a matrix if at least this fraction of its rows is still in the working set."""

SCRATCH = Scratch()

Numbers = NDArray[np.float64]


@dataclass
class Subproblems:
    """Some rows of each of many binary problems, concatenated, with their dual variables.

    Problem k has the entries starts[k] to starts[k + 1]. For two rows at 0 and 1, of different classes, the solution is
    alpha (1 - exp(-1)) = 1:

    >>> y, rows = np.array([-1.0, 1.0]), np.array([[0.0, 0.0, 1.0], [np.sqrt(2), -1.0, 1.0]])
    >>> pair = Subproblems(np.array([0, 2]), np.array([0, 1]), y, y.copy(), np.zeros(2), np.full(2, 9.0), np.zeros(1))
    >>> pair.solve(rows, (0, 1.0, 0, 0.0), -1.0, np.array([1e-9]), Threads(1))
    >>> pair.alpha.round(3)
    array([1.582, 1.582])
    """

    starts: NDArray[np.int64]
    positions: NDArray[np.int64]  # of the entries among the lifted rows
    y: NDArray[np.float64]  # signs of the classes
    v: NDArray[np.float64]  # y - f with the scores f
    alpha: NDArray[np.float64]
    bound: NDArray[np.float64]
    totals: NDArray[np.float64]  # y'alpha over all rows of each problem, not only those here

    def __post_init__(self) -> None:
        self.hard = np.zeros(len(self), dtype=bool)  # problems on which SMO does not converge

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
        """The midpoint of the largest v in I_up and the smallest in I_low, by problem; the default if one is empty."""
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
        from mergesvm.models.kernel_values_jit import kernel_matrix

        unsolved = np.zeros(len(self), dtype=bool)

        def solve_chunk(chunk: tuple[int, int]) -> None:
            starts, here = self.starts[chunk[0] : chunk[1] + 1], slice(*chunk)
            state = self.y, self.v, self.alpha, self.bound, self.totals[here], penalty
            limits = tolerances[here], MAX_STEPS_PER_ROW, unsolved[here]
            solve_subproblems(starts, self.positions, rows, kernel, *state, *limits)

        size = max(1, len(self) // (CHUNKS_PER_THREAD * threads.workers))
        threads.map(solve_chunk, list(spans(len(self), size)))
        for k in np.flatnonzero(unsolved).tolist():
            K = kernel_matrix(rows[self.positions[self.span(k)]], kernel)
            self._solve_hard(k, K, penalty, float(tolerances[k]))

    def solve_one(self, k: int, K: NDArray[Any], penalty: float, tolerance: float, hard: bool = False) -> None:
        """Solve one problem with the kernel matrix K of its rows to a tolerance, in place."""
        from mergesvm.methods.kernel.jit.smo import solve_subproblem

        state, max_steps = self._state(k), len(K) * (MAX_STEPS_IF_HARD if hard else MAX_STEPS_PER_ROW)
        if solve_subproblem(K, *state, float(self.totals[k]), penalty, tolerance, max_steps) == max_steps:
            self._solve_hard(k, K, penalty, tolerance)

    def _solve_hard(self, k: int, K: NDArray[Any], penalty: float, tolerance: float) -> None:
        """Solve a problem on which SMO does not converge, if it is not too large, by the interior-point method."""
        self.hard[k] = True
        if len(K) <= MAX_ROWS_FOR_INTERIOR_POINT:
            maximise_dual(K, *self._state(k), float(self.totals[k]), penalty, tolerance)

    def _state(self, k: int) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        span = self.span(k)
        return self.y[span], self.v[span], self.alpha[span], self.bound[span]


class SubproblemMatrices:
    """Kernel matrices of the working sets; most of their rows stay from one iteration to the next."""

    def __init__(self, setup: TrainingSetup) -> None:
        self._kernel, self._dtype = setup.kernel, setup.dtype
        self._matrices: dict[int, tuple[NDArray[np.int64], NDArray[Any]]] = {}

    def get(self, problem: int, indices: NDArray[np.int64], rows: Lifted, n_problems: int) -> NDArray[Any]:
        """The kernel matrix of these rows of a problem; it may be overwritten by the next call in the same thread."""
        from mergesvm.methods.kernel.jit.scores import assemble_matrix

        kernel, count = self._kernel, len(indices)
        if n_problems * count**2 * self._dtype.itemsize > MAX_CACHED_BYTES:
            K = SCRATCH.take("matrix", (count, count), self._dtype)
            kernel.fill(kernel.turn(rows), rows, K)
            return K
        K = np.empty((count, count), dtype=self._dtype)
        before, old = self._matrices.pop(problem, (indices[:0], K[:0]))
        sorter = np.argsort(indices)
        positions = sorter[np.minimum(np.searchsorted(indices, before, sorter=sorter), count - 1)]
        stayed = np.flatnonzero(indices[positions] == before)
        if len(stayed) < int(MIN_REUSED_FRACTION * count):
            kernel.fill(kernel.turn(rows), rows, K)
        else:
            fresh = np.setdiff1d(np.arange(count), positions[stayed], assume_unique=True)
            part = SCRATCH.take("part", (len(fresh), count), self._dtype)
            kernel.fill(kernel.turn(rows.take(fresh)), rows, part)
            assemble_matrix(K, old, stayed, positions[stayed], part, fresh)
        self._matrices[problem] = indices, K
        return K
