"""Shrinking: leaves rows out that stay at a bound, until the other rows have converged."""

from __future__ import annotations

import numpy as np

from mergesvm.methods.kernel.messages import Request
from mergesvm.methods.kernel.worker.dual_state import DualState
from mergesvm.methods.kernel.worker.score_updates import ClassSteps, ScoreUpdates

SHRINK_PERIOD = 8
"""Rows are shrunk at most every this number of iterations."""

MIN_SHRUNK_FRACTION = 0.25
"""Shrink a class only if at least this fraction of its active rows can be shrunk."""

MIN_WORK_RATIO = 8
"""And only after score updates have taken this many times the work of permuting the cached columns."""


class Shrinking:
    """Shrinks rows of a :class:`DualState` (Joachims, 1999; as in LIBSVM), and updates their scores on return.

    Scores of shrunk rows are not updated. The steps that they miss are logged.
    """

    def __init__(self, state: DualState, scores: ScoreUpdates) -> None:
        self._state, self._scores = state, scores
        self._work = [0] * len(state.classes)
        self._shrunk: list[tuple[int, slice, int]] = []  # class, rows, and length of the log when they were shrunk
        self._log: list[ClassSteps] = []

    @property
    def n_shrunk(self) -> int:
        """Number of shrunk rows."""
        return sum(len(columns.rows) - columns.n_active for columns in self._state.columns)

    def record(self, applied: list[ClassSteps]) -> None:
        """Record steps that have been applied to the scores of active rows."""
        for part in applied:
            columns = self._state.columns[part.code]
            self._work[part.code] += len(part.ids) * columns.n_active
            if columns.n_active < len(columns.rows):
                self._log.append(part)

    def update(self, request: Request, iteration: int) -> None:
        """Shrink or unshrink rows, as the request says."""
        if request.unshrink:
            self.unshrink()
        elif iteration % SHRINK_PERIOD == SHRINK_PERIOD - 1:
            self.shrink(request)

    def shrink(self, request: Request) -> None:
        """Shrink rows that are at a bound in all active problems, with v beyond the limits of the request."""
        from mergesvm.methods.kernel.jit.working_set import find_shrinkable

        state = self._state
        for code, columns in enumerate(state.columns):
            if self._work[code] < MIN_WORK_RATIO * columns.n_cached * columns.n_active:
                continue
            before = columns.n_active
            at, sides = np.nonzero(state.pairs[request.active] == code)
            shrinkable = np.full(before, len(at) > 0)
            starts = state.starts[request.active[at], sides]
            find_shrinkable(
                starts, sides, before, state.score, state.alpha, state.bound, request.limits[at], shrinkable
            )
            if shrinkable.sum() < max(MIN_SHRUNK_FRACTION * before, 1):
                continue
            n_active = int((~shrinkable).sum())
            state.shrink(code, np.argsort(shrinkable, kind="stable"), n_active)
            self._work[code] = 0
            self._shrunk.append((code, slice(n_active, before), len(self._log)))

    def unshrink(self) -> None:
        """Make all rows active again, and add the steps that their scores have missed."""
        n_shared = len(self._state.shared)
        for code, rows, mark in self._shrunk:
            missed = [part for part in self._log[mark:] if part.code == code]
            if missed:
                problems, ids, steps = (
                    np.concatenate([getattr(part, name) for part in missed]) for name in ("problems", "ids", "steps")
                )
                # Each column is added once, times the sum of its steps.
                keys, inverse = np.unique(problems * n_shared + ids, return_inverse=True)
                total = np.bincount(inverse, steps).astype(np.float64)
                moved = np.flatnonzero(total)
                part = ClassSteps(code, keys[moved] // n_shared, keys[moved] % n_shared, total[moved])
                self._scores.add_to_rows(rows, part)
        if self._shrunk:
            for columns in self._state.columns:
                columns.unshrink()
        self._shrunk, self._log = [], []
