"""Proposals: the rows that a unit proposes for the working sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.messages import EMPTY, Request
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.worker.dual_state import DualState
from mergesvm.methods.kernel.worker.local_problems import LocalProblems

PREFILTER_TOL = 0.1
"""To prefilter violators, a unit solves their problem to this fraction of its largest violation."""

Entries = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Entries of a :class:`DualState`, and the number of the active problem of each."""


class Proposals:
    """Selects the rows of a unit that should be in the working sets: violators, and rows that stay."""

    def __init__(self, state: DualState, local: LocalProblems) -> None:
        self._state, self._local = state, local
        self._excluded = np.zeros(len(state.alpha), dtype=bool)

    def propose(self, request: Request, solved: NDArray[np.bool_], seed: int) -> RaggedArray:
        """The rows proposed for the active problems, with v, alpha, bound and y; none for ``solved`` problems.

        Keys are rows of the unit, not yet indices among all rows.
        """
        from mergesvm.methods.kernel.jit.working_set import write_proposals

        state, active = self._state, request.active
        local = self._local.solvable(request) & ~solved
        candidates, at = self._local.candidates(active[local])
        parts = (
            (candidates, np.flatnonzero(local)[at]),
            *self._selected(request, np.flatnonzero(~local & ~solved), seed),
        )
        counts = np.sum([np.bincount(at, minlength=len(active)) for _, at in parts], axis=0)
        starts = np.append(0, np.cumsum(counts))
        heads, keys, values = starts[:-1].copy(), np.empty(starts[-1], np.int64), np.empty((starts[-1], 4))
        arrays = active, state.starts, state.score, state.alpha, state.bound, state.entry_rows
        for entries, at in parts:
            write_proposals(entries, at, heads, *arrays, keys, values)
        return RaggedArray(starts, keys, values)

    def _selected(self, request: Request, numbers: NDArray[np.intp], seed: int) -> tuple[Entries, Entries]:
        """The worst violators of some active problems, and the rows that stay in the working sets of all."""
        from mergesvm.methods.kernel.jit.working_set import select_violators

        state, setup = self._state, self._state.setup
        problems = request.active[numbers]
        arguments = state.arguments(problems, request.intercepts[numbers])
        kept, kept_at = self._kept(request)
        self._excluded[kept] = True
        width = 2 * int(setup.max_proposed[problems].max(initial=0))
        selected, found = np.empty((len(problems), width), np.int64), np.empty(len(problems), np.int64)
        options = setup.max_proposed, setup.selection_noise, seed
        select_violators(*arguments, *options, state.entry_rows, self._excluded, selected, found)
        self._excluded[kept] = False
        used = np.arange(width) < found[:, None]
        if setup.prefilters:
            used &= self._prefiltered(arguments, selected, found)
        return (selected[used], numbers[np.nonzero(used)[0]]), (kept, kept_at)

    def _kept(self, request: Request) -> Entries:
        """The unit's rows that stay in the working sets of the active problems."""
        state, active = self._state, request.active
        if request.working_set is None:
            used = [
                np.flatnonzero(state.alpha[state.starts[p, 0] : state.span(p, 1).stop]) + state.starts[p, 0]
                for p in active
            ]
            at = np.repeat(np.arange(len(used)), [len(entries) for entries in used])
            return np.concatenate([EMPTY, *used]), at
        own = state.own_rows[request.working_set.keys] >= 0
        at = request.working_set.problems[own]
        return state.entries(active[at], request.working_set.keys[own]), at

    def _prefiltered(
        self, arguments: tuple[Any, ...], selected: NDArray[np.int64], found: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Mask of the selected rows that are support vectors of the problem of the selected rows alone."""
        from mergesvm.methods.kernel.jit.working_set import prefilter

        state, setup = self._state, self._state.setup
        problems, starts, _, *arrays = arguments
        small = setup.small[problems]  # not filtered: fewer iterations matter more than fewer rows
        used = np.zeros(selected.shape, dtype=bool)
        used[small] = True
        if not state.compiled:
            for at in np.flatnonzero(~small):
                entries = selected[at, : found[at]]
                support = self._local_support(int(problems[at]), entries, arguments[-1][at])
                used[at, : found[at]] = np.isin(entries, support)
            return used
        rows = state.lifted.matrix, state.offsets[state.pairs], setup.kernel.jit_parameters
        prefilter(problems, starts, *arrays, selected, np.where(small, 0, found), *rows, PREFILTER_TOL, used)
        return used

    def _local_support(self, p: int, entries: NDArray[np.int64], intercept: float) -> NDArray[np.int64]:
        """The same for one problem, with a kernel that is not compiled."""
        from mergesvm.methods.kernel.jit.smo import solve_subproblem

        if not len(entries):
            return entries
        state, kernel = self._state, self._state.setup.kernel
        entries = np.sort(entries)
        side = (entries >= state.starts[p, 1]).astype(np.int64)
        one, other = (state.columns[code].rows for code in state.pairs[p])
        first, second = entries[side == 0] - state.starts[p, 0], entries[side == 1] - state.starts[p, 1]
        rows = one.take(first).joined(other.take(second))
        K = np.empty((len(entries), len(entries)), dtype=state.setup.dtype)
        kernel.fill(kernel.turn(rows), rows, K)
        y = 2.0 * side - 1.0
        v, alpha = y - state.score[entries] - intercept, state.alpha[entries].copy()
        worst = np.append(np.argmax(v), np.argmin(v))
        tolerance = PREFILTER_TOL * float(np.abs(v).max())
        solve_subproblem(K, y, v, alpha, state.bound[entries], 0.0, 0.0, tolerance, 100 * len(entries))
        used = (alpha > 0) | (state.alpha[entries] > 0)
        used[worst] = True
        return entries[used]
