"""The projected gradient of the paper: all multipliers of all units move at once, by steps short enough to converge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.coordinator import NONE, Policy, ProblemStatus, RowRegistry
from mergesvm.methods.kernel.exchange import Exchange
from mergesvm.methods.kernel.messages import RaggedArray, Reply, Request, Setting
from mergesvm.methods.kernel.worker.unit import Unit

POWERS = 50
"""So many steps find the largest eigenvalue of a unit's own part."""

MARGIN = 1.1
"""They find it from below, by at most this factor."""

STRIDE = 1.8
"""Steps are this many times the inverse of the bound on the largest eigenvalue, of the 2 that theorem 1 allows."""


class GradientUnit(Unit):
    """A unit all of whose rows move along the gradient, alpha <- [alpha + kappa G]+, with that of problem (2).

    With momentum the gradient is taken beyond where alpha is, along the way that it came; scores being linear in
    alpha, that needs no other rows.
    """

    def largest(self, penalty: float) -> NDArray[np.float64]:
        """The largest eigenvalue of Q + penalty y y' among the rows of this unit, for each problem.

        The sum over all units is no less than that of all rows, because the whole matrix has no negative eigenvalue:
        so no unit needs to see rows of another.
        """
        work = self._at_work
        found = np.zeros(len(work.pairs))
        for p in range(len(work.pairs)):
            rows = self._lift(self._held.matrix[np.append(work.rows[work.span(p, 0)], work.rows[work.span(p, 1)])])
            if not len(rows):
                continue
            kernel = self._setting.kernel
            x = np.random.default_rng(0).uniform(0.5, 1.0, len(rows))
            turned, value = kernel.turn(rows), 0.0
            for _ in range(POWERS):
                x /= np.linalg.norm(x)
                # Signs y do not change eigenvalues: y y' . K and K have the same.
                product = np.full(len(rows), penalty * x.sum())
                for start in range(0, len(rows), 256):
                    part = slice(start, min(start + 256, len(rows)))
                    block = np.empty((part.stop - start, len(rows)), dtype=self._setting.real)
                    kernel.fill(turned.take(part), rows, block)
                    product[part] += block @ x
                before, value, x = value, float(x @ product), product
                if abs(value - before) <= 1e-3 * value:
                    break
            found[p] = MARGIN * value
        return found

    def climb(
        self,
        order: Request,
        strides: NDArray[np.float64],
        momenta: NDArray[np.float64],
        beyond: NDArray[np.float64],
    ) -> Reply:
        """Do as told, and say by how much y alpha of each row should move next.

        ``beyond`` are the intercepts where the gradient is taken.
        """
        work = self._at_work
        before, score = work.alpha.copy(), work.score.copy()
        self.follow(order)
        told = work.look(order.live, order.intercepts)
        rows, values = [], []
        for at, p in enumerate(order.live):
            for side in range(2):
                span, y = work.span(p, side), 2.0 * side - 1.0
                alpha, ahead = work.alpha[span], momenta[at]
                start = alpha + ahead * (alpha - before[span])
                reached = work.score[span] + ahead * (work.score[span] - score[span])
                gradient = 1 - y * (reached + beyond[at])
                new = np.clip(start + strides[p] * gradient, 0, work.bound[span])
                moved = np.flatnonzero(new != alpha)
                rows.append(work.rows[span][moved])
                values.append(y * (new - alpha)[moved])
        keys = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        lengths = [len(one) + len(other) for one, other in zip(rows[::2], rows[1::2], strict=True)]
        firsts = np.cumsum([0, *lengths], dtype=np.int64)
        moves = np.concatenate(values) if values else np.zeros(0)
        return Reply(told, RaggedArray(firsts, self._held.numbers[keys], moves), self._news(keys))


class GradientCoordinator:
    """Passes on what units move, and takes care of momentum and of the end.

    Parameters are those of :class:`~mergesvm.methods.kernel.coordinator.Coordinator`, and

    strides : array of shape (problems,)
        The lengths of steps, kappa.
    accelerated : bool
        Whether steps have momentum; it begins anew where the objective falls.
    """

    def __init__(
        self,
        setting: Setting,
        policy: Policy,
        book: RowRegistry,
        standings: list[ProblemStatus],
        strides: NDArray[np.float64],
        accelerated: bool,
    ) -> None:
        from mergesvm.methods.kernel.jit import unit as unit_kernels

        self._kernels, self._setting, self._policy = unit_kernels, setting, policy
        self.book, self.standings = book, standings
        self.exchange, self.rounds, self.violation = Exchange(), 0, np.inf
        self.objectives: list[float] = []
        self._strides, self._accelerated = strides, accelerated
        self._ages = np.ones(len(standings))
        self._live = np.arange(len(standings))

    def first(self) -> tuple[Any, ...]:
        """What units are told to begin with: nothing has moved."""
        count = len(self.standings)
        b = self._policy.penalty * np.array([standing.total for standing in self.standings])
        limits = np.tile([np.inf, -np.inf], (count, 1))
        order = Request(None, NONE, RaggedArray.empty(0), self._live, RaggedArray.empty(count), b, limits)
        return order, self._strides, np.zeros(count), b

    def next(self, answers: list[Reply]) -> tuple[Any, ...]:
        """What units are told after what they have answered."""
        kernels, policy = self._kernels, self._policy
        for answer in answers:
            if answer.news is not None:
                self.book.enter(answer.news, self._setting.lifted(answer.news.rows))
        told = np.array([answer.told for answer in answers])
        high, low = told[:, :, kernels.UP].max(axis=0), told[:, :, kernels.LOW].min(axis=0)
        sums = told.sum(axis=0)
        totals = sums[:, kernels.TOTAL]
        b = policy.penalty * totals
        objective = sums[:, kernels.ALPHAS] - sums[:, kernels.SQUARE] / 2 - policy.penalty * totals**2 / 2
        violations = np.maximum(high - b, b - low)
        if policy.gap:
            primal = (sums[:, kernels.SQUARE] + policy.penalty * totals**2) / 2 + sums[:, kernels.LOSS]
            with np.errstate(over="ignore"):
                violations = (primal - objective) / np.maximum(np.abs(objective), np.finfo(np.float64).tiny)
        self.violation = float(violations.max(initial=0.0))
        for at, p in enumerate(self._live):
            standing = self.standings[p]
            if objective[at] < standing.objective:
                self._ages[p] = 1.0
            standing.objective, standing.total = float(objective[at]), float(totals[at])
            if violations[at] <= policy.tolerance:
                standing.ended = "tolerance"
            elif policy.rounds is not None and self.rounds >= policy.rounds:
                standing.ended = "rounds"
            elif all(answer.proposed.firsts[at] == answer.proposed.firsts[at + 1] for answer in answers):
                standing.ended = "stalled"  # steps are below what numbers can tell apart
        self.objectives.append(float(sum(standing.objective for standing in self.standings)))
        self.rounds += any(not standing.ended for standing in self.standings)
        return self._pass_on(answers)

    def _pass_on(self, answers: list[Reply]) -> tuple[Any, ...]:
        keys, values, moved, live = [], [], [], []
        intercepts, beyond, momenta = [], [], []
        for at, p in enumerate(self._live):
            standing = self.standings[p]
            if standing.ended:
                continue
            numbers = np.concatenate([a.proposed.keys[a.proposed.span(at)] for a in answers])
            steps = np.concatenate([_steps(a)[a.proposed.span(at)] for a in answers])
            keys.append(numbers)
            values.append(steps)
            moved.append(p)
            live.append(p)
            total = standing.total + float(steps.sum())
            age = (1 + np.sqrt(1 + 4 * self._ages[p] ** 2)) / 2
            momentum = (self._ages[p] - 1) / age if self._accelerated else 0.0
            self._ages[p] = age
            momenta.append(momentum)
            intercepts.append(self._policy.penalty * total)
            beyond.append(self._policy.penalty * (total + momentum * (total - standing.total)))
        arrivals = self.book.announce(np.concatenate(keys)) if keys else None
        steps_by_id = RaggedArray.of([self.book.ids(part) for part in keys], values)
        self._live = np.array(live, np.int64)
        limits = np.tile([np.inf, -np.inf], (len(live), 1))
        order = Request(
            arrivals,
            np.array(moved, np.int64),
            steps_by_id,
            self._live,
            RaggedArray.empty(len(live)),
            np.array(intercepts),
            limits,
        )
        self.exchange.note(answers, order)
        return order, self._strides, np.array(momenta), np.array(beyond)


def _steps(answer: Reply) -> NDArray[np.float64]:
    assert answer.proposed.values is not None
    return answer.proposed.values
