"""The one that leads the units: it solves the problems of the rows they propose, and tells them what moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.features.scratch import Scratch
from mergesvm.methods.kernel.exchange import Exchange
from mergesvm.methods.kernel.messages import Packet, RaggedArray, Reply, Request, Setting
from mergesvm.methods.kernel.row_store import Known, RowStore
from mergesvm.methods.kernel.subproblems import STEPS, Subproblems
from mergesvm.models.kernel_function import Lifted

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
class ProblemStatus:
    """How one problem stands: the objective, y'alpha, and why it is at its end, if it is."""

    objective: float = 0.0
    total: float = 0.0
    ended: str = ""


@dataclass
class Solved:
    """The small problems of a round, and what has become of them.

    Attributes
    ----------
    problems : array of int
        Which problems they are of.
    numbers : array of int
        Of their rows.
    smalls : Subproblems
    steps : array
        By how much y alpha of each row moves.
    """

    problems: NDArray[np.int64]
    numbers: NDArray[np.int64]
    smalls: Subproblems
    steps: NDArray[np.float64]


class RowRegistry:
    """The rows that units have sent, by their numbers, and in what order they came into use.

    It outlives a training, so that the next goes on where it stopped.
    """

    def __init__(self) -> None:
        self.lifted, self.raw = Known(), RowStore()
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
        wanted = np.zeros(len(self._ids), dtype=bool)
        wanted[numbers] = True
        fresh = np.flatnonzero(wanted & (self._ids < 0))
        if not len(fresh):
            return None
        self._ids[fresh] = self.used + np.arange(len(fresh))
        self.used += len(fresh)
        return self.packet(fresh)

    def remove(self, numbers: NDArray[np.int64]) -> None:
        """Let rows go that are nowhere in use; places and ids of the others close up, as they do at the units."""
        known = numbers[numbers < len(self._places)]
        stay = np.ones(len(self.labels), dtype=bool)
        stay[self._places[known][self._places[known] >= 0]] = False
        self.lifted.keep(stay)
        self.raw.keep(stay)
        self.labels = [self.labels[place] for place in np.flatnonzero(stay).tolist()]
        self._places[known], self._ids[known] = -1, -1
        for held in (self._places, self._ids):
            left = np.flatnonzero(held >= 0)
            held[left[np.argsort(held[left])]] = np.arange(len(left))
        self.used = int((self._ids >= 0).sum())

    def packet(self, numbers: NDArray[np.int64]) -> Packet:
        """Rows as they were given."""
        places = self.places(numbers)
        return Packet(numbers, [self.labels[place] for place in places.tolist()], self.raw.take(places))


class Coordinator:
    """Leads the units through one training, by the working set or the active set.

    In each round units propose rows, the worst violators of theirs. The leader solves the problem of these rows, and
    of some that it keeps from before, to the end, with all others as they are. That is at least as good as any way of
    joining steps of the units, so that the objective never falls.

    Parameters
    ----------
    setting : Setting
    policy : Policy
    book : RowRegistry
    standings : list of ProblemStatus, one a problem
    threads : Threads
        By which small problems are solved, where there are many.
    """

    def __init__(
        self,
        setting: Setting,
        policy: Policy,
        book: RowRegistry,
        standings: list[ProblemStatus],
        threads: Threads,
    ) -> None:
        from mergesvm.methods.kernel.jit import dual as dual_kernels
        from mergesvm.methods.kernel.jit import unit as unit_kernels

        self._kernels, self._told = dual_kernels, unit_kernels
        self._setting, self._policy, self._threads = setting, policy, threads
        self.book, self.standings = book, standings
        self.exchange = Exchange()
        self.rounds = 0
        self.violation = np.inf
        self._kept = NONE, NONE  # problems, ascending, and numbers of rows
        self._gains: list[float] = []
        self._live = np.arange(len(standings))
        self._matrices: dict[int, tuple[NDArray[np.int64], NDArray[Any]]] = {}
        self._intercepts = np.array([standing.total * max(policy.penalty, 0.0) for standing in standings])

    def first(self) -> Request:
        """What units are told to begin with: nothing moves."""
        count = len(self.standings)
        limits = np.tile([np.inf, -np.inf], (count, 1))
        kept = None if self._policy.support else RaggedArray.empty(count)
        begins = not self._policy.support
        return Request(None, NONE, RaggedArray.empty(0), self._live, kept, self._intercepts, limits, begins=begins)

    def next(self, answers: list[Reply]) -> Request:
        """What units are told after what they have answered; no problem is live any more when all are at their end."""
        self._enter(answers)
        settled = [answer.settled for answer in answers if answer.settled is not None]
        self.rounds += len(settled) > 0
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
        awake = not self._policy.sleeps or solved is None
        order = self._order(solved, np.concatenate([NONE, *settled]), high, low, awake)
        self.exchange.note(answers, order)
        return order

    def _enter(self, answers: list[Reply]) -> None:
        for answer in answers:
            if answer.news is not None:
                self.book.enter(answer.news, self._setting.lifted(answer.news.rows))

    def _judge(
        self, answers: list[Reply], asleep: bool
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

    def _solve(self, going: NDArray[np.intp], answers: list[Reply], asleep: bool) -> Solved | None:
        """Solve the small problems of those that are live."""
        if not len(going):
            return None
        self.rounds += 1
        solved = self._proposed(going, answers)
        smalls, before, wants = solved.smalls, solved.smalls.alpha.copy(), solved.smalls.v.copy()
        # A tolerance of the gap says nothing about violations.
        least = 0.0 if self._policy.gap else self._setting.tolerance
        shares = np.where(self._setting.whole[self._live[going]] & (not self._policy.gap), 0.0, self._policy.share)
        tolerances = np.maximum(shares * self._off[going], least)
        kernel, rows = self._setting.kernel, self.book.lifted
        # Many narrow problems are solved without a word in between; for others matrix products are the faster.
        many = len(going) > 1 and len(rows) > 0 and not self._policy.support
        if many and kernel.kind != "callable" and rows.all().narrow:
            smalls.solve(rows.all().matrix, kernel.numbers, self._policy.penalty, tolerances, self._threads)
        else:
            self._threads.map(lambda k: self._one(solved, k, float(tolerances[k])), range(len(going)))
        solved.steps = smalls.y * (smalls.alpha - before)
        gains, moved = smalls.sums((wants + smalls.v) * solved.steps) / 2, smalls.sums(solved.steps)
        gains -= max(self._policy.penalty, 0.0) * (moved * smalls.totals + moved**2 / 2)
        if self._policy.most_support is not None:
            self._give_up(solved, gains, moved, before)
        if self._stalls(going, float(gains.sum()), asleep):
            return None
        if self._policy.penalty < 0:  # by the intercepts of before units would propose the wrong rows
            self._intercepts[going] = smalls.middles(self._intercepts[going])
        for p, gain, step in zip(solved.problems, gains.tolist(), moved.tolist(), strict=True):
            self.standings[p].objective += gain
            self.standings[p].total += step
        return solved

    def _proposed(self, going: NDArray[np.intp], answers: list[Reply]) -> Solved:
        """The rows that all units propose for some of the live problems."""
        sizes = np.sum([np.diff(answer.proposed.firsts)[going] for answer in answers], axis=0)
        firsts = np.append(0, np.cumsum(sizes))
        heads, numbers = firsts[:-1].copy(), np.empty(firsts[-1], np.int64)
        v, alpha, bound, y = np.empty((4, firsts[-1]))
        for proposed in (answer.proposed for answer in answers):
            lists = proposed.firsts, proposed.keys, proposed.values
            self._kernels.deal(going, *lists, heads, numbers, v, alpha, bound, y)
        totals = np.array([self.standings[p].total for p in self._live[going]])
        smalls = Subproblems(firsts, self.book.places(numbers), y, v, alpha, bound, totals)
        return Solved(self._live[going], numbers, smalls, np.zeros(len(y)))

    def _stalls(self, going: NDArray[np.intp], gain: float, asleep: bool) -> bool:
        """Whether next to nothing was gained for long."""
        total = sum(abs(standing.objective) for standing in self.standings)
        self._gains = [*self._gains[-STALLED + 1 :], gain]
        if len(self._gains) < STALLED or sum(self._gains) > NOTHING * total:
            return False
        for at in going if not asleep else NONE:
            self.standings[self._live[at]].ended = "stalled"
        return True

    def _one(self, solved: Solved, k: int, tolerance: float) -> None:
        """Solve one of the small problems by its whole matrix."""
        smalls, span = solved.smalls, solved.smalls.span(k)
        if span.start == span.stop:
            return
        y, v, alpha, bound = (part[span] for part in (smalls.y, smalls.v, smalls.alpha, smalls.bound))
        before, wants = alpha.copy(), v.copy()
        K = self._matrix(int(solved.problems[k]), solved.numbers[span])
        self._ascend(K, y, v, alpha, bound, float(smalls.totals[k]), tolerance)
        if self._policy.most_support is not None and (alpha > 0).sum() > self._policy.most_support:
            alpha[:] = self._pruned(K, y, alpha, bound)
            v[:] = wants - K @ (y * (alpha - before))

    def _give_up(self, solved: Solved, gains: Any, moved: Any, before: NDArray[np.float64]) -> None:
        """End problems in which nothing more is to be gained with so few rows."""
        for k, p in enumerate(solved.problems):
            if gains[k] <= NOTHING * abs(self.standings[p].objective):
                self.standings[p].ended = "support"
                span = solved.smalls.span(k)
                solved.steps[span], solved.smalls.alpha[span] = 0.0, before[span]
                gains[k] = moved[k] = 0.0

    def _ascend(self, K: Any, y: Any, v: Any, alpha: Any, bound: Any, total: float, tolerance: float) -> None:
        most = STEPS * max(len(y), 100)
        self._kernels.ascend(K, y, v, alpha, bound, total, self._policy.penalty, tolerance, most)

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
        self,
        solved: Solved | None,
        settled: NDArray[np.int64],
        high: NDArray[np.float64],
        low: NDArray[np.float64],
        awake: bool,
    ) -> Request:
        moved, steps, changed = NONE, RaggedArray.empty(0), settled
        if solved is not None:
            self._note(solved)
            rows = np.flatnonzero(solved.steps)
            counts = np.bincount(solved.smalls.problems[rows], minlength=len(solved.problems))
            moved, numbers = solved.problems[counts > 0], solved.numbers[rows]
            changed = np.append(changed, numbers)
        arrivals = self.book.announce(changed)
        if solved is not None:
            firsts = np.append(0, np.cumsum(counts[counts > 0]))
            steps = RaggedArray(firsts, self.book.ids(numbers), solved.steps[rows])
        stay = np.array([not self.standings[p].ended for p in self._live], dtype=bool)
        self._live, self._intercepts = self._live[stay], self._intercepts[stay]
        if self._policy.penalty > 0:
            self._intercepts = self._policy.penalty * np.array([self.standings[p].total for p in self._live])
        limits = np.column_stack([high[stay], low[stay]])
        return Request(arrivals, moved, steps, self._live, self._staying(), self._intercepts, limits, awake)

    def _staying(self) -> RaggedArray | None:
        """Ids of the rows that stay in the working sets of the live problems."""
        if self._policy.support:
            return None
        problems, numbers = self._kept
        here = self._among(self._live)[problems]
        firsts = np.append(np.searchsorted(problems[here], self._live), here.sum())
        return RaggedArray(firsts, self.book.ids(numbers[here]))

    def _among(self, problems: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of all problems are among some."""
        among = np.zeros(len(self.standings), dtype=bool)
        among[problems] = True
        return among

    def _note(self, solved: Solved) -> None:
        """Note which rows stay in the working sets: those in between the bounds, the newest first."""
        if self._policy.support:
            return
        smalls = solved.smalls
        free = np.flatnonzero((smalls.alpha > 0) & (smalls.alpha < smalls.bound))
        problems, numbers = solved.problems[smalls.problems[free]], solved.numbers[free]
        before, kept = self._kept
        if len(free) and np.bincount(problems).max() > self._policy.kept:
            many = 1 + max(numbers.max(), kept.max(initial=0))
            old = np.isin(problems * many + numbers, before * many + kept)
            order = np.lexsort((old, problems))
            problems, numbers = problems[order], numbers[order]
            newest = np.arange(len(problems)) - np.searchsorted(problems, problems) < self._policy.kept
            problems, numbers = problems[newest], numbers[newest]
        others = ~self._among(solved.problems)[before]
        problems, numbers = np.append(before[others], problems), np.append(kept[others], numbers)
        order = np.argsort(problems, kind="stable")
        self._kept = problems[order], numbers[order]


SCRATCH = Scratch()
