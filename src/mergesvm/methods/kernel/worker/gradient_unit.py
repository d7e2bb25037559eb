"""GradientUnit: a unit that updates all its dual variables by projected gradient steps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError
from mergesvm.methods.kernel.messages import Reply, Request
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.stats import N_STATS
from mergesvm.methods.kernel.worker.unit import Unit
from mergesvm.models.kernel_function import Lifted

MAX_POWER_ITERATIONS, POWER_TOL = 50, 1e-3
"""Power iteration stops after this number of steps, or when the eigenvalue changes by less than this fraction."""

EIGENVALUE_MARGIN = 1.1
"""Power iteration approaches the largest eigenvalue from below: its result is multiplied by this factor."""

BLOCK_ROWS = 256
"""Rows of the kernel matrix that are computed at a time."""


class GradientUnit(Unit):
    """A unit of the paper's parallel update, alpha <- [alpha + kappa G]+, with the gradient G of its problem (2).

    With momentum the gradient is evaluated at an extrapolated alpha. Scores are linear in alpha, so this needs no
    further rows.
    """

    def largest_eigenvalues(self, penalty: float) -> NDArray[np.float64]:
        """Upper bounds of the largest eigenvalue of Q + penalty y y' on the rows of this unit, for each problem.

        Their sum over all units is an upper bound for all rows, because the matrix is positive semi-definite. So no
        unit needs rows of another.
        """
        state = self._workspace.state
        found = np.zeros(len(state.pairs))
        for p in range(len(state.pairs)):
            entries = np.append(state.entry_rows[state.span(p, 0)], state.entry_rows[state.span(p, 1)])
            rows = self._setup.numerics.lift(self._local.matrix[entries], self._local.indices[entries])
            if len(rows):
                found[p] = EIGENVALUE_MARGIN * self._largest_eigenvalue(rows, penalty)
        return found

    def _largest_eigenvalue(self, rows: Lifted, penalty: float) -> float:
        """The largest eigenvalue of K + penalty by power iteration; the signs y do not change eigenvalues."""
        kernel = self._setup.kernel
        x = np.random.default_rng(0).uniform(0.5, 1.0, len(rows))
        turned, value = kernel.turn(rows), 0.0
        for _ in range(MAX_POWER_ITERATIONS):
            x /= np.linalg.norm(x)
            product = np.full(len(rows), penalty * x.sum())
            for start in range(0, len(rows), BLOCK_ROWS):
                part = slice(start, min(start + BLOCK_ROWS, len(rows)))
                block = np.empty((part.stop - start, len(rows)), dtype=self._setup.dtype)
                kernel.fill(turned.take(part), rows, block)
                product[part] += block @ x
            before, value, x = value, float(x @ product), product
            if abs(value - before) <= POWER_TOL * value:
                break
        return value

    def set_initial(self, alpha: NDArray[np.float64]) -> None:
        """Set the dual variables to start the next training from; ``alpha`` is that of all rows."""
        self._initial = alpha[self._local.indices]

    def initial_steps(self) -> Reply:
        """The steps of y alpha that lead to the initial dual variables, for all problems."""
        state, rows, steps = self._workspace.state, [], []
        for p in range(len(state.pairs)):
            for side in range(2):
                span = state.span(p, side)
                own = state.entry_rows[span]
                alpha = self._initial[own]
                self._check_within_bounds(own, alpha, state.bound[span])
                moved = np.flatnonzero(alpha)
                rows.append(own[moved])
                steps.append((2.0 * side - 1.0) * alpha[moved])
        sides = RaggedArray.of(rows, steps)
        proposed = RaggedArray(sides.starts[::2], self._local.indices[sides.keys], sides.values)
        return Reply(np.zeros((0, N_STATS)), proposed, self._unsent(sides.keys))

    def _check_within_bounds(
        self, rows: NDArray[np.int64], alpha: NDArray[np.float64], bound: NDArray[np.float64]
    ) -> None:
        above = np.flatnonzero(alpha > bound)
        if len(above):
            at = above[0]
            raise DataError(
                f"initial has {alpha[at]:g} for row {self._local.indices[rows[at]]}, whose dual variables are at most "
                f"{bound[at]:g}: C times its weights."
            )

    def gradient_step(
        self,
        request: Request,
        step_sizes: NDArray[np.float64],
        momenta: NDArray[np.float64],
        intercepts: NDArray[np.float64],
    ) -> Reply:
        """Apply a request, and propose the next steps of y alpha; ``intercepts`` are at the extrapolated alpha."""
        state = self._workspace.state
        old_alpha, old_score = state.alpha.copy(), state.score.copy()
        self.apply(request)
        stats = state.stats(request.active, request.intercepts)
        rows, steps = [], []  # two of each per problem
        for at, p in enumerate(request.active):
            for side in range(2):
                span, y = state.span(p, side), 2.0 * side - 1.0
                alpha, momentum = state.alpha[span], momenta[at]
                start = alpha + momentum * (alpha - old_alpha[span])
                score = state.score[span] + momentum * (state.score[span] - old_score[span])
                gradient = 1 - y * (score + intercepts[at])
                new = np.clip(start + step_sizes[p] * gradient, 0, state.bound[span])
                moved = np.flatnonzero(new != alpha)
                rows.append(state.entry_rows[span][moved])
                steps.append(y * (new - alpha)[moved])
        sides = RaggedArray.of(rows, steps)
        proposed = RaggedArray(sides.starts[::2], self._local.indices[sides.keys], sides.values)
        return Reply(stats, proposed, self._unsent(sides.keys))
