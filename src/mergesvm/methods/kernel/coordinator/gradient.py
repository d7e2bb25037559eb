"""GradientCoordinator: the projected gradient ascent of Alpcan and Bauckhage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.coordinator.base import Coordinator
from mergesvm.methods.kernel.coordinator.policy import Policy, ProblemStatus
from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.messages import Reply, Request, no_limits
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.setup import TrainingSetup
from mergesvm.methods.kernel.stats import TINY, ProblemStats

STEP_FACTOR = 1.8
"""The step size is this factor over an upper bound of the largest eigenvalue; theorem 1 of the paper allows up to 2."""


class GradientCoordinator(Coordinator):
    """Projected gradient ascent: all dual variables of all units are updated in parallel.

    Parameters are those of :class:`~mergesvm.methods.kernel.coordinator.base.Coordinator`, and

    eigenvalues : array of shape (problems,)
        Upper bounds of the largest eigenvalue of the Hessian of each problem.
    accelerated : bool
        Whether to use Nesterov momentum, which restarts when the objective decreases.
    """

    unit_method = "gradient_step"

    def __init__(
        self,
        setup: TrainingSetup,
        policy: Policy,
        registry: RowRegistry,
        statuses: list[ProblemStatus],
        eigenvalues: NDArray[np.float64],
        accelerated: bool,
    ) -> None:
        super().__init__(setup, policy, registry, statuses)
        self._step_sizes = (1.0 if accelerated else STEP_FACTOR) / np.maximum(eigenvalues, TINY)
        self._accelerated = accelerated
        self._momentum_terms = np.ones(len(statuses))  # t_k of Nesterov's method

    def first(self) -> tuple[Any, ...]:
        """The first request, step sizes, momenta and intercepts: no dual variable changes yet."""
        count = len(self.statuses)
        intercepts = self._policy.penalty * np.array([status.total for status in self.statuses])
        request = Request.start(self._active, intercepts, RaggedArray.empty(count))
        return request, self._step_sizes, np.zeros(count), intercepts

    def next(self, replies: list[Reply]) -> tuple[Any, ...]:
        """The request that follows on the replies of the units, with step sizes, momenta and intercepts."""
        self._register(replies)
        policy, stats = self._policy, ProblemStats.of([reply.stats for reply in replies])
        objectives = stats.objectives(policy.penalty)
        if policy.stops_on_gap:
            violations = stats.relative_gaps(policy.penalty, objectives)
        else:
            violations = stats.violations(policy.penalty, policy.penalty * stats.totals)
        self.violation = float(violations.max(initial=0.0))
        for at, p in enumerate(self._active):
            status = self.statuses[p]
            if objectives[at] < status.objective:
                self._momentum_terms[p] = 1.0
            status.objective, status.total = float(objectives[at]), float(stats.totals[at])
            if violations[at] <= policy.tolerance:
                status.stopped = "converged"
            elif policy.max_iter is not None and self.n_iter >= policy.max_iter:
                status.stopped = "max_iter"
            elif all(reply.proposed.sizes[at] == 0 for reply in replies):
                status.stopped = "stalled"  # the steps are below the resolution of alpha
        self.history.append(float(sum(status.objective for status in self.statuses)))
        self.n_iter += any(not status.stopped for status in self.statuses)
        return self._forward(replies)

    def _forward(self, replies: list[Reply]) -> tuple[Any, ...]:
        """Send the steps that units propose to all units."""
        steps, intercepts, extrapolated, momenta = [], [], [], []
        for at, p in enumerate(self._active):
            status = self.statuses[p]
            if status.stopped:
                continue
            indices = np.concatenate([reply.proposed.keys[reply.proposed.span(at)] for reply in replies])
            values = np.concatenate([_steps(reply)[reply.proposed.span(at)] for reply in replies])
            steps.append((p, indices, values))
            total, momentum = status.total + float(values.sum()), self._momentum(int(p))
            momenta.append(momentum)
            intercepts.append(self._policy.penalty * total)
            extrapolated.append(self._policy.penalty * (total + momentum * (total - status.total)))
        new_rows = self.registry.share(np.concatenate([indices for _, indices, _ in steps])) if steps else None
        self._active = np.array([p for p, _, _ in steps], np.int64)
        request = Request(
            new_rows,
            self._active,
            RaggedArray.of([self.registry.ids(indices) for _, indices, _ in steps], [values for *_, values in steps]),
            self._active,
            RaggedArray.empty(len(steps)),
            np.array(intercepts),
            no_limits(len(steps)),
        )
        self.exchange.record(replies, request)
        return request, self._step_sizes, np.array(momenta), np.array(extrapolated)

    def _momentum(self, p: int) -> float:
        """The next momentum of a problem, (t_k - 1) / t_{k+1}; 0 without acceleration."""
        before = self._momentum_terms[p]
        self._momentum_terms[p] = (1 + np.sqrt(1 + 4 * before**2)) / 2
        return float((before - 1) / self._momentum_terms[p]) if self._accelerated else 0.0


def _steps(reply: Reply) -> NDArray[np.float64]:
    assert reply.proposed.values is not None
    return reply.proposed.values
