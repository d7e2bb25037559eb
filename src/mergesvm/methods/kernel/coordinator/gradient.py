"""GradientCoordinator: the projected gradient ascent of Alpcan and Bauckhage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.coordinator.base import Coordinator
from mergesvm.methods.kernel.messages import Reply, Request, no_limits
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.stats import TINY, ProblemStats

STEP_FACTOR = 1.8
"""The step size is this factor over an upper bound of the largest eigenvalue; theorem 1 of the paper allows up to 2."""


@dataclass(eq=False)
class GradientCoordinator(Coordinator):
    """Projected gradient ascent: all dual variables of all units are updated in parallel.

    If accelerated, it uses Nesterov momentum, which restarts when the objective decreases.
    """

    unit_method = "gradient_step"
    eigenvalues: NDArray[np.float64]  # upper bounds of the largest eigenvalue of the Hessian of each problem

    def __post_init__(self) -> None:
        super().__post_init__()
        kappa, factor = self.options.kappa, 1.0 if self.options.accelerated else STEP_FACTOR
        chosen = factor / np.maximum(self.eigenvalues, TINY)
        self._step_sizes = chosen if kappa is None else np.full(len(self.statuses), float(kappa))
        self.history.kappa = self._step_sizes
        self._momentum_terms = np.ones(len(self.statuses))  # t_k of Nesterov's method

    def first(self) -> tuple[Any, ...]:
        """The first request, step sizes, momenta and intercepts: no dual variable changes yet."""
        count = len(self.statuses)
        intercepts = self.setup.penalty * np.array([status.total for status in self.statuses])
        request = Request.start(self._active, intercepts, RaggedArray.empty(count), solve_locally=False)
        return request, self._step_sizes, np.zeros(count), intercepts

    def next(self, replies: list[Reply]) -> tuple[Any, ...]:
        """The request that follows on the replies of the units, with step sizes, momenta and intercepts."""
        self.registry.add_all(replies, self.setup)
        options, penalty = self.options, self.setup.penalty
        stats = ProblemStats.of([reply.stats for reply in replies])
        objectives = stats.objectives(penalty)
        if options.stops_on_gap:
            violations = stats.relative_gaps(penalty, objectives)
        else:
            violations = stats.violations(penalty, penalty * stats.totals)
        self.violation = float(violations.max(initial=0.0))
        for at, p in enumerate(self._active):
            status = self.statuses[p]
            if objectives[at] < status.objective:
                self._momentum_terms[p] = 1.0
            status.objective, status.total = float(objectives[at]), float(stats.totals[at])
            if violations[at] <= self.setup.tolerance:
                status.stopped = "converged"
            elif self.n_iter >= self.setup.max_iter:
                status.stopped = "max_iter"
            elif all(reply.proposed.sizes[at] == 0 for reply in replies):
                status.stopped = "stalled"  # the steps are below the resolution of alpha
        self.n_iter += any(not status.stopped for status in self.statuses)
        return self._forward(replies, stats)

    def _forward(self, replies: list[Reply], stats: ProblemStats) -> tuple[Any, ...]:
        """Send the steps that units propose to all units."""
        proposed = RaggedArray.merged([reply.proposed for reply in replies])
        assert proposed.values is not None
        active, keys, steps, intercepts, extrapolated, momenta = [], [], [], [], [], []
        for at, p in enumerate(self._active):
            status, span = self.statuses[p], proposed.span(at)
            if status.stopped:
                continue
            active.append(p)
            keys.append(proposed.keys[span])
            steps.append(proposed.values[span])
            total, momentum = status.total + float(steps[-1].sum()), self._momentum(int(p))
            momenta.append(momentum)
            intercepts.append(self.setup.penalty * total)
            extrapolated.append(self.setup.penalty * (total + momentum * (total - status.total)))
        new_rows = self.registry.share(np.concatenate(keys)) if keys else None
        reported, self._active, limits = self._active, np.array(active, np.int64), no_limits(len(active))
        moves = RaggedArray.of([self.registry.ids(indices) for indices in keys], steps)
        kept = RaggedArray.empty(len(active))
        request = Request(new_rows, self._active, moves, self._active, kept, np.array(intercepts), limits)
        self._record(self._objective, stats, reported, replies, request)
        return request, self._step_sizes, np.array(momenta), np.array(extrapolated)

    def _momentum(self, p: int) -> float:
        """The next momentum of a problem, (t_k - 1) / t_{k+1}; 0 without acceleration."""
        before = self._momentum_terms[p]
        self._momentum_terms[p] = (1 + np.sqrt(1 + 4 * before**2)) / 2
        return float((before - 1) / self._momentum_terms[p]) if self.options.accelerated else 0.0
