"""KernelTrainer: training runs of units by a coordinator, each with a TrainingResult."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.base import Actors, Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import warn_solver
from mergesvm.methods.kernel.coordinator.base import Coordinator, ProblemStatus
from mergesvm.methods.kernel.coordinator.gradient import GradientCoordinator
from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.coordinator.working_set import WorkingSetCoordinator
from mergesvm.methods.kernel.history import TrainingHistory
from mergesvm.methods.kernel.messages import Exchange, FinalReply, Reply, Request, RowPacket
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.setup import KernelNumerics, Pair, TrainingSetup
from mergesvm.methods.kernel.stats import ALPHAS, LOSS, TINY, ProblemStats, pooled_moments
from mergesvm.methods.kernel.warm_start import WarmStart
from mergesvm.models.score_moments import SideMoments

MIN_SECONDS_BETWEEN_REPORTS = 2.0

Progress = Callable[[int, int, float, int], None]
"""Called after each iteration with its number, the number of problems that have not converged, the largest violation,
and the number of shared rows."""


class ProgressPrinter:
    """Prints a line about the progress on standard error every few seconds, and at the end."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, iteration: int, active: int, violation: float, shared: int) -> None:
        """Print the progress, if the last line was long enough ago."""
        now = time.monotonic()
        if now - self._last >= MIN_SECONDS_BETWEEN_REPORTS or not active:
            self._last = now
            problems = f"{active} problem{'' if active == 1 else 's'} left"
            sys.stderr.write(f"iteration {iteration}: {problems}, violation {violation:.1e}, {shared:,} rows shared\n")


@dataclass(frozen=True)
class TrainingResult:
    """The dual solution of all pairs of classes, and how it was reached."""

    pairs: list[Pair]
    class_counts: dict[Label, int]
    coefs: RaggedArray  # y alpha of the support vectors of each pair, by index of the row
    support: RowPacket | None  # the rows that are support vectors of any pair
    intercepts: NDArray[np.float64]  # (pairs,), as are the dual objectives and the duality gaps
    objectives: NDArray[np.float64]
    gaps: NDArray[np.float64]
    violation: float  # the largest violation of the optimality conditions
    converged: bool
    bounds: NDArray[np.float64]  # (pairs, 2): upper bound of alpha for a row of weight 1, per side
    moments: SideMoments
    n_iter: int
    exchange: Exchange
    history: TrainingHistory


class KernelTrainer:
    """Units with their rows, and the state from which the next run starts; subproblems are solved by threads."""

    def __init__(self, units: Actors[Any], engine: Engine, options: KernelOptions, threads: Threads) -> None:
        self.units, self.engine, self.options, self._threads = units, engine, options, threads
        self.registry = RowRegistry()
        self._statuses: dict[Pair, ProblemStatus] = {}
        self._warm_start = WarmStart(self.registry)
        self.numerics: KernelNumerics | None = None
        self.has_initial_alpha = False  # whether units have been told dual variables to start the next run from

    def train(self, progress: Progress | None = None) -> TrainingResult:
        """Train to the optimum of the current rows, from the dual variables of the last run."""
        # Units in threads use all cores; threads of BLAS, which keep spinning after a call, would slow them down.
        crowded = isinstance(self.engine, Threads) and min(self.engine.workers, len(self.units)) > 1
        with Threads.single_threaded_blas() if crowded else nullcontext():
            return self._train(progress)

    def forget(self, indices: NDArray[np.int64]) -> None:
        """Remove rows from all units; :meth:`train` then continues with the remaining ones."""
        setup, registry = self._setup(self._class_counts()), self.registry
        support, request = self.engine.ranks.on_root(
            lambda: (self._warm_start.support(setup.pairs), self._warm_start.removal(setup, indices))
        )
        self.units.call("start", setup, support)
        self.units.call("apply", request)
        self.units.call("finish")
        self.units.call("remove", indices)
        self.engine.ranks.on_root(lambda: registry.remove(indices))

    def _train(self, progress: Progress | None) -> TrainingResult:
        class_counts = self._class_counts()
        setup = self._setup(class_counts)
        support = self.engine.ranks.on_root(lambda: self._warm_start.support(setup.pairs))
        self.units.call("start", setup, support)
        request = self.engine.ranks.on_root(lambda: self._warm_start.rescaling(setup))
        if len(request.moved):
            self.units.call("apply", request)
        statuses = [replace(self._statuses.get(pair, ProblemStatus()), stopped="") for pair in setup.pairs]
        if self.has_initial_alpha:
            self._start_from_initial_alpha(setup, statuses)
        coordinator = self._coordinator(setup, statuses)
        self._iterate(coordinator, progress)
        self._statuses = dict(zip(setup.pairs, statuses, strict=True))
        result = self._result(setup, class_counts, coordinator)
        self.units.call("finish")
        return result

    def _start_from_initial_alpha(self, setup: TrainingSetup, statuses: list[ProblemStatus]) -> None:
        """Share the rows whose initial alpha is positive with all units, and apply them."""

        def decide(replies: list[Reply]) -> Request:
            self.registry.add_all(replies, setup)
            proposed = RaggedArray.merged([reply.proposed for reply in replies])
            for p, status in enumerate(statuses):
                assert proposed.values is not None
                status.total = float(proposed.values[proposed.span(p)].sum())
            new_rows = self.registry.share(proposed.keys)
            steps = RaggedArray(proposed.starts, self.registry.ids(proposed.keys), proposed.values)
            return Request.move(np.arange(len(statuses)), steps, new_rows)

        self.units.call("apply", self.units.consult(decide, "initial_steps"))
        self.has_initial_alpha = False

    def _class_counts(self) -> dict[Label, int]:
        """Number of rows of each class, at all units."""
        return self._class_sums("counts")

    def _class_sums(self, method: str) -> dict[Label, Any]:
        """The sum over all units of the values that a method returns for each class."""
        sums: Counter[Label] = Counter()
        for part in self.units.call(method):
            sums.update(part)
        return dict(sums)

    def _setup(self, class_counts: dict[Label, int]) -> TrainingSetup:
        options, in_process = self.options, isinstance(self.engine, Threads)
        if self.numerics is None:
            n_rows = sum(class_counts.values())
            self.numerics = KernelNumerics.of(self.units, options, n_rows)
        class_weights = self._class_sums("total_weights")
        arguments = options, self.numerics, class_counts, class_weights, len(self.units)
        return TrainingSetup.of(*arguments, in_process=in_process, n_threads=self._threads.workers)

    def _coordinator(self, setup: TrainingSetup, statuses: list[ProblemStatus]) -> Coordinator:
        common = setup, self.options, self.registry, statuses
        if self.options.method != "gradient":
            return WorkingSetCoordinator(*common, self._threads)
        eigenvalues = np.array(self.units.call("largest_eigenvalues", setup.penalty))
        bounds = eigenvalues.reshape(len(self.units), -1).sum(axis=0)
        _warn_if_beyond(self.options, float(bounds.max(initial=0.0)))
        return GradientCoordinator(*common, bounds)

    def _iterate(self, coordinator: Coordinator, progress: Progress | None) -> None:
        """Exchange messages between coordinator and units until all problems have stopped."""

        def decide(replies: list[Reply]) -> tuple[Any, ...]:
            arguments = coordinator.next(replies)
            if progress is not None:
                shared = coordinator.registry.n_shared
                progress(coordinator.n_iter, len(arguments[0].active), coordinator.violation, shared)
            return arguments

        # Under MPI only the root knows the state of the problems.
        arguments = self.engine.ranks.on_root(coordinator.first)
        while True:
            arguments = self.units.consult(decide, coordinator.unit_method, *arguments)
            if not len(arguments[0].active):
                break
        self.units.call("apply", arguments[0])  # the last request may have steps, too

    def _result(self, setup: TrainingSetup, class_counts: dict[Label, int], coordinator: Coordinator) -> TrainingResult:
        penalty = setup.penalty
        stats = ProblemStats.of(self.units.call("stats", np.zeros(len(setup.pairs))))
        intercepts = stats.intercepts(penalty)
        violations = stats.violations(penalty, intercepts)
        violation = float(violations[np.isfinite(violations)].max(initial=0.0))
        replies: list[FinalReply] = self.units.call("final", intercepts)
        stats = ProblemStats.of([reply.stats for reply in replies])  # the hinge loss depends on the intercepts
        squares = stats.squared_norms(penalty)
        objectives = stats.sums[:, ALPHAS] - squares / 2
        gaps = np.maximum(squares / 2 + stats.sums[:, LOSS] - objectives, 0.0)  # negative only by rounding
        coefs = RaggedArray.merged([reply.coefs for reply in replies])
        self._warm_start.save(setup.pairs, coefs)

        reasons = self.engine.ranks.on_root(lambda: [status.stopped for status in coordinator.statuses])
        relative_gap = float(gaps.sum() / max(np.abs(objectives).sum(), TINY))
        n_iter = self.engine.ranks.on_root(lambda: coordinator.n_iter)
        _warn_unless_converged(reasons, n_iter, violation, relative_gap, self.options, setup.dtype)
        within_tol = not self.options.stops_on_gap and violation <= self.options.tol
        converged = "max_iter" not in reasons and ("stalled" not in reasons or within_tol)

        def result() -> TrainingResult:
            support = np.unique(coefs.keys)
            return TrainingResult(
                setup.pairs,
                class_counts,
                coefs,
                coordinator.registry.packet(support) if len(support) else None,
                intercepts,
                objectives,
                gaps,
                violation,
                converged,
                setup.bounds,
                _score_moments(replies, intercepts),
                coordinator.n_iter,
                coordinator.exchange,
                coordinator.history,
            )

        return self.engine.ranks.on_root(result)


def _warn_if_beyond(options: KernelOptions, eigenvalue: float) -> None:
    """Warn if kappa is not certainly within the bound of theorem 1, which momentum halves."""
    factor = 1 if options.accelerated else 2
    if options.kappa is not None and options.kappa * eigenvalue > factor:
        warn_solver(
            f"kappa={options.kappa:g} may be too large to converge: the bound is {factor} / lambda, where lambda, the "
            f"largest eigenvalue of Q + M beta y y', is at most {eigenvalue:.3g}. Any kappa below "
            f"{factor / eigenvalue:.3g} converges."
        )


def _score_moments(replies: list[FinalReply], intercepts: NDArray[np.float64]) -> SideMoments:
    """Means and variances of the scores of each side, over all units."""
    moments: Any = np.zeros((3, len(intercepts), 2))
    for reply in replies:
        moments = pooled_moments(*moments, *np.moveaxis(reply.moments, -1, 0))
    counts, means, scatters = moments
    return SideMoments(means + intercepts[:, None], scatters.sum(axis=1) / np.maximum(counts.sum(axis=1), TINY), counts)


def _warn_unless_converged(
    reasons: list[str], n_iter: int, violation: float, relative_gap: float, options: KernelOptions, dtype: np.dtype[Any]
) -> None:
    """Warn if training has stopped before the optimum, and how far from it."""
    unfinished, stalled = reasons.count("max_iter"), reasons.count("stalled")
    reached = f"the largest violation is {violation:.1e} and the duality gap {relative_gap:.1e} of the objective"
    if unfinished:
        warn_solver(
            f"{unfinished} of {len(reasons)} problems did not converge in {n_iter} iterations "
            f"(max_iter={options.max_iter}): {reached}. Scale the features, or increase max_iter or tol."
        )
    if stalled and (options.stops_on_gap or violation > options.tol):
        remedy = "Use precision='float64'" if dtype == np.float32 else "Increase tol"
        warn_solver(
            f"{stalled} of {len(reasons)} problems stalled at the limit of {dtype.name} precision: {reached}. "
            f"{remedy}, or scale the features."
        )
