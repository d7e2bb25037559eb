"""Pegasos: stochastic subgradient descent on the hinge loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.engines.base import Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError
from mergesvm.methods.row_pool import RowPool
from mergesvm.models.schedule import MAX_STEPS, Schedule

PRODUCTS_PER_CALL = 1 << 28
"""Products per call of compiled code, some tenths of a second: interrupts are handled between calls."""

STEP_PRODUCTS = 64
"""Cost of a step besides its products, in products."""


@dataclass(frozen=True)
class Side:
    """A binary problem over the classes of a pool: the weight of each class, times its sign; 0 if it has no part.

    ``present`` lists the classes of the problem, including those of weight 0.
    """

    weights: NDArray[np.float64]
    present: tuple[int, ...]

    def mean(self, pool: RowPool) -> float:
        """The mean weight of the rows of the problem."""
        totals = pool.class_weights()
        return float(np.abs(self.weights) @ totals) / float(totals[list(self.present)].sum())


@dataclass(frozen=True)
class Walk:
    """State of a binary problem: w = factor v / (lambda steps), coefficients first and the intercept last.

    Attributes
    ----------
    v : array of shape (features + 1,)
        The sum of weight x sign x row over all violations so far.
    lambda_ : float
    bias : float
        The value of the constant feature whose coefficient is the intercept; 0 if there is none.
    seed : int
        Seed of the sequence of draws, which continues where it stopped.
    steps, origin, drawn : int
        t; the t at which it began, 0 unless at a given hyperplane; and the number of rows drawn.
    factor, square : float
        The factor by which projections have shrunk w, and the squared norm of v.
    mean : array of shape (features + 1,) or None
        The average of w over the last steps.
    """

    v: NDArray[Any]
    lambda_: float
    bias: float
    seed: int = 0
    steps: int = 0
    origin: int = 0
    drawn: int = 0
    factor: float = 1.0
    square: float = 0.0
    mean: NDArray[np.float64] | None = None

    @classmethod
    def begin(cls, pool: RowPool, schedule: Schedule, real: np.dtype[Any], seed: int = 0) -> Walk:
        """The state before the first step, at zero."""
        size = min(max(pool.size, 1e-30), 1e30)
        bias = (schedule.intercept_scaling or size) if schedule.fit_intercept else 0.0
        # Rounded as in compiled code, so that the intercept is that of the steps.
        return cls(np.zeros(pool.width + 1, dtype=real), schedule.lambda_, float(real.type(bias)), seed)

    def moved_to(self, hyperplane: NDArray[np.float64], pool: RowPool, problem: Side) -> Walk:
        """The same state at a given hyperplane.

        The first steps of Pegasos are too large for a good start. So t is set to the mean of omega x.x / lambda: from
        there a step changes the score of its row by about 1, which is the margin.
        """
        square = pool.size**2 + self.bias**2
        steps = max(1, round(min(problem.mean(pool) * square / self.lambda_, MAX_STEPS)))
        unit = np.append(np.ones(len(hyperplane) - 1), self.bias or np.inf)
        v = (hyperplane / unit * (self.lambda_ * steps)).astype(self.v.dtype)
        return replace(self, v=v, steps=steps, origin=steps, factor=1.0, square=_square(v), mean=None)

    def under(self, lambda_: float) -> Walk:
        """The same w, to continue with another lambda."""
        if lambda_ == self.lambda_:
            return self
        v = (self.v * (lambda_ / self.lambda_)).astype(self.v.dtype)
        return replace(self, v=v, lambda_=lambda_, square=_square(v))

    def reversed(self) -> Walk:
        """The state of the problem with its sides exchanged."""
        return replace(self, v=-self.v, mean=None if self.mean is None else -self.mean)

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """Coefficients with the intercept last; averaged, if the last steps were."""
        w = self.mean
        with np.errstate(all="ignore"):  # overflow is reported after the last step
            if w is None:
                w = self.v.astype(np.float64) * (self.factor / (self.lambda_ * max(self.steps, 1)))
            return np.append(w[:-1], w[-1] * self.bias)


@dataclass(frozen=True)
class Seeds:
    """Independent seeds of problems, the same wherever problems run.

    >>> Seeds(7).rest().first == np.random.SeedSequence(7).spawn(2)[1].generate_state(1, np.uint64)[0]
    np.True_
    """

    seed: int
    given: int = 0

    @property
    def first(self) -> int:
        """The next seed."""
        return int(np.random.SeedSequence(self.seed, spawn_key=(self.given,)).generate_state(1, np.uint64)[0])

    def rest(self) -> Seeds:
        """The seeds after it."""
        return Seeds(self.seed, self.given + 1)


def take_steps(
    pool: RowPool, problems: Sequence[Side], walks: Sequence[Walk], schedule: Schedule, engine: Engine
) -> list[Walk]:
    """Make ``n_iter`` steps in each binary problem.

    At step t rows are drawn at random, in proportion to their weights, and with eta = 1 / (lambda t) ::

        w <- (1 - eta lambda) w + eta / k sum omega y x      over those of the k rows with y w.x < 1

    which minimises lambda/2 w.w + mean of omega max(0, 1 - y w.x). (The paper
    shrinks by (1 - eta), a typo.) Every problem has its own sequence of draws, so results do not depend on the number
    of workers.

    >>> from mergesvm.data.batch import Batch
    >>> from mergesvm.engines.threads import Threads
    >>> from mergesvm.features.maps.identity import Identity
    >>> pool = RowPool.of(Batch.of([[-1.0], [1.0]], ["a", "b"]), Identity())
    >>> schedule = Schedule(0.1, 1000, fit_intercept=False)
    >>> start, problem = Walk.begin(pool, schedule, pool.real, seed=7), Side(np.array([-1.0, 1.0]), (0, 1))
    >>> take_steps(pool, [problem], [start], schedule, Threads(1))[0].coefficients.round(1)
    array([1., 0.])
    """
    if isinstance(engine, Threads):
        ended = _step_locally(pool, problems, walks, schedule, engine)
    else:
        tasks = list(zip(problems, walks, strict=True))
        names = [f"the problem of classes {problem.present}" for problem in problems]
        ended = engine.map(_step_remotely, tasks, given=(pool, schedule), names=names)
    if not all(np.isfinite(walk.coefficients).all() for walk in ended):
        raise DataError(
            "Input X has values so large that steps overflow. Rescale the columns, for example to unit variance."
        )
    return ended


def _step_locally(
    pool: RowPool, problems: Sequence[Side], walks: Sequence[Walk], schedule: Schedule, engine: Engine
) -> list[Walk]:
    runs = [_Run(pool, problem, walk, schedule) for problem, walk in zip(problems, walks, strict=True)]
    # All make the same number of steps, but problems with more rows take longer: memory access is more scattered.
    order = sorted(range(len(runs)), key=lambda index: -runs[index].count)
    for last in _stops(pool, schedule):
        engine.map(lambda index, last=last: runs[index].go(last), order)
    return [each.walk() for each in runs]


def _step_remotely(task: tuple[Side, Walk], pool: RowPool, schedule: Schedule) -> Walk:
    runs = _Run(pool, *task, schedule)
    for last in _stops(pool, schedule):
        runs.go(last)
    return runs.walk()


def _stops(pool: RowPool, schedule: Schedule) -> Iterator[int]:
    """The last step of each call of compiled code."""
    products = schedule.batch_size * (pool.length + STEP_PRODUCTS)
    return (last for _, last in spans(schedule.n_iter, max(1, int(PRODUCTS_PER_CALL / products))))


class _Run:
    """A state in arrays that compiled code changes, copied from the given one."""

    def __init__(self, pool: RowPool, problem: Side, walk: Walk, schedule: Schedule) -> None:
        from mergesvm.methods.pegasos import jit

        self.jit = jit
        self.start, self.schedule = walk.under(schedule.lambda_), schedule
        self.stop = walk.steps + schedule.n_iter
        self.begin = self.stop - math.ceil(schedule.average * schedule.n_iter)
        self.v = self.start.v.copy()
        self.u = np.zeros_like(self.v)
        self.integers = np.array([walk.steps, walk.drawn, 0], dtype=np.int64)
        self.floats = np.array([self.start.factor, self.start.square, 0.0])
        self.pool, self.parts = pool, pool.parts
        self.problem = problem
        self.span = _span(pool, problem.present)
        self.count = int(self.span[0])
        # By duality lambda w.w <= mean of omega at the solution, which is 1 for unweighted rows.
        self.radius = math.sqrt(problem.mean(pool) / schedule.lambda_) if schedule.project else 0.0

    def go(self, step: int) -> None:
        """Continue to a step, counted from the start of this run."""
        schedule, real = self.schedule, self.v.dtype.type
        self.jit.make_steps(
            self.parts,
            self.pool.order,
            self.pool.codes,
            self.pool.cumulative,
            self.span,
            np.uint64(self.start.seed),
            self.problem.weights.astype(self.v.dtype),
            real(self.start.bias),
            schedule.lambda_,
            schedule.batch_size,
            self.radius,
            self.begin,
            self.start.steps + step,
            self.v,
            self.u,
            self.integers,
            self.floats,
        )

    def walk(self) -> Walk:
        """The state so far."""
        steps, drawn, averaged = self.integers.tolist()
        factor, square, total = self.floats.tolist()
        with np.errstate(all="ignore"):
            mean = (total * self.v.astype(np.float64) - self.u) / averaged if averaged else None
        return replace(self.start, v=self.v, steps=steps, drawn=drawn, factor=factor, square=square, mean=mean)


def _span(pool: RowPool, present: tuple[int, ...]) -> NDArray[np.int64]:
    """Positions of the rows of a problem in the pool: one run if it has all classes, otherwise two."""
    counts = pool.counts()
    if len(present) == len(counts):
        return np.array([counts.sum(), counts.sum(), pool.bounds[0], pool.bounds[0]], dtype=np.int64)
    one, other = present
    first = counts[one]
    return np.array([first + counts[other], first, pool.bounds[one], pool.bounds[other] - first], dtype=np.int64)


def _square(v: NDArray[Any]) -> float:
    wide = v.astype(np.float64)
    return float(wide @ wide)
