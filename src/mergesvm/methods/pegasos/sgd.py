"""Pegasos: support vector machines of the hinge loss, by steps along subgradients at rows drawn at random."""

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
from mergesvm.models.schedule import MOST_STEPS, Schedule

CALL_PRODUCTS = 1 << 28
"""A call of the kernel makes about so many products, some tenths of a second: then an interrupt is heard."""

STEP_PRODUCTS = 64
"""What a step costs beside its products, in products."""


@dataclass(frozen=True)
class Side:
    """A binary problem over the classes of a pool: the weight of each class, times its sign; 0 where it has no part.

    Classes of weight 0 that take part nevertheless are told by ``present``.
    """

    weights: NDArray[np.float64]
    present: tuple[int, ...]

    def mean(self, pool: RowPool) -> float:
        """The mean weight of the rows that take part."""
        counts = pool.counts()
        return float(np.abs(self.weights) @ counts) / int(counts[list(self.present)].sum())


@dataclass(frozen=True)
class Walk:
    """How far a binary problem has come: w = factor v / (lambda steps), coefficients first and the intercept last.

    Attributes
    ----------
    v : array of shape (features + 1,)
        The sum of weight x sign x row over all violations so far.
    lambda_ : float
    bias : float
        The last feature of all rows, by which the intercept is learned; 0 if there is none.
    seed : int
        Of the sequence of draws, which goes on where it stopped.
    steps, origin, drawn : int
        t; at which t it began, 0 unless on a given plane; and how many rows were drawn.
    factor, square : float
        By how much projections have shrunk w, and the square of the length of v.
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
        """At zero, before the first step."""
        size = min(max(pool.size, 1e-30), 1e30)
        bias = (schedule.intercept_scaling or size) if schedule.fit_intercept else 0.0
        # As the kernel has it, so that the intercept is that of the steps.
        return cls(np.zeros(pool.width + 1, dtype=real), schedule.lambda_, float(real.type(bias)), seed)

    def at(self, plane: NDArray[np.float64], pool: RowPool, problem: Side) -> Walk:
        """The same walk on a given plane.

        The first steps of Pegasos are far too large to be made on a good plane. So t is set to the mean of omega x.x /
        lambda, as if so many steps had led there: from then on a step moves the score of its row by about 1, which is
        the margin.
        """
        square = pool.size**2 + self.bias**2
        steps = max(1, round(min(problem.mean(pool) * square / self.lambda_, MOST_STEPS)))
        unit = np.append(np.ones(len(plane) - 1), self.bias or np.inf)
        v = (plane / unit * (self.lambda_ * steps)).astype(self.v.dtype)
        return replace(self, v=v, steps=steps, origin=steps, factor=1.0, square=_square(v), mean=None)

    def under(self, lambda_: float) -> Walk:
        """The same w, to go on under another lambda."""
        if lambda_ == self.lambda_:
            return self
        v = (self.v * (lambda_ / self.lambda_)).astype(self.v.dtype)
        return replace(self, v=v, lambda_=lambda_, square=_square(v))

    def reversed(self) -> Walk:
        """The walk of the problem with its sides exchanged."""
        return replace(self, v=-self.v, mean=None if self.mean is None else -self.mean)

    @property
    def plane(self) -> NDArray[np.float64]:
        """Coefficients, and the intercept last: averaged, if the last steps were."""
        w = self.mean
        with np.errstate(all="ignore"):  # what is too large is said once all steps are made
            if w is None:
                w = self.v.astype(np.float64) * (self.factor / (self.lambda_ * max(self.steps, 1)))
            return np.append(w[:-1], w[-1] * self.bias)


@dataclass(frozen=True)
class Seeds:
    """Seeds of problems, one after another: independent of one another, and the same wherever problems run.

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
        """Those behind it."""
        return Seeds(self.seed, self.given + 1)


def take_steps(
    pool: RowPool, problems: Sequence[Side], walks: Sequence[Walk], schedule: Schedule, engine: Engine
) -> list[Walk]:
    """Make ``n_iter`` steps in each of some binary problems.

    At step t rows are drawn at random, and with eta = 1 / (lambda t) ::

        w <- (1 - eta lambda) w + eta / k sum omega y x      over those of the k rows with y w.x < 1

    which minimises lambda/2 w.w + mean of omega max(0, 1 - y w.x). (The paper has (1 - eta) for the shrink, a slip.)
    Every problem has its own sequence of draws, so that all come out the same on any number of workers.

    >>> from mergesvm.data.batch import Batch
    >>> from mergesvm.engines.threads import Threads
    >>> from mergesvm.features.maps.identity import Identity
    >>> pool = RowPool.of(Batch.of([[-1.0], [1.0]], ["a", "b"]), Identity())
    >>> schedule = Schedule(0.1, 1000, fit_intercept=False)
    >>> start, problem = Walk.begin(pool, schedule, pool.real, seed=7), Side(np.array([-1.0, 1.0]), (0, 1))
    >>> take_steps(pool, [problem], [start], schedule, Threads(1))[0].plane.round(1)
    array([1., 0.])
    """
    if isinstance(engine, Threads):
        ended = _walk_here(pool, problems, walks, schedule, engine)
    else:
        tasks = list(zip(problems, walks, strict=True))
        names = [f"the problem of classes {problem.present}" for problem in problems]
        ended = engine.map(_walk_there, tasks, given=(pool, schedule), names=names)
    if not all(np.isfinite(walk.plane).all() for walk in ended):
        raise DataError(
            "Input X has values too large for steps to add. Rescale the columns, for example to unit variance."
        )
    return ended


def _walk_here(
    pool: RowPool, problems: Sequence[Side], walks: Sequence[Walk], schedule: Schedule, engine: Engine
) -> list[Walk]:
    going = [_Going(pool, problem, walk, schedule) for problem, walk in zip(problems, walks, strict=True)]
    # All have as many steps to make, but not as far to reach: rows of more classes lie further apart.
    order = sorted(range(len(going)), key=lambda index: -going[index].count)
    for last in _stops(pool, schedule):
        engine.map(lambda index, last=last: going[index].go(last), order)
    return [each.walk() for each in going]


def _walk_there(task: tuple[Side, Walk], pool: RowPool, schedule: Schedule) -> Walk:
    going = _Going(pool, *task, schedule)
    for last in _stops(pool, schedule):
        going.go(last)
    return going.walk()


def _stops(pool: RowPool, schedule: Schedule) -> Iterator[int]:
    """The steps up to which one call of the kernel goes after another."""
    products = schedule.batch_size * (pool.length + STEP_PRODUCTS)
    return (last for _, last in spans(schedule.n_iter, max(1, int(CALL_PRODUCTS / products))))


class _Going:
    """A walk on its way, in arrays that the kernel changes: a copy of the walk, which stays as it was."""

    def __init__(self, pool: RowPool, problem: Side, walk: Walk, schedule: Schedule) -> None:
        from mergesvm.methods.pegasos import jit as pegasos_kernels

        self.kernels = pegasos_kernels
        self.start, self.schedule = walk.under(schedule.lambda_), schedule
        self.stop = walk.steps + schedule.n_iter
        self.begin = self.stop - math.ceil(schedule.average * schedule.n_iter)
        self.v = self.start.v.copy()
        self.u = np.zeros_like(self.v)
        self.whole = np.array([walk.steps, walk.drawn, 0], dtype=np.int64)
        self.reals = np.array([self.start.factor, self.start.square, 0.0])
        self.pool, self.parts = pool, pool.parts
        self.problem = problem
        self.span = _span(pool, problem.present)
        self.count = int(self.span[0])
        # By duality lambda w.w <= mean of omega at the solution, which is 1 where rows are not weighted.
        self.radius = math.sqrt(problem.mean(pool) / schedule.lambda_) if schedule.project else 0.0

    def go(self, step: int) -> None:
        """Go on to a step, counted from where the walk began."""
        schedule, real = self.schedule, self.v.dtype.type
        self.kernels.walk(
            self.parts,
            self.pool.order,
            self.pool.codes,
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
            self.whole,
            self.reals,
        )

    def walk(self) -> Walk:
        """The walk so far."""
        steps, drawn, meant = self.whole.tolist()
        factor, square, total = self.reals.tolist()
        with np.errstate(all="ignore"):
            mean = (total * self.v.astype(np.float64) - self.u) / meant if meant else None
        return replace(self.start, v=self.v, steps=steps, drawn=drawn, factor=factor, square=square, mean=mean)


def _span(pool: RowPool, present: tuple[int, ...]) -> NDArray[np.int64]:
    """Where the rows of a problem lie in the order of the pool: in one run if it has all classes, else in two."""
    counts = pool.counts()
    if len(present) == len(counts):
        return np.array([counts.sum(), counts.sum(), 0, 0], dtype=np.int64)
    one, other = present
    first = counts[one]
    return np.array([first + counts[other], first, pool.bounds[one], pool.bounds[other] - first], dtype=np.int64)


def _square(v: NDArray[Any]) -> float:
    wide = v.astype(np.float64)
    return float(wide @ wide)
