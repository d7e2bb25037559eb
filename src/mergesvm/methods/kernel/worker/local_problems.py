"""LocalProblems: binary problems restricted to the rows of one unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.methods.kernel.messages import EMPTY, Request
from mergesvm.methods.kernel.subproblems import Subproblems
from mergesvm.methods.kernel.worker.dual_state import DualState

LOCAL_TOL, MAX_MARGIN_DISTANCE = 0.1, 0.025
"""To find candidate support vectors, a unit solves the problem of its own rows to this violation, and adds the rows
within this distance of the margin. Larger values send more rows, smaller ones need more iterations."""


class LocalProblems:
    """Small binary problems, as if the rows of this unit were all there are."""

    def __init__(self, state: DualState) -> None:
        self._state = state

    def solvable(self, request: Request) -> NDArray[np.bool_]:
        """The active problems that the unit starts with on its own: small ones of which it has rows of both classes."""
        state, active = self._state, request.active
        both = (state.counts[active] > 0).all(axis=1) & state.compiled
        solvable: NDArray[np.bool_] = both & state.setup.small[active] & request.solve_locally
        return solvable

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
