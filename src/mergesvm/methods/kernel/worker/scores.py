"""ScoreUpdates: adds the effect of changed dual variables to scores. Shrinking: leaves out rows at a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.messages import Request
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.worker.dual_state import DualState, SavedState

MAX_UNCACHED_BLOCK = 256
"""Number of columns that are computed at a time if they are not cached."""

SHRINK_PERIOD = 8
"""Rows are shrunk at most every this number of iterations."""

MIN_SHRUNK_FRACTION = 0.25
"""Shrink a class only if at least this fraction of its active rows can be shrunk."""

MIN_WORK_RATIO = 8
"""And only after score updates have taken this many times the work of permuting the cached columns."""


@dataclass(frozen=True)
class ClassSteps:
    """Steps of y alpha that change the scores of one class: problem (ascending), shared row and step of each."""

    code: int
    problems: NDArray[np.int64]
    ids: NDArray[np.int64]
    steps: NDArray[np.float64]


class ScoreUpdates:
    """Applies changes in ``y * alpha`` to a :class:`DualState`, and updates its scores."""

    def __init__(self, state: DualState) -> None:
        self._state = state
        setup = state.setup
        # For small problems of narrow rows, recomputing kernel values is as fast as a cache lookup.
        self._uncached = setup.small & (not setup.kernel.is_function and state.lifted.narrow)

    def apply(self, request: Request) -> list[ClassSteps]:
        """Change alpha and scores by the steps of a request; returns the steps of cached problems, by class."""
        from mergesvm.methods.kernel.jit.scores import change_alphas

        state, moved, steps = self._state, request.moved, request.steps
        if not len(steps.keys):
            return []
        assert steps.values is not None
        layout = state.pairs, state.shared_codes, state.starts, state.own_rows, state.positions
        change_alphas(state.alpha, state.bound, moved, steps.starts, steps.keys, steps.values, *layout)
        uncached = self._uncached[moved]
        if uncached.any():
            self._add_uncached(moved, steps)
        if uncached.all():
            return []
        others = np.flatnonzero(np.repeat(~uncached, steps.sizes))
        problems, ids, values = moved[steps.problems[others]], steps.keys[others], steps.values[others]
        pairs, applied = state.pairs[problems], []
        for code, columns in enumerate(state.columns):
            touched = np.flatnonzero((pairs == code).any(axis=1))
            if len(touched) and len(columns.rows):
                part = ClassSteps(code, problems[touched], ids[touched], values[touched])
                if columns.n_active:
                    self._add_cached(part)
                applied.append(part)
        return applied

    def add_missing(self, saved: SavedState, support: RaggedArray) -> None:
        """Compute the scores of rows that are not in a saved state, from y alpha of all support vectors."""
        if not len(support.keys):
            return
        assert support.values is not None
        state, problems = self._state, support.problems
        for code, label in enumerate(state.classes):
            n_saved = {
                p: len(saved.get((pair, label), ((),))[0]) for p, pair in enumerate(state.setup.pairs) if label in pair
            }
            for count in set(n_saved.values()):
                chosen = np.isin(problems, [p for p in n_saved if n_saved[p] == count])
                steps = ClassSteps(code, problems[chosen], support.keys[chosen], support.values[chosen])
                self.add_to_rows(slice(count, len(state.members[code])), steps)

    def add_to_rows(self, rows: slice, part: ClassSteps) -> None:
        """Add the effect of steps to the scores of some rows of a class, without caching columns."""
        count = rows.stop - rows.start
        if count <= 0 or not len(part.ids):
            return
        state = self._state
        unique, places = np.unique(part.ids, return_inverse=True)
        for start in range(0, len(unique), MAX_UNCACHED_BLOCK):
            ids = unique[start : start + MAX_UNCACHED_BLOCK]
            columns = np.empty((len(ids), count), dtype=state.setup.dtype)
            state.columns[part.code].compute(ids, state.shared, rows, columns)
            inside = np.flatnonzero((places >= start) & (places < start + len(ids)))
            self._add_columns(part, inside, places[inside] - start, columns, rows.start, count)

    def _add_cached(self, part: ClassSteps) -> None:
        """Add the effect of steps to the scores of the active rows of a class, by cached columns."""
        cache = self._state.columns[part.code]
        unique, places = np.unique(part.ids, return_inverse=True)
        for ids, slots in cache.fetch(unique, self._state.shared):
            inside = np.flatnonzero((places >= ids.start) & (places < ids.stop))
            self._add_columns(part, inside, slots[places[inside] - ids.start], cache.columns, 0, cache.n_active)

    def _add_columns(
        self,
        part: ClassSteps,
        inside: NDArray[np.intp],
        slots: NDArray[np.int64],
        columns: NDArray[Any],
        first: int,
        count: int,
    ) -> None:
        """Add some of the steps times their columns to the scores of ``count`` rows of a class from ``first`` on."""
        from mergesvm.methods.kernel.jit.scores import add_columns

        state, problems = self._state, part.problems[inside]
        cuts = np.flatnonzero(np.diff(problems, prepend=-1))
        heads = problems[cuts]
        side = (state.pairs[heads, 1] == part.code).astype(np.int64)
        score_starts, starts = state.starts[heads, side] + first, np.append(cuts, len(problems))
        add_columns(state.score, score_starts, starts, slots, part.steps[inside], columns, count)

    def _add_uncached(self, moved: NDArray[np.int64], steps: RaggedArray) -> None:
        """Add the effect of steps to the scores of all rows of small problems, without caching columns."""
        from mergesvm.methods.kernel.jit.scores import add_between_classes, add_within_classes

        assert steps.values is not None
        state, uncached = self._state, self._uncached[moved]
        entries = np.flatnonzero(np.repeat(uncached, steps.sizes))
        problems, ids, values = moved[uncached], steps.keys[entries], steps.values[entries]
        pairs, starts = state.pairs[problems], np.append(0, np.cumsum(steps.sizes[uncached]))
        kernel, shared = state.setup.kernel.jit_parameters, state.shared.all().matrix
        rows = state.starts[problems], state.counts[problems], state.offsets[pairs], state.lifted.matrix
        arguments = *rows, starts, ids, values, shared
        sides, side_starts = self._by_class(pairs.ravel())
        mask = np.zeros(len(shared), dtype=bool)
        mask[ids] = True
        used = np.flatnonzero(mask)
        order, used_starts = self._by_class(state.shared_codes[used])
        add_within_classes(state.score, sides, side_starts, *arguments, used[order], used_starts, kernel)
        add_between_classes(state.score, pairs, state.shared_codes, *arguments, kernel)

    def _by_class(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The order that sorts by class, and where each class begins in it."""
        order = np.argsort(codes, kind="stable")
        return order, np.searchsorted(codes[order], np.arange(len(self._state.classes) + 1))


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

    def update(self, request: Request, applied: list[ClassSteps], iteration: int) -> None:
        """Log steps that have been applied to active rows; then shrink or unshrink rows, as the request says."""
        for part in applied:
            columns = self._state.columns[part.code]
            self._work[part.code] += len(part.ids) * columns.n_active
            if columns.n_active < len(columns.rows):
                self._log.append(part)
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
            shrinkable, limits = np.full(before, len(at) > 0), request.limits[at]
            starts = state.starts[request.active[at], sides]
            find_shrinkable(starts, sides, before, state.score, state.alpha, state.bound, limits, shrinkable)
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
