"""The one that leads the units: it solves the problems of the rows they propose, and tells them what moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines import Threads
from mergesvm.features.scratch import Scratch
from mergesvm.solvers.exchange import Exchange
from mergesvm.solvers.kernel import Lifted
from mergesvm.solvers.orders import Answer, Lists, Order, Packet, Setting
from mergesvm.solvers.stack import Known, Stack

NONE = np.zeros(0, np.int64)

STALLED = 50
"""After so many rounds that gained next to nothing, no more is to be gained."""

NOTHING = 1e-11
"""What counts as next to nothing, as a share of the objective."""


REMEMBERED = 64 * 2**20
"""Bytes for the kernel matrices of small problems, which have most of their rows in common with those of last round."""


@dataclass(frozen=True)
class Policy:
    """How the leader goes about it.

    Attributes
    ----------
    penalty : float
        Of (y'alpha)^2 / 2; negative where y'alpha = 0 is demanded.
    tolerance : float
        Of the largest violation, or, by ``gap``, of the duality gap as a share of the objective.
    gap : bool
    share : float
        Small problems are solved to this share of the largest violation there is.
    kept : int
        How many rows stay in the working set at most; those in between the bounds, the newest first.
    support : bool
        Whether instead all rows in use stay, as in the active-set method.
    most_support : int or None
        How many rows may be in use, in each problem; only with ``support``.
    rounds : int or None
        After how many it is broken off.
    sleeps : bool
        Whether rows that rest at a bound may be left alone for a while.
    """

    penalty: float
    tolerance: float
    gap: bool = False
    share: float = 0.05
    kept: int = 512
    support: bool = False
    most_support: int | None = None
    rounds: int | None = None
    sleeps: bool = True


@dataclass
class Standing:
    """How one problem stands: the objective, y'alpha, and why it is at its end, if it is."""

    objective: float = 0.0
    total: float = 0.0
    ended: str = ""


@dataclass(frozen=True)
class Small:
    """The problem of some rows, and what has become of it."""

    numbers: NDArray[np.int64]
    y: NDArray[np.float64]
    alpha: NDArray[np.float64]
    bound: NDArray[np.float64]
    steps: NDArray[np.float64]
    gain: float


class Book:
    """The rows that units have sent, by their numbers, and in what order they came into use.

    It outlives a training, so that the next goes on where it stopped.
    """

    def __init__(self) -> None:
        self.lifted, self.raw = Known(), Stack()
        self.labels: list[Label] = []
        self._places, self._ids = NONE, NONE
        self.used = 0

    def enter(self, packet: Packet, lifted: Lifted) -> None:
        """Enter rows that came from a unit."""
        missing = int(packet.numbers.max()) + 1 - len(self._places)
        if missing > 0:
            more = np.full(missing + len(self._places), -1, np.int64)
            self._places, self._ids = np.append(self._places, more), np.append(self._ids, more)
        self._places[packet.numbers] = len(self.labels) + np.arange(len(packet))
        self.lifted.append(lifted)
        self.raw.append(packet.rows)
        self.labels += packet.labels

    def places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where rows are entered."""
        places: NDArray[np.int64] = self._places[numbers]
        return places

    def ids(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """By what ids units know rows that have come into use."""
        ids: NDArray[np.int64] = self._ids[numbers]
        return ids

    def announce(self, numbers: NDArray[np.int64]) -> Packet | None:
        """Those of some rows that units have not been told of; from now on they have ids."""
        fresh = np.unique(numbers[self._ids[numbers] < 0])
        if not len(fresh):
            return None
        self._ids[fresh] = self.used + np.arange(len(fresh))
        self.used += len(fresh)
        return self.packet(fresh)

    def blank(self, numbers: NDArray[np.int64]) -> None:
        """Blot out rows that are gone."""
        known = numbers[numbers < len(self._places)]
        places = self._places[known]
        places = places[places >= 0]
        self.raw.blank(places)
        self.lifted.blank(places)

    def packet(self, numbers: NDArray[np.int64]) -> Packet:
        """Rows as they were given."""
        places = self.places(numbers)
        return Packet(numbers, [self.labels[place] for place in places.tolist()], self.raw.take(places))


class Leader:
    """Leads the units through one training, by the working set or the active set.

    In each round units propose rows, the worst violators of theirs. The leader solves the problem of these rows, and
    of some that it keeps from before, to the end, with all others as they are. That is at least as good as any way of
    joining steps of the units, so that the objective never falls.

    Parameters
    ----------
    setting : Setting
    policy : Policy
    book : Book
    standings : list of Standing, one a problem
    threads : Threads
        By which small problems are solved, where there are many.
    """

    def __init__(
        self,
        setting: Setting,
        policy: Policy,
        book: Book,
        standings: list[Standing],
        threads: Threads,
    ) -> None:
        from mergesvm.solvers import dual_kernels, unit_kernels

        self._kernels, self._told = dual_kernels, unit_kernels
        self._setting, self._policy, self._threads = setting, policy, threads
        self.book, self.standings = book, standings
        self.exchange = Exchange()
        self.rounds = 0
        self.violation = np.inf
        self._kept: list[NDArray[np.int64]] = [NONE] * len(standings)
        self._gains: list[float] = []
        self._live = np.arange(len(standings))
        self._matrices: dict[int, tuple[NDArray[np.int64], NDArray[Any]]] = {}
        self._intercepts = np.array([standing.total * max(policy.penalty, 0.0) for standing in standings])

    def first(self) -> Order:
        """What units are told to begin with: nothing moves."""
        count = len(self.standings)
        limits = np.tile([np.inf, -np.inf], (count, 1))
        kept = None if self._policy.support else Lists.empty(count)
        return Order(None, NONE, Lists.empty(0), self._live, kept, self._intercepts, limits)

    def next(self, answers: list[Answer]) -> Order:
        """What units are told after what they have answered; no problem is live any more when all are at their end."""
        self._enter(answers)
        asleep = sum(answer.asleep for answer in answers) > 0
        high, low, violations = self._judge(answers, asleep)
        unfinished = violations > self._policy.tolerance
        if not asleep:
            for p in self._live[~unfinished]:
                self.standings[p].ended = self.standings[p].ended or "tolerance"
        self.violation = float(violations.max(initial=0.0))
        going = np.array([not self.standings[p].ended for p in self._live], dtype=bool) & unfinished
        if self._policy.rounds is not None and self.rounds >= self._policy.rounds:
            for p in self._live[going & (not asleep)]:
                self.standings[p].ended = "rounds"
            going[:] = False
        solved = self._solve(np.flatnonzero(going), answers, asleep)
        # Nothing is at its end before rows that sleep were looked at, too.
        order = self._order(solved, high, low, awake=not self._policy.sleeps or not solved)
        self.exchange.note(answers, order)
        return order

    def _enter(self, answers: list[Answer]) -> None:
        for answer in answers:
            if answer.news is not None:
                self.book.enter(answer.news, self._setting.lifted(answer.news.rows))

    def _judge(
        self, answers: list[Answer], asleep: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The highest v that may rise, the lowest that may fall, and how far each problem is from its end."""
        told, kernels = np.array([answer.told for answer in answers]), self._told
        high, low = told[:, :, kernels.UP].max(axis=0), told[:, :, kernels.LOW].min(axis=0)
        sums = told.sum(axis=0)
        penalty, live = self._policy.penalty, self._live
        if not asleep:  # sums over all rows are exact, and take the place of those that were kept up step by step
            for at, p in enumerate(live):
                total = sums[at, kernels.TOTAL]
                self.standings[p].total = total
                self.standings[p].objective = (
                    sums[at, kernels.ALPHAS] - sums[at, kernels.SQUARE] / 2 - max(penalty, 0.0) * total**2 / 2
                )
        if penalty < 0:
            middle = (high + low) / 2
            self._intercepts = np.where(np.isfinite(middle), middle, 0.0)
            violations = high - low
        else:
            self._intercepts = penalty * np.array([self.standings[p].total for p in live])
            violations = np.maximum(high - self._intercepts, self._intercepts - low)
        violations = self._off = np.where(np.isfinite(violations), violations, 0.0)
        if self._policy.gap and not asleep:
            objective = np.array([self.standings[p].objective for p in live])
            square = sums[:, kernels.SQUARE] + max(penalty, 0.0) * sums[:, kernels.TOTAL] ** 2
            primal = square / 2 + sums[:, kernels.LOSS]
            with np.errstate(over="ignore"):
                gaps = (primal - objective) / np.maximum(np.abs(objective), np.finfo(np.float64).tiny)
            violations = gaps  # with the intercept of the round before, which gives a bound, too
        return high, low, violations

    def _solve(self, going: NDArray[np.intp], answers: list[Answer], asleep: bool) -> dict[int, Small]:
        """Solve the small problems of those that are live."""
        if not len(going):
            return {}
        self.rounds += 1

        def solve(at: int) -> Small:
            return self._small(at, answers, float(self._off[at]))

        one = len(going) == 1
        found = [solve(going[0])] if one else self._threads.map(solve, going.tolist())
        gain = sum(small.gain for small in found)
        total = sum(abs(standing.objective) for standing in self.standings)
        self._gains = [*self._gains[-STALLED + 1 :], gain]
        if len(self._gains) == STALLED and not sum(self._gains) > NOTHING * total:
            for at in going if not asleep else NONE:
                self.standings[self._live[at]].ended = "stalled"
            return {}
        return dict(zip(going.tolist(), found, strict=True))

    def _small(self, at: int, answers: list[Answer], violation: float) -> Small:
        policy, standing = self._policy, self.standings[self._live[at]]
        spans = [answer.proposed.span(at) for answer in answers]
        numbers = np.concatenate([a.proposed.keys[span] for a, span in zip(answers, spans, strict=True)])
        values = np.concatenate([_values(a)[span] for a, span in zip(answers, spans, strict=True)])
        v, alpha, bound, y = (np.ascontiguousarray(column) for column in values.T)
        K = self._matrix(self._live[at], numbers)
        before, wants = alpha.copy(), v.copy()
        # A tolerance of the gap says nothing about violations.
        least = 0.0 if policy.gap else policy.tolerance / 2
        share = 0.0 if self._setting.whole[self._live[at]] and not policy.gap else policy.share
        tolerance = max(share * violation, least)
        self._ascend(K, y, v, alpha, bound, standing.total, tolerance)
        if policy.most_support is not None and (alpha > 0).sum() > policy.most_support:
            alpha = self._pruned(K, y, alpha, bound)
            v = wants - K @ (y * (alpha - before))
        steps = y * (alpha - before)
        gain = float((wants + v) @ steps) / 2
        if policy.penalty > 0:
            moved = steps.sum()
            gain -= policy.penalty * float(moved * standing.total + moved**2 / 2)
        if policy.most_support is not None and gain <= NOTHING * abs(standing.objective):
            standing.ended = "support"  # nothing more to be gained with so few rows
            steps, alpha, gain = np.zeros_like(steps), before, 0.0
        return Small(numbers, y, alpha, bound, steps, gain)

    def _ascend(self, K: Any, y: Any, v: Any, alpha: Any, bound: Any, total: float, tolerance: float) -> None:
        # In the plane of two rows a small problem is solved in a few steps a row; the limit is for those that are not.
        self._kernels.ascend(K, y, v, alpha, bound, total, self._policy.penalty, tolerance, 1000 * max(len(y), 100))

    def _pruned(self, K: Any, y: Any, alpha: Any, bound: Any) -> NDArray[np.float64]:
        """Multipliers of as many rows as may be in use, those that have most of their bound; all others have none."""
        most = self._policy.most_support
        stay = np.sort(np.argsort(-alpha / np.maximum(bound, np.finfo(np.float64).tiny), kind="stable")[:most])
        small, v = np.zeros(len(stay)), y[stay].copy()
        self._ascend(K[np.ix_(stay, stay)], y[stay], v, small, bound[stay], 0.0, self._policy.tolerance / 2)
        pruned = np.zeros(len(alpha))
        pruned[stay] = small
        return pruned

    def _matrix(self, p: int, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """Kernel values of rows with one another; those of rows that were here in the last round are known."""
        kernel, rows = self._setting.kernel, self.book.lifted.take(self.book.places(numbers))
        count, real = len(numbers), self._setting.real
        if len(self._live) * count**2 * real.itemsize > REMEMBERED:
            K = SCRATCH.take("matrix", (count, count), real)
            kernel.fill(kernel.turn(rows), rows, K)
            return K
        K = np.empty((count, count), dtype=real)
        before, old = self._matrices.pop(p, (NONE, K[:0]))
        sorter = np.argsort(numbers)
        here = sorter[np.minimum(np.searchsorted(numbers, before, sorter=sorter), count - 1)]
        stayed = np.flatnonzero(numbers[here] == before)
        if len(stayed) < count // 4:
            kernel.fill(kernel.turn(rows), rows, K)
        else:
            fresh = np.setdiff1d(np.arange(count), here[stayed], assume_unique=True)
            part = SCRATCH.take("part", (len(fresh), count), real)
            kernel.fill(kernel.turn(rows.take(fresh)), rows, part)
            self._kernels.patch(K, old, stayed, here[stayed], part, fresh)
        self._matrices[p] = numbers, K
        return K

    def _order(
        self, solved: dict[int, Small], high: NDArray[np.float64], low: NDArray[np.float64], awake: bool
    ) -> Order:
        moved, keys, values, changed = [], [], [], []
        for at, small in solved.items():
            p, rows = self._live[at], np.flatnonzero(small.steps)
            self._note(p, small)
            if len(rows):
                moved.append(p)
                keys.append(small.numbers[rows])
                values.append(small.steps[rows])
                changed.append(small.numbers[rows])
        arrivals = self.book.announce(np.concatenate(changed)) if changed else None
        steps = Lists.of([self.book.ids(part) for part in keys], values)
        stay = np.array([not self.standings[p].ended for p in self._live], dtype=bool)
        self._live, self._intercepts = self._live[stay], self._intercepts[stay]
        if self._policy.penalty > 0:
            self._intercepts = self._policy.penalty * np.array([self.standings[p].total for p in self._live])
        kept = None if self._policy.support else Lists.of([self.book.ids(self._kept[p]) for p in self._live])
        limits = np.column_stack([high[stay], low[stay]])
        return Order(arrivals, np.array(moved, np.int64), steps, self._live, kept, self._intercepts, limits, awake)

    def _note(self, p: int, small: Small) -> None:
        """Note what has moved in a problem, and which rows stay in its working set."""
        standing = self.standings[p]
        standing.objective += small.gain
        standing.total += float(small.steps.sum())
        if not self._policy.support:
            free = small.numbers[(small.alpha > 0) & (small.alpha < small.bound)]
            old = np.isin(free, self._kept[p], assume_unique=True, kind="sort")
            self._kept[p] = np.concatenate([free[~old], free[old]])[: self._policy.kept]


def _values(answer: Answer) -> NDArray[np.float64]:
    assert answer.proposed.values is not None
    return answer.proposed.values


SCRATCH = Scratch()
