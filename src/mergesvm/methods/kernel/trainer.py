"""A kernel machine: units that hold rows, and what they have come to together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.base import Engine, Units
from mergesvm.engines.threads import Threads
from mergesvm.errors import SolverWarning
from mergesvm.methods.kernel.coordinator import NONE, Coordinator, Policy, ProblemStatus, RowRegistry
from mergesvm.methods.kernel.gradient import STRIDE, GradientCoordinator
from mergesvm.methods.kernel.messages import Pair, RaggedArray, Request, Setting
from mergesvm.methods.kernel.numerics import KernelNumerics
from mergesvm.methods.kernel.options import KernelOptions, Trained
from mergesvm.models.score_moments import SideMoments
from mergesvm.multiclass.class_weights import given_weights, side_weights

FEW, EXACT = 200, 1e-6
"""With so few rows in all, problems are solved to this share of the tolerance: it costs nothing."""

TINY = float(np.finfo(np.float64).tiny)

WHOLE = 3
"""Problems of so many times as many rows as the working set has are small: they can be solved at one go."""

Progress = Callable[[int, int, float, int], None]
"""Told after each round: how many there were, how many problems go on, the largest violation, the rows in use."""


class KernelMachine:
    """Units with their rows, and how far they have come; training goes on from there after rows came or went.

    Parameters
    ----------
    units : Units
        Of :class:`~mergesvm.methods.kernel.worker.unit.Unit`, or of ``GradientUnit`` for that method.
    engine : Engine
    terms : KernelOptions
    threads : Threads
        By which the leader solves small problems.
    """

    def __init__(self, units: Units[Any], engine: Engine, terms: KernelOptions, threads: Threads) -> None:
        self.units, self.engine, self.terms, self._threads = units, engine, terms, threads
        self._book, self._standings = RowRegistry(), {}  # type: RowRegistry, dict[Pair, ProblemStatus]
        self._coefs: dict[Pair, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}
        self._bounds: dict[Pair, NDArray[np.float64]] = {}
        self.ground: KernelNumerics | None = None

    @property
    def penalty(self) -> float:
        """Of (y'alpha)^2 / 2; negative where y'alpha = 0 is demanded."""
        return -1.0 if self.terms.beta is None else self.terms.beta * len(self.units)

    def train(self, progress: Progress | None = None) -> Trained:
        """Train, from where the machine is, to the optimum of the rows that there are now."""
        # Units in threads are as many as the cores, and between their rounds BLAS would not let go of these at once.
        crowded = self.engine.embedded and min(self.engine.workers, len(self.units)) > 1
        with Threads.single_threaded_blas() if crowded else nullcontext():
            return self._train(progress)

    def _train(self, progress: Progress | None) -> Trained:
        self._rows = counts = self._counted()
        setting = self._set(counts)
        support = self.engine.once(lambda: self._support(setting.pairs))
        self.units.call("begin", setting, support)
        order = self.engine.once(lambda: self._shrinkage(setting))
        if len(order.moved):
            self.units.call("follow", order)
        trained = self._trained(setting, counts, progress)
        self.units.call("rest")
        return trained

    def _trained(self, setting: Setting, counts: dict[Label, int], progress: Progress | None) -> Trained:
        standings = [replace(self._standings.get(pair, ProblemStatus()), ended="") for pair in setting.pairs]
        leader, method, first = self._leader(setting, standings)
        # Where many ranks run this program, only the one that leads knows how far the problems are.
        order = self.engine.once(lambda: first)

        def decide(answers: list[Any]) -> Any:
            decided = leader.next(answers)
            if progress is not None:
                head = decided if isinstance(decided, Request) else decided[0]
                progress(leader.rounds, len(head.live), leader.violation, leader.book.used)
            return decided

        while True:
            order = self.units.consult(decide, method, *order)
            order = order if isinstance(order, tuple) else (order,)
            if not len(order[0].live):
                break
        # What was told last may have moved rows: all units follow before it is concluded.
        self.units.call("follow", order[0])
        self._standings = dict(zip(setting.pairs, standings, strict=True))
        return self._conclude(setting, counts, leader)

    def _leader(self, setting: Setting, standings: list[ProblemStatus]) -> tuple[Any, str, tuple[Any, ...]]:
        terms, count = self.terms, len(self.units)
        policy = Policy(
            self.penalty,
            self._tolerance,
            terms.gap,
            kept=terms.size,
            support=terms.method == "active-set",
            most_support=terms.most_support,
            rounds=terms.rounds,
            sleeps=terms.method == "working-set",
        )
        if terms.method == "active-set":
            policy = replace(policy, share=0.0)
        if terms.method != "gradient":
            leader = Coordinator(setting, policy, self._book, standings, self._threads)
            return leader, "step", (leader.first(),)
        bounds = np.array(self.units.call("largest", self.penalty)).reshape(count, -1).sum(axis=0)
        reach = 1.0 if terms.accelerated else STRIDE
        strides = reach / np.maximum(bounds, np.finfo(np.float64).tiny)
        climber = GradientCoordinator(setting, policy, self._book, standings, strides, terms.accelerated)
        return climber, "climb", climber.first()

    @property
    def _tolerance(self) -> float:
        exactly = sum(self._rows.values()) <= FEW and not self.terms.gap and self.terms.method != "gradient"
        return self.terms.tolerance * (EXACT if exactly else 1.0)

    def _set(self, counts: dict[Label, int]) -> Setting:
        terms, classes = self.terms, sorted(counts)
        if self.ground is None:
            self.ground = KernelNumerics.of(self.units, terms.kernel, terms.precision, sum(counts.values()))
        ground = self.ground
        pairs = list(combinations(classes, 2))
        bounds = np.full((len(pairs), 2), float(terms.C))
        if isinstance(terms.class_weight, Mapping):
            weights = dict(zip(classes, given_weights(terms.class_weight, tuple(classes)), strict=True))
            bounds *= np.array([[weights[one], weights[other]] for one, other in pairs]).reshape(-1, 2)
        elif terms.class_weight is not None:
            for p, (one, other) in enumerate(pairs):
                bounds[p] *= side_weights(terms.class_weight, counts[other], counts[one])[::-1]
        count = len(self.units)
        few = terms.method == "active-set"
        sizes = np.array([counts[one] + counts[other] for one, other in pairs], dtype=np.int64)
        whole = (sizes <= WHOLE * terms.size) & (terms.method == "working-set")
        # One unit has nothing to keep to itself: it proposes all rows of a problem that can be solved at one go.
        # Many in one memory may propose more, for fewer rounds; elsewhere all that is proposed has to travel.
        share = count if self.engine.embedded and count > 1 else 4 * count
        room = 1 if few else max(8, terms.size // share)
        rooms = np.where(whole & (count == 1), sizes, room)
        return Setting(
            pairs,
            bounds,
            ground.kernel,
            ground.real,
            ground.dense,
            ground.origin,
            rooms,
            whole,
            0.0 if few else 0.5,
            count > 1 and not few,
            max(1, terms.memory // count),
            self.penalty,
            self._tolerance / 2,
            self._threads.workers if count == 1 else 1,
        )

    def _counted(self) -> dict[Label, int]:
        """How many rows of each class all units have."""
        counts: dict[Label, int] = {}
        for part in self.units.call("counts"):
            for label, count in part.items():
                counts[label] = counts.get(label, 0) + count
        return counts

    def _support(self, pairs: Sequence[Pair]) -> RaggedArray:
        """Y alpha of all rows in use, by id."""
        held = [self._coefs.get(pair, (NONE, np.zeros(0))) for pair in pairs]
        return RaggedArray.of([self._book.ids(numbers) for numbers, _ in held], [coefs for _, coefs in held])

    def _conclude(self, setting: Setting, counts: dict[Label, int], leader: Any) -> Trained:
        from mergesvm.methods.kernel.jit import unit as kernels

        empty = np.zeros(len(setting.pairs))
        told = np.array(self.units.call("tell", empty))
        sums = told.sum(axis=0).reshape(len(setting.pairs), kernels.TOLD)
        high, low = told[:, :, kernels.UP].max(axis=0), told[:, :, kernels.LOW].min(axis=0)
        penalty = max(self.penalty, 0.0)
        if self.penalty >= 0:
            # The penalty is that of a feature sqrt(penalty) that all rows have: this is its part of the score.
            intercepts = penalty * sums[:, kernels.TOTAL]
            violations = np.maximum(high - intercepts, intercepts - low)
        else:
            free = sums[:, kernels.FREE]
            middle = (np.where(np.isfinite(high), high, low) + np.where(np.isfinite(low), low, high)) / 2
            middle = np.where(np.isfinite(middle), middle, 0.0)
            intercepts = np.where(free > 0, sums[:, kernels.FREE_SUM] / np.maximum(free, 1), middle)
            violations = high - low
        answers = self.units.call("conclude", intercepts)
        sums = np.sum([answer.told for answer in answers], axis=0).reshape(len(setting.pairs), kernels.TOLD)
        square = sums[:, kernels.SQUARE] + penalty * sums[:, kernels.TOTAL] ** 2
        objectives = sums[:, kernels.ALPHAS] - square / 2
        moments = _moments([answer.moments for answer in answers], intercepts)
        coefs = RaggedArray.merged([answer.coefs for answer in answers])
        spans = [coefs.span(p) for p in range(len(coefs))]
        assert coefs.values is not None
        self._coefs = {
            pair: (coefs.keys[span], coefs.values[span]) for pair, span in zip(setting.pairs, spans, strict=True)
        }
        finite = violations[np.isfinite(violations)]

        def result() -> Trained:
            used = np.unique(coefs.keys)
            return Trained(
                setting.pairs,
                counts,
                coefs,
                leader.book.packet(used) if len(used) else None,
                intercepts,
                objectives,
                np.maximum(square / 2 + sums[:, kernels.LOSS] - objectives, 0.0),  # but for rounding
                float(finite.max(initial=0.0)),
                moments,
                leader.rounds,
                leader.exchange,
                getattr(leader, "objectives", []),
            )

        ends = self.engine.once(lambda: [standing.ended for standing in leader.standings])
        _warn(ends, float(finite.max(initial=0.0)), self.terms, setting.real)
        return self.engine.once(result)

    def forget(self, numbers: NDArray[np.int64]) -> None:
        """Let rows go, wherever they are; :meth:`train` then goes on from the multipliers of the others."""
        setting = self._set(self._counted())
        support, order = self.engine.once(lambda: (self._support(setting.pairs), self._withdrawal(setting, numbers)))
        self.units.call("begin", setting, support)
        self.units.call("follow", order)
        self.units.call("rest")
        self.units.call("remove", numbers)
        self.engine.once(lambda: self._book.remove(numbers))

    def _withdrawal(self, setting: Setting, numbers: NDArray[np.int64]) -> Request:
        """Steps that bring y alpha of rows that go to zero, and that of others with them where its sum has to be 0."""
        keys, values = [], []
        for pair in setting.pairs:
            held, coefs = self._coefs.get(pair, (NONE, np.zeros(0)))
            leaving = np.isin(held, numbers)
            steps = np.where(leaving, -coefs, 0.0)
            surplus = -steps.sum()  # what the others are short of, now
            if self.penalty < 0 and surplus != 0:
                heavy = ~leaving & (coefs * surplus < 0)
                share = min(1.0, abs(surplus) / max(np.abs(coefs[heavy]).sum(), np.finfo(np.float64).tiny))
                steps[heavy] = -coefs[heavy] * share
            moving = np.flatnonzero(steps)
            keys.append(self._book.ids(held[moving]))
            values.append(steps[moving])
            left = coefs + steps
            stay = ~leaving & (left != 0)
            self._coefs[pair] = held[stay], left[stay]
        return _moves(np.arange(len(setting.pairs)), keys, values)

    def _shrinkage(self, setting: Setting) -> Request:
        """Steps that bring alpha within bounds that are lower than before, as those by counts of classes may be.

        All of a problem shrink by the same factor, which leaves y'alpha = 0 where it has to be.
        """
        moved, keys, values = [], [], []
        for p, pair in enumerate(setting.pairs):
            before = self._bounds.get(pair, setting.bounds[p])
            share = float(np.divide(setting.bounds[p], before, out=np.ones(2), where=before > 0).min())
            held, coefs = self._coefs.get(pair, (NONE, np.zeros(0)))
            if share < 1 and len(held):
                moved.append(p)
                keys.append(self._book.ids(held))
                values.append((share - 1) * coefs)
                self._coefs[pair] = held, share * coefs
        self._bounds = dict(zip(setting.pairs, setting.bounds, strict=True))
        return _moves(np.array(moved, np.int64), keys, values)


def _moves(moved: NDArray[np.int64], keys: list[NDArray[np.int64]], values: list[NDArray[np.float64]]) -> Request:
    """Nothing but steps of y alpha."""
    limits = np.tile([np.inf, -np.inf], (0, 1))
    return Request(None, moved, RaggedArray.of(keys, values), NONE, RaggedArray.empty(0), np.zeros(0), limits)


def _moments(parts: list[NDArray[np.float64]], intercepts: NDArray[np.float64]) -> SideMoments:
    """Means and variances of the scores of either side, of all units together."""
    counts, means, scatters = (np.zeros((len(intercepts), 2)) for _ in range(3))
    for part in parts:
        count, mean, scatter = part[:, :, 0], part[:, :, 1], part[:, :, 2]
        total = counts + count
        share, apart = count / np.maximum(total, TINY), mean - means
        means, scatters = means + apart * share, scatters + scatter + apart**2 * counts * share
        counts = total
    return SideMoments(means + intercepts[:, None], scatters.sum(axis=1) / np.maximum(counts.sum(axis=1), TINY), counts)


def _warn(ends: list[str], violation: float, terms: KernelOptions, real: np.dtype[Any]) -> None:
    broken, stalled = ends.count("rounds"), ends.count("stalled")
    if broken:
        warnings.warn(
            f"{broken} of {len(ends)} problems did not come to their end in {terms.rounds} rounds: the largest "
            f"violation is {violation:.1e}. Allow more of them (max_iter), or a larger tol.",
            SolverWarning,
            stacklevel=2,
        )
    if stalled and (terms.gap or violation > terms.tolerance):
        cure = "precision='float64'" if real == np.float32 else "a larger tol"
        warnings.warn(
            f"{stalled} of {len(ends)} problems came to a halt at a violation of {violation:.1e}, as near to the "
            f"optimum as {real.name} gets. Take {cure}, or scaled features.",
            SolverWarning,
            stacklevel=2,
        )
