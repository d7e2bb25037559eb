"""Proposals: the rows that a unit proposes for the working sets. LocalProblems: problems of its own rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.methods.kernel.messages import EMPTY, Request
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.subproblems import Subproblems
from mergesvm.methods.kernel.worker.dual_state import DualState

PREFILTER_TOL = 0.1
"""To prefilter violators, a unit solves their problem to this fraction of its largest violation."""

LOCAL_TOL, MAX_MARGIN_DISTANCE = 0.1, 0.025
"""To find candidate support vectors, a unit solves the problem of its own rows to this violation, and adds the rows
within this distance of the margin. Larger values send more rows, smaller ones need more iterations."""

Entries = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Entries of a :class:`DualState`, and the number of the active problem of each."""


class LocalProblems:
    """Small binary problems, as if the rows of this unit were all there are."""

    def __init__(self, state: DualState) -> None:
        self._state = state

    def solvable(self, request: Request) -> NDArray[np.bool_]:
        """The active problems that the unit starts with on its own: small ones of which it has rows of both classes."""
        state, active = self._state, request.active
        both = (state.counts[active] > 0).all(axis=1) & state.compiled
        return both & state.setup.small[active] & request.solve_locally

    def solve(self, problems: NDArray[np.int64]) -> None:
        """Solve problems all of whose rows are at this unit, and keep the solution."""
        state = self._state
        subproblems, entries = self._subproblems(problems)
        self._smo(subproblems, state.setup.subproblem_tol)
        state.alpha[entries], state.score[entries] = subproblems.alpha, subproblems.y - subproblems.v

    def candidates(self, problems: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries that are, or are close to, support vectors of local problems, and the problem number of each."""
        if not len(problems):
            return EMPTY, EMPTY
        subproblems, entries = self._subproblems(problems)
        self._smo(subproblems, max(LOCAL_TOL, self._state.setup.subproblem_tol))
        intercepts = subproblems.intercepts(np.zeros(len(subproblems)))
        near = subproblems.y * (subproblems.v - intercepts[subproblems.problems]) > -MAX_MARGIN_DISTANCE
        used = np.flatnonzero(near | (subproblems.alpha > 0) | (self._state.alpha[entries] > 0))
        return entries[used], subproblems.problems[used]

    def _subproblems(self, problems: NDArray[np.int64]) -> tuple[Subproblems, NDArray[np.int64]]:
        """The problems restricted to the unit's rows, and the entries of these rows."""
        state = self._state
        counts = state.counts[problems]
        sizes, starts = counts.ravel(), np.append(0, np.cumsum(counts.sum(axis=1)))
        within = np.arange(starts[-1]) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        entries = np.repeat(state.starts[problems].ravel(), sizes) + within
        lifted = np.repeat(state.offsets[state.pairs[problems]].ravel(), sizes) + within
        y = np.repeat(np.tile([-1.0, 1.0], len(problems)), sizes)
        alpha, bound = state.alpha[entries], state.bound[entries]
        subproblems = Subproblems(starts, lifted, y, y - state.score[entries], alpha, bound, np.zeros(len(problems)))
        subproblems.totals = subproblems.sums(y * alpha)
        return subproblems, entries

    def _smo(self, subproblems: Subproblems, tolerance: float) -> None:
        setup = self._state.setup
        rows, tolerances = self._state.lifted.matrix, np.full(len(subproblems), tolerance)
        subproblems.solve(rows, setup.kernel.jit_parameters, setup.penalty, tolerances, Threads(setup.n_threads))


class Proposals:
    """Selects the rows of a unit that should be in the working sets: violators, and rows that stay."""

    def __init__(self, state: DualState, local: LocalProblems) -> None:
        self._state, self._local = state, local
        self._excluded = np.zeros(len(state.alpha), dtype=bool)

    def propose(
        self, request: Request, solved: NDArray[np.bool_], seed: int, free: NDArray[np.bool_] | None = None
    ) -> RaggedArray:
        """The rows proposed for the active problems, with v, alpha, bound and y; none for ``solved`` problems.

        Keys are rows of the unit, not yet indices among all rows. Rows in the mask ``free`` stay in the working sets,
        as if they were support vectors.
        """
        from mergesvm.methods.kernel.jit.working_set import write_proposals

        state, active = self._state, request.active
        local = self._local.solvable(request) & ~solved
        candidates, at = self._local.candidates(active[local])
        parts = (
            (candidates, np.flatnonzero(local)[at]),
            *self._selected(request, np.flatnonzero(~local & ~solved), seed, free),
        )
        counts = np.sum([np.bincount(at, minlength=len(active)) for _, at in parts], axis=0)
        starts = np.append(0, np.cumsum(counts))
        heads, keys, values = starts[:-1].copy(), np.empty(starts[-1], np.int64), np.empty((starts[-1], 4))
        arrays = active, state.starts, state.score, state.alpha, state.bound, state.entry_rows
        for entries, at in parts:
            write_proposals(entries, at, heads, *arrays, keys, values)
        return RaggedArray(starts, keys, values)

    def _selected(
        self, request: Request, numbers: NDArray[np.intp], seed: int, free: NDArray[np.bool_] | None
    ) -> tuple[Entries, Entries]:
        """The worst violators of some active problems, and the rows that stay in the working sets of all."""
        from mergesvm.methods.kernel.jit.working_set import select_violators

        state, setup = self._state, self._state.setup
        problems = request.active[numbers]
        arguments = state.arguments(problems, request.intercepts[numbers])
        kept, kept_at = self._kept(request, free)
        self._excluded[kept] = True
        max_proposed = setup.max_proposed.copy()
        max_proposed[request.hard] = np.maximum(max_proposed[request.hard], setup.max_proposed_if_hard)
        width = 2 * int(max_proposed[problems].max(initial=0))
        selected, found = np.empty((len(problems), width), np.int64), np.empty(len(problems), np.int64)
        options = max_proposed, setup.selection_noise, seed
        select_violators(*arguments, *options, state.entry_rows, self._excluded, selected, found)
        self._excluded[kept] = False
        used = np.arange(width) < found[:, None]
        if setup.prefilters:
            used &= self._prefiltered(arguments, selected, found)
        return (selected[used], numbers[np.nonzero(used)[0]]), (kept, kept_at)

    def _kept(self, request: Request, free: NDArray[np.bool_] | None) -> Entries:
        """The unit's rows that stay in the working sets of the active problems."""
        state, active = self._state, request.active
        if request.working_set is None:
            stay = state.alpha > 0
            if free is not None:
                stay |= free[state.entry_rows] & (state.bound > 0)
            used = [
                np.flatnonzero(stay[state.starts[p, 0] : state.span(p, 1).stop]) + state.starts[p, 0] for p in active
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
