"""How scores are distributed within each class, from the sums alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit, logsumexp

from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

DRAWS = 4096
"""Scores drawn from the normal distributions of the classes to fit the temperature."""

TINY = float(np.finfo(np.float64).tiny)

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
"""Points and weights of the normal distribution."""

RANGE = 7.0
"""Probabilities change with scores e^7 times faster than the scores vary, or slower, at most."""


@dataclass(frozen=True)
class SideMoments:
    """Scores of binary problems, each by itself, taken as normal within each side and of one variance.

    Attributes
    ----------
    means : array of shape (problems, 2)
        Mean score of the negative and of the positive side.
    variances : array of shape (problems,)
        Variance of the score within a side.
    counts : array of shape (problems, 2)
        The counts of the two sides.
    """

    means: NDArray[np.float64]
    variances: NDArray[np.float64]
    counts: NDArray[np.float64]

    def log_odds(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log-odds of the positive side, (rows, problems).

        They are linear in the score: the slope is (m+ - m-) / s^2, and at the midpoint of the means they are
        log(n+ / n-).
        """
        spread = self.means[:, 1] - self.means[:, 0]
        slope = spread / np.maximum(self.variances, 1e-12 * spread**2 + TINY)
        prior = np.log(self.counts[:, 1]) - np.log(self.counts[:, 0])
        with np.errstate(over="ignore"):  # infinite log-odds are probabilities of 0 and 1
            odds: NDArray[np.float64] = slope * (scores - self.means.mean(axis=1)) + prior
        return odds


@dataclass(frozen=True)
class ClassMoments:
    """Scores of all classes together, taken as normal within each class and of one covariance.

    Attributes
    ----------
    means : array of shape (classes, scores)
        Mean scores of the rows of each class.
    covariance : array of shape (scores, scores)
        Covariance of the scores within a class.
    shares : array of shape (classes,)
        The share of each class in the total count.
    """

    means: NDArray[np.float64]
    covariance: NDArray[np.float64]
    shares: NDArray[np.float64]

    @cached_property
    def temperature(self) -> float:
        """The factor t for which softmax(t scores) has the least expected log-loss.

        One factor for all classes keeps their order, so that the most probable class is always the predicted one. The
        expectation is taken over a fixed set of draws.
        """
        with np.errstate(all="ignore"):  # a file may hold what no rows would give
            return self._fit_temperature()

    def _fit_temperature(self) -> float:
        generator = np.random.default_rng(0)
        values, vectors = np.linalg.eigh(self.covariance)
        spread = vectors * np.sqrt(np.maximum(values, 0.0))
        # The same number of draws of every class, weighted by its share, so that rare classes are heard.
        draws = max(16, DRAWS // len(self.shares))
        truth = np.repeat(np.arange(len(self.shares)), draws)
        scores = self.means[truth] + generator.standard_normal((len(truth), len(values))) @ spread.T
        unit = max(float(scores.std()), TINY)
        won = scores[np.arange(len(truth)), truth]

        def loss(log_factor: float) -> float:
            factor = np.exp(log_factor) / unit
            return float((logsumexp(factor * scores, axis=1) - factor * won) @ self.shares[truth])

        return float(np.exp(minimize_scalar(loss, bounds=(-7.0, 7.0), method="bounded").x) / unit)


def side_moments(knowledge: Knowledge, problems: Problems, solution: Solution) -> SideMoments:
    """Mean w.mu_c + b and variance w' Sigma_c w of the scores, for problems with at most one class on either side."""
    means, variances, counts = (np.zeros((len(problems), 2)) for _ in range(3))
    # The pooled form knows the covariance within all classes together, which serves for each.
    pooled = None if knowledge.per_class else class_moments(knowledge, solution).covariance.diagonal()
    for index in range(len(knowledge.labels)):
        # One matrix product a class, for the problems in which it takes part.
        used = np.flatnonzero(problems.signs[:, index])
        at = used, (problems.signs[used, index] > 0).astype(np.intp)
        w = solution.coefs[used]
        centre = w @ (knowledge.sums[index] / knowledge.counts[index])
        means[at] = centre + solution.offsets[used]
        counts[at] = knowledge.frequencies[index]
        if pooled is None:
            square = np.einsum("pd,pd->p", w @ knowledge.grams[index], w) / knowledge.counts[index]
            variances[at] = np.maximum(square - centre**2, 0.0)
        else:
            variances[at] = np.maximum(pooled[used], 0.0)
    within = (counts * variances).sum(axis=1) / counts.sum(axis=1)
    return SideMoments(means, within, counts)


def class_moments(knowledge: Knowledge, solution: Solution) -> ClassMoments:
    """Mean scores W mu_c + b of each class, and their covariance W Sigma W' within the classes."""
    total = solution.coefs @ knowledge.pooled_gram
    centres = (knowledge.sums / knowledge.counts[:, None]) @ solution.coefs.T
    shares = knowledge.counts / knowledge.counts.sum()
    covariance = total @ solution.coefs.T / knowledge.counts.sum() - (centres.T * shares) @ centres
    frequencies = knowledge.frequencies / knowledge.frequencies.sum()
    return ClassMoments(centres + solution.offsets, covariance, frequencies)


def symmetric_moments(found: SideMoments) -> SideMoments:
    """Moments by which log-odds are a times the score, with the a of least expected log-loss, if scores are normal.

    Where the hinge loss is least, a score of zero is where it cannot tell; so that is where both sides are as likely,
    and the more likely side always the predicted one. They are the moments of two sides of as many rows about -m and m.

    >>> moments = symmetric_moments(SideMoments(np.array([[-3.0, 1.0]]), np.array([1.0]), np.array([[10.0, 30.0]])))
    >>> moments.log_odds(np.array([[0.0], [1.0]])).round(2)
    array([[0.  ],
           [2.08]])
    """
    total = np.maximum(found.counts.sum(axis=1), 1.0)
    shares = found.counts / total[:, None]
    deviations = np.sqrt(found.variances)
    # Scores of both sides at the nodes, turned such that they are positive where they are right.
    right = np.array([-1.0, 1.0])[:, None] * (found.means[:, :, None] + deviations[:, None, None] * NODES)
    weights = shares[:, :, None] * (WEIGHTS / WEIGHTS.sum())
    unit = np.maximum(np.sqrt((weights * right**2).sum(axis=(1, 2))), np.finfo(np.float64).tiny)
    low, high = np.full(len(unit), -RANGE), np.full(len(unit), RANGE)
    for _ in range(40):
        middle = (low + high) / 2
        slope = (np.exp(middle) / unit)[:, None, None]
        wanting = (weights * right * expit(-slope * right)).sum(axis=(1, 2)) > 0
        low, high = np.where(wanting, middle, low), np.where(wanting, high, middle)
    half = np.exp(low) / unit * found.variances / 2
    # Without variance any means do that are as far apart as the scores; SideMoments knows what to do with them.
    half = np.where(found.variances > 0, half, np.abs(found.means).mean(axis=1))
    return SideMoments(np.column_stack([-half, half]), found.variances, np.column_stack([total / 2, total / 2]))
