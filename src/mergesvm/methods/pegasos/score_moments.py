"""Means and variances of scores within each class, from one pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError
from mergesvm.methods.row_pool import RowPool
from mergesvm.models.score_moments import SideMoments

MAX_FLOAT32_COEF = 1e18
"""With larger coefficients, scores are computed in float64."""


@dataclass(frozen=True)
class Spread:
    """Total weight, mean and scatter of scores about the mean, per hyperplane or for all pairs of hyperplanes.

    >>> one, other = Spread.of(np.array([[1.0], [3.0]]), False), Spread.of(np.array([[5.0]]), False, np.array([2.0]))
    >>> both = one + other
    >>> both.count, both.mean, both.scatter
    (4.0, array([3.5]), array([11.]))
    """

    count: float
    mean: NDArray[np.float64]
    scatter: NDArray[np.float64]

    @classmethod
    def of(cls, scores: NDArray[np.float64], crossed: bool, weights: NDArray[np.float64] | None = None) -> Spread:
        """The spread of scores (rows, hyperplanes), of rows with these weights."""
        mean = scores.mean(axis=0) if weights is None else np.average(scores, axis=0, weights=weights)
        scores -= mean
        weighted = scores if weights is None else scores * weights[:, None]
        count = float(len(scores) if weights is None else weights.sum())
        return cls(count, mean, scores.T @ weighted if crossed else np.einsum("rp,rp->p", scores, weighted))

    def __add__(self, other: Spread) -> Spread:
        count, apart = self.count + other.count, other.mean - self.mean
        square = np.outer(apart, apart) if self.scatter.ndim == 2 else apart**2
        return Spread(
            count,
            self.mean + apart * (other.count / count),
            self.scatter + other.scatter + square * (self.count * other.count / count),
        )


def side_scores(
    pool: RowPool, coefs: NDArray[np.float64], sides: list[tuple[int, int]], at: list[int], engine: Threads
) -> SideMoments:
    """Means and variances of the scores of pairs; ``sides`` are their classes, and ``at`` those of the pool.

    Every row is scored on the hyperplanes of its class. Moments of classes without rows in the pool are zero.
    """
    parts: dict[int, list[tuple[int, int]]] = {}
    for problem, pair in enumerate(sides):
        for side, c in enumerate(pair):
            parts.setdefault(c, []).append((problem, side))
    takes = [parts.get(c, []) for c in at]
    spreads = _spreads(pool, coefs, [[problem for problem, _ in taken] for taken in takes], False, engine)
    means, scatters, counts = (np.zeros((len(sides), 2)) for _ in range(3))
    for taken, spread in zip(takes, spreads, strict=True):
        for place, (problem, side) in enumerate(taken):
            means[problem, side], scatters[problem, side] = spread.mean[place], spread.scatter[place]
            counts[problem, side] = spread.count
    return SideMoments(means, scatters.sum(axis=1) / np.maximum(counts.sum(axis=1), 1.0), counts)


def class_scores(
    pool: RowPool,
    coefs: NDArray[np.float64],
    at: list[int],
    fresh: list[int],
    known: NDArray[np.float64],
    engine: Threads,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean scores of each class on each hyperplane, and their covariance within classes; one hyperplane per class.

    Classes without rows in the pool keep their ``known`` means on unchanged hyperplanes. On changed ones, ``fresh``,
    they get the mean of the other rows that are not of the class of the hyperplane.
    """
    spreads = _spreads(pool, coefs, [list(range(len(coefs)))] * len(at), True, engine)
    counts = np.array([spread.count for spread in spreads], dtype=np.float64)
    means = known.copy()
    means[at] = [spread.mean for spread in spreads]
    unseen = np.isnan(means)
    unseen[np.ix_([c for c in range(len(coefs)) if c not in at], fresh)] = True
    for row, problem in np.argwhere(unseen):
        others = np.array([c != problem for c in at]) if len(at) > 1 or at[0] != problem else np.array([True])
        means[row, problem] = np.average(means[at, problem][others], weights=counts[others])
    covariance: NDArray[np.float64] = np.sum([spread.scatter for spread in spreads], axis=0) / counts.sum()
    return means, covariance


def _spreads(
    pool: RowPool, coefs: NDArray[np.float64], used: list[list[int]], crossed: bool, engine: Threads
) -> list[Spread]:
    """The spread of the scores of each class of a pool, on the hyperplanes used for it."""
    real = pool.real if np.abs(coefs).max() < MAX_FLOAT32_COEF else np.float64
    taken = [coefs[places].astype(real) for places in used]
    tasks = [(index, *span) for index in range(len(used)) for span in pool.blocks(index)]

    def run(task: tuple[int, int, int]) -> Spread:
        index, start, stop = task
        with np.errstate(all="ignore"):
            weights = None if pool.weights is None else pool.weights[start:stop]
            return Spread.of(pool.scores(start, stop, taken[index]), crossed, weights)

    spreads: dict[int, Spread] = {}
    for (index, *_), spread in zip(tasks, engine.map(run, tasks), strict=True):
        spreads[index] = spreads[index] + spread if index in spreads else spread
    if not all(np.isfinite(spread.scatter).all() for spread in spreads.values()):
        raise DataError("Input X has values too large to be scored. Rescale the columns.")
    return [spreads[index] for index in range(len(used))]
