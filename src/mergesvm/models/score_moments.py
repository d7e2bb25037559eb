"""Means and variances of scores within each class, computed from the sums."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from mergesvm.engines.machine import check_memory
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.models.solution import Solution
from mergesvm.multiclass.decomposition import Problems

TEMPERATURE_SAMPLES = 4096
"""Number of scores sampled from the normal distributions of the classes to fit the temperature."""

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
"""Gauss-Hermite nodes and weights of the normal distribution."""

MAX_LOG_SLOPE = 7.0
"""Bounds of the logarithm of the slope of log-odds, in units of the deviation of the scores."""


@dataclass(frozen=True)
class SideMoments:
    """Scores of separate binary problems, modelled as normal within each side with a common variance.

    Attributes
    ----------
    means : array of shape (problems, 2)
        Mean score of the negative and the positive side.
    variances : array of shape (problems,)
        Variance of the score within a side.
    counts : array of shape (problems, 2)
        Counts of the two sides.
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
        slope = spread / np.maximum(self.variances, 1e-12 * spread**2 + SMALLEST_NORMAL)
        prior = np.log(self.counts[:, 1]) - np.log(self.counts[:, 0])
        with np.errstate(over="ignore"):  # infinite log-odds are probabilities of 0 and 1
            odds: NDArray[np.float64] = slope * (scores - self.means.mean(axis=1)) + prior
        return odds


@dataclass(frozen=True)
class ClassMoments:
    """Joint scores of all classes, modelled as normal within each class with a common covariance.

    Attributes
    ----------
    means : array of shape (classes, scores)
        Mean scores of each class.
    covariance : array of shape (scores, scores)
        Covariance of the scores within a class.
    proportions : array of shape (classes,)
        The fraction of rows in each class.
    """

    means: NDArray[np.float64]
    covariance: NDArray[np.float64]
    proportions: NDArray[np.float64]

    @cached_property
    def temperature(self) -> float:
        """The factor t that minimises the expected log-loss of softmax(t scores).

        One factor for all classes keeps their order, so the most probable class is always the predicted one. The
        expectation is taken over a fixed sample.
        """
        with np.errstate(all="ignore"):  # a file may contain moments that no rows have
            return self._fit_temperature()

    def _fit_temperature(self) -> float:
        from scipy.optimize import minimize_scalar

        generator = np.random.default_rng(0)
        values, vectors = np.linalg.eigh(self.covariance)
        spread = vectors * np.sqrt(np.maximum(values, 0.0))
        # Sample all classes equally and weight by their proportion, so that rare classes are represented.
        samples = max(16, TEMPERATURE_SAMPLES // len(self.proportions))
        n_classes = len(self.proportions)
        check_memory(
            8 * 4 * samples * n_classes**2,
            f"Fitting probabilities of {n_classes:,} classes",
            "Calibrate the model on held-out rows instead: model.calibrated.",
        )
        truth = np.repeat(np.arange(n_classes), samples)
        scores = self.means[truth] + generator.standard_normal((len(truth), len(values))) @ spread.T
        unit = max(float(scores.std()), SMALLEST_NORMAL)
        won = scores[np.arange(len(truth)), truth]

        def loss(log_factor: float) -> float:
            factor = np.exp(log_factor) / unit
            return float((logsumexp(factor * scores, axis=1) - factor * won) @ self.proportions[truth])

        return float(np.exp(minimize_scalar(loss, bounds=(-MAX_LOG_SLOPE, MAX_LOG_SLOPE), method="bounded").x) / unit)


def side_moments(knowledge: Knowledge, problems: Problems, solution: Solution) -> SideMoments:
    """Mean w.mu_c + b and variance w' Sigma_c w of the scores, for problems with at most one class on either side."""
    means, variances, counts = (np.zeros((len(problems), 2)) for _ in range(3))
    # Pooled knowledge has one covariance within all classes, which is used for each of them.
    pooled = None if knowledge.per_class else class_moments(knowledge, solution).covariance.diagonal()
    for index in range(len(knowledge.labels)):
        # One matrix product per class, for the problems that the class is part of.
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
    proportions = knowledge.counts / knowledge.counts.sum()
    covariance = total @ solution.coefs.T / knowledge.counts.sum() - (centres.T * proportions) @ centres
    frequencies = knowledge.frequencies / knowledge.frequencies.sum()
    return ClassMoments(centres + solution.offsets, covariance, frequencies)


def moments_of_sums(sums: NDArray[np.float64]) -> SideMoments:
    """Moments from sums of weights, scores and squared scores of the two sides of each problem, (problems, 2, 3).

    >>> moments_of_sums(np.array([[[2.0, -2.0, 4.0], [1.0, 3.0, 9.0]]]))
    SideMoments(means=array([[-1.,  3.]]), variances=array([0.66666667]), counts=array([[2., 1.]]))
    """
    counts = sums[:, :, 0]
    means = sums[:, :, 1] / counts
    scatters = np.maximum(sums[:, :, 2] - counts * means**2, 0.0)
    return SideMoments(means, scatters.sum(axis=1) / counts.sum(axis=1), counts)


def symmetric_moments(found: SideMoments) -> SideMoments:
    """Moments of two equal sides about -m and m, for scores of the hinge loss.

    Their log-odds are a times the score, with the a that minimises the expected log-loss of normal scores. At a score
    of zero both sides are equally likely, so the more likely side is always the predicted one.

    >>> moments = symmetric_moments(SideMoments(np.array([[-3.0, 1.0]]), np.array([1.0]), np.array([[10.0, 30.0]])))
    >>> moments.log_odds(np.array([[0.0], [1.0]])).round(2)
    array([[0.  ],
           [2.08]])
    """
    total = np.maximum(found.counts.sum(axis=1), 1.0)
    proportions = found.counts / total[:, None]
    deviations = np.sqrt(found.variances)
    # Scores of both sides at the nodes, with signs such that correct scores are positive.
    right = np.array([-1.0, 1.0])[:, None] * (found.means[:, :, None] + deviations[:, None, None] * NODES)
    weights = proportions[:, :, None] * (WEIGHTS / WEIGHTS.sum())
    unit = np.maximum(np.sqrt((weights * right**2).sum(axis=(1, 2))), np.finfo(np.float64).tiny)
    low, high = np.full(len(unit), -MAX_LOG_SLOPE), np.full(len(unit), MAX_LOG_SLOPE)
    for _ in range(40):
        middle = (low + high) / 2
        slope = (np.exp(middle) / unit)[:, None, None]
        too_low = (weights * right * expit(-slope * right)).sum(axis=(1, 2)) > 0
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    half = np.exp(low) / unit * found.variances / 2
    # Without variance any means as far apart as the scores do: SideMoments bounds the slope.
    half = np.where(found.variances > 0, half, np.abs(found.means).mean(axis=1))
    return SideMoments(np.column_stack([-half, half]), found.variances, np.column_stack([total / 2, total / 2]))
