"""WorkingSetCoordinator: training by working sets, or by active sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.methods.kernel.coordinator.base import Coordinator
from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.messages import EMPTY, Reply, Request
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.stats import TINY, ProblemStats
from mergesvm.methods.kernel.subproblems import SubproblemMatrices, Subproblems

RELATIVE_SUBPROBLEM_TOL = 0.05
"""Subproblems of the working-set method are solved to this fraction of the largest violation."""

STALLED_ITERATIONS, MIN_RELATIVE_GAIN = 50, 1e-11
"""Training has stalled if this number of iterations gained less than this fraction of the objective."""

STALLED_IF_HARD = 10
"""Small problems have also stalled if this number of iterations with the interior-point method has not halved the
violation."""

HARD_ITERATION_COST = 50
"""An iteration with the interior-point method counts as this many for the default limit of iterations."""

STALLED_WITHIN_TOL = 3
"""The same, once no violation exceeds ``tol`` and only the tighter tolerance for few rows is left to reach."""


@dataclass
class WorkingSets:
    """The working sets of an iteration, and the solution of their subproblems."""

    problems: NDArray[np.int64]  # the problem of each subproblem
    indices: NDArray[np.int64]  # of the rows of all subproblems
    subproblems: Subproblems
    steps: NDArray[np.float64]  # the change of y alpha of each row


class KeptRows:
    """The free support vectors of the last working set of each problem, at most ``max_kept``, the newest first."""

    def __init__(self, n_problems: int, max_kept: int) -> None:
        self._n_problems, self._max_kept = n_problems, max_kept
        self._problems, self._indices = EMPTY, EMPTY  # of all kept rows; problems ascend

    def of(self, problems: NDArray[np.int64], registry: RowRegistry) -> RaggedArray:
        """Ids of the kept rows of some problems."""
        here = self._mask(problems)[self._problems]
        starts = np.append(np.searchsorted(self._problems[here], problems), here.sum())
        return RaggedArray(starts, registry.ids(self._indices[here]))

    def update(self, solved: NDArray[np.int64], row_indices: NDArray[np.int64], subproblems: Subproblems) -> None:
        """Keep the free support vectors of subproblems that have been solved."""
        free = np.flatnonzero((subproblems.alpha > 0) & (subproblems.alpha < subproblems.bound))
        problems, indices = solved[subproblems.problems[free]], row_indices[free]
        if len(free) and np.bincount(problems).max() > self._max_kept:
            problems, indices = self._newest(problems, indices)
        others = ~self._mask(solved)[self._problems]
        problems, indices = np.append(self._problems[others], problems), np.append(self._indices[others], indices)
        order = np.argsort(problems, kind="stable")
        self._problems, self._indices = problems[order], indices[order]

    def _newest(
        self, problems: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """At most ``max_kept`` rows per problem, first those that were not kept before."""
        stride = 1 + max(indices.max(), self._indices.max(initial=0))
        old = np.isin(problems * stride + indices, self._problems * stride + self._indices)
        order = np.lexsort((old, problems))
        problems, indices = problems[order], indices[order]
        newest = np.arange(len(problems)) - np.searchsorted(problems, problems) < self._max_kept
        return problems[newest], indices[newest]

    def _mask(self, problems: NDArray[np.int64]) -> NDArray[np.bool_]:
        mask = np.zeros(self._n_problems, dtype=bool)
        mask[problems] = True
        return mask


@dataclass(eq=False)
class WorkingSetCoordinator(Coordinator):
    """Solves in each iteration the dual problems restricted to a working set (decomposition, as in LIBSVM).

    Units propose their worst violators. These rows, and free support vectors from before (all support vectors in the
    active-set method), are the working set. Its subproblem is solved with all other dual variables fixed, so the
    objective never decreases. Rows that stay at a bound are shrunk: left out until the other rows have converged.
    """

    unit_method = "step"
    threads: Threads  # for solving many subproblems

    def __post_init__(self) -> None:
        super().__post_init__()
        self._active_set = self.options.method == "active-set"
        self._kept = KeptRows(len(self.statuses), self.options.working_set)
        self._gains: list[float] = []
        self._hard = np.zeros(len(self.statuses), dtype=bool)  # problems on which SMO does not converge
        self._hard_violations: list[float] = []  # in the iterations in which there was one
        self._matrices = SubproblemMatrices(self.setup)
        self._intercepts = np.array([status.total * max(self.setup.penalty, 0.0) for status in self.statuses])

    def first(self) -> tuple[Request]:
        """The first request: no dual variable changes yet."""
        working_set = None if self._active_set else RaggedArray.empty(len(self.statuses))
        return (Request.start(self._active, self._intercepts, working_set, solve_locally=not self._active_set),)

    def next(self, replies: list[Reply]) -> tuple[Request]:
        """The request that follows on the replies of the units; without active problems when all have stopped."""
        self.registry.add_all(replies, self.setup)
        solved_locally = [reply.solved_locally for reply in replies if reply.solved_locally is not None]
        self.n_iter += len(solved_locally) > 0
        shrunk = sum(reply.n_shrunk for reply in replies) > 0
        stats, violations = self._check_convergence(replies, shrunk)
        objective, reported = self._objective, self._active
        unconverged = violations > self.setup.tolerance
        if not shrunk:
            for p in self._active[~unconverged]:
                self.statuses[p].stopped = self.statuses[p].stopped or "converged"
        self.violation = float(violations.max(initial=0.0))
        going = np.array([not self.statuses[p].stopped for p in self._active], dtype=bool) & unconverged
        extra = HARD_ITERATION_COST * len(self._hard_violations) if self.options.max_iter is None else 0
        if self.n_iter + extra >= self.setup.max_iter:
            for p in self._active[going & (not shrunk)]:
                self.statuses[p].stopped = "max_iter"
            going[:] = False
        solution = self._solve(np.flatnonzero(going), replies, shrunk)
        # A problem stops only after shrunk rows have been checked, too.
        unshrink = self._active_set or solution is None
        request = self._request(solution, np.concatenate([EMPTY, *solved_locally]), stats, unshrink)
        self._record(objective, stats, reported, replies, request)
        return (request,)

    def _check_convergence(self, replies: list[Reply], shrunk: bool) -> tuple[ProblemStats, NDArray[np.float64]]:
        """Statistics of the active problems, and how far each is from the optimum: violation, or relative gap."""
        stats, penalty = ProblemStats.of([reply.stats for reply in replies]), self.setup.penalty
        if not shrunk:  # exact sums over all rows replace those that were updated step by step
            objectives = stats.objectives(penalty)
            for at, p in enumerate(self._active):
                self.statuses[p].objective, self.statuses[p].total = objectives[at], stats.totals[at]
        self._intercepts = stats.midpoints if penalty < 0 else self._penalised_intercepts()
        violations = stats.violations(penalty, self._intercepts)
        self._violations = np.where(np.isfinite(violations), violations, 0.0)
        if self.options.stops_on_gap and not shrunk:
            # The intercepts are those of the previous iteration, which also give an upper bound of the gap.
            return stats, stats.relative_gaps(penalty, np.array([self.statuses[p].objective for p in self._active]))
        return stats, self._violations

    def _penalised_intercepts(self) -> NDArray[np.float64]:
        return self.setup.penalty * np.array([self.statuses[p].total for p in self._active])

    def _solve(self, going: NDArray[np.intp], replies: list[Reply], shrunk: bool) -> WorkingSets | None:
        """Solve the subproblems of the problems in ``going``; return None if it is empty or training has stalled."""
        if not len(going):
            return None
        self.n_iter += 1
        sets = self._working_sets(going, replies)
        subproblems = sets.subproblems
        alpha, v = subproblems.alpha.copy(), subproblems.v.copy()
        self._solve_subproblems(sets, going)
        self._hard[sets.problems[subproblems.hard]] = True
        if subproblems.hard.any():
            self._hard_violations.append(self.violation)
        sets.steps = subproblems.y * (subproblems.alpha - alpha)
        gains, moved = subproblems.sums((v + subproblems.v) * sets.steps) / 2, subproblems.sums(sets.steps)
        gains -= max(self.setup.penalty, 0.0) * (moved * subproblems.totals + moved**2 / 2)
        if self.options.active_set_limit is not None:
            self._stop_without_gain(sets, gains, moved, alpha)
        if self._has_stalled(going, float(gains.sum()), shrunk):
            return None
        if self.setup.penalty < 0:  # units select violators by the intercepts after these steps
            self._intercepts[going] = subproblems.intercepts(self._intercepts[going])
        for p, gain, step in zip(sets.problems, gains.tolist(), moved.tolist(), strict=True):
            self.statuses[p].objective += gain
            self.statuses[p].total += step
        return sets

    def _working_sets(self, going: NDArray[np.intp], replies: list[Reply]) -> WorkingSets:
        """Gather the rows that all units propose for some of the active problems."""
        from mergesvm.methods.kernel.jit.working_set import gather_proposals

        sizes = np.sum([reply.proposed.sizes[going] for reply in replies], axis=0)
        starts = np.append(0, np.cumsum(sizes))
        heads, indices = starts[:-1].copy(), np.empty(starts[-1], np.int64)
        v, alpha, bound, y = np.empty((4, starts[-1]))
        for proposed in (reply.proposed for reply in replies):
            lists = proposed.starts, proposed.keys, proposed.values
            gather_proposals(going, *lists, heads, indices, v, alpha, bound, y)
        totals = np.array([self.statuses[p].total for p in self._active[going]])
        subproblems = Subproblems(starts, self.registry.positions(indices), y, v, alpha, bound, totals)
        return WorkingSets(self._active[going], indices, subproblems, np.zeros(len(y)))

    def _solve_subproblems(self, sets: WorkingSets, going: NDArray[np.intp]) -> None:
        setup, by_gap = self.setup, self.options.stops_on_gap
        least = 0.0 if by_gap else setup.subproblem_tol  # the tolerance of a gap is not one of violations
        to_the_end = (setup.small[sets.problems] & (not by_gap)) | self._active_set
        tolerances = np.maximum(np.where(to_the_end, 0.0, RELATIVE_SUBPROBLEM_TOL) * self._violations[going], least)
        kernel, rows = setup.kernel, self.registry.lifted
        # Many problems of narrow rows are solved in one compiled call; for others matrix products are faster.
        many = len(going) > 1 and len(rows) > 0 and not self._active_set
        if many and not kernel.is_function and rows.all().narrow:
            sets.subproblems.solve(rows.all().matrix, kernel.jit_parameters, setup.penalty, tolerances, self.threads)
        else:
            self.threads.map(lambda k: self._solve_one(sets, k, float(tolerances[k])), range(len(going)))

    def _solve_one(self, sets: WorkingSets, k: int, tolerance: float) -> None:
        """Solve one subproblem from its full kernel matrix."""
        subproblems, span = sets.subproblems, sets.subproblems.span(k)
        if span.start == span.stop:
            return
        y, v, alpha, bound = (getattr(subproblems, name)[span] for name in ("y", "v", "alpha", "bound"))
        old_alpha, old_v, limit = alpha.copy(), v.copy(), self.options.active_set_limit
        rows = self.registry.lifted.take(subproblems.positions[span])
        K = self._matrices.get(int(sets.problems[k]), sets.indices[span], rows, len(self._active))
        subproblems.solve_one(k, K, self.setup.penalty, tolerance, bool(self._hard[sets.problems[k]]))
        if limit is not None and (alpha > 0).sum() > limit:
            alpha[:] = self._pruned(K, y, alpha, bound, limit)
            v[:] = old_v - K @ (y * (alpha - old_alpha))

    def _pruned(self, K: Any, y: Any, alpha: Any, bound: Any, limit: int) -> NDArray[np.float64]:
        """Solve for the allowed number of support vectors, those with the largest alpha relative to its bound."""
        kept = np.sort(np.argsort(-alpha / np.maximum(bound, TINY), kind="stable")[:limit])
        signs, zeros = y[kept], np.zeros(len(kept))
        alone = Subproblems(np.array([0, len(kept)]), kept, signs, signs.copy(), zeros, bound[kept], np.zeros(1))
        alone.solve_one(0, K[np.ix_(kept, kept)], self.setup.penalty, self.setup.subproblem_tol)
        pruned = np.zeros(len(alpha))
        pruned[kept] = alone.alpha
        return pruned

    def _stop_without_gain(self, sets: WorkingSets, gains: Any, moved: Any, alpha: NDArray[np.float64]) -> None:
        """Stop, and undo, problems that no longer gain with the allowed number of support vectors."""
        for k, p in enumerate(sets.problems):
            if gains[k] <= MIN_RELATIVE_GAIN * abs(self.statuses[p].objective):
                self.statuses[p].stopped = "max_support_vectors"
                span = sets.subproblems.span(k)
                sets.steps[span], sets.subproblems.alpha[span] = 0.0, alpha[span]
                gains[k] = moved[k] = 0.0

    def _has_stalled(self, going: NDArray[np.intp], gain: float, shrunk: bool) -> bool:
        """Whether the last iterations together gained next to nothing."""
        objective = sum(abs(status.objective) for status in self.statuses)
        self._gains = [*self._gains[-STALLED_ITERATIONS + 1 :], gain]
        within_tol = not self.options.stops_on_gap and self.violation <= self.options.tol
        count = STALLED_WITHIN_TOL if within_tol else STALLED_ITERATIONS
        before, last = self._hard_violations[:-STALLED_IF_HARD], self._hard_violations[-STALLED_IF_HARD:]
        small = bool(self.setup.small[self._active[going]].all())
        limited_by_rounding = small and len(before) > 0 and min(last) > min(before) / 2
        gaining = len(self._gains) < count or sum(self._gains[-count:]) > MIN_RELATIVE_GAIN * objective
        if gaining and not limited_by_rounding:
            return False
        for at in going if not shrunk else EMPTY:
            self.statuses[self._active[at]].stopped = "stalled"
        return True

    def _request(
        self, sets: WorkingSets | None, solved_locally: NDArray[np.int64], stats: ProblemStats, unshrink: bool
    ) -> Request:
        """The steps of the working sets, and what units need for the next iteration."""
        moved, steps, changed = EMPTY, RaggedArray.empty(0), solved_locally
        if sets is not None:
            if not self._active_set:
                self._kept.update(sets.problems, sets.indices, sets.subproblems)
            rows = np.flatnonzero(sets.steps)
            counts = np.bincount(sets.subproblems.problems[rows], minlength=len(sets.problems))
            moved, indices = sets.problems[counts > 0], sets.indices[rows]
            changed = np.append(changed, indices)
        new_rows = self.registry.share(changed)
        if sets is not None:
            starts = np.append(0, np.cumsum(counts[counts > 0]))
            steps = RaggedArray(starts, self.registry.ids(indices), sets.steps[rows])
        stay = np.array([not self.statuses[p].stopped for p in self._active], dtype=bool)
        self._active, self._intercepts = self._active[stay], self._intercepts[stay]
        if self.setup.penalty > 0:
            self._intercepts = self._penalised_intercepts()
        limits = np.column_stack([stats.high[stay], stats.low[stay]])
        kept = None if self._active_set else self._kept.of(self._active, self.registry)
        hard = self._active[self._hard[self._active]]
        return Request(new_rows, moved, steps, self._active, kept, self._intercepts, limits, hard, unshrink)
