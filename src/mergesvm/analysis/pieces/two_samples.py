"""Two-sample tests of means (Hotelling's T^2) and covariances (Box's M), for many pairs of samples at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc

from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.sums import ROUNDING

Numbers = NDArray[np.float64]

MIN_EIGENVALUE = 1e-10
"""Directions with a smaller variance, relative to the largest and in correlation scale, count as constant."""

NEGLIGIBLE_FRACTION = 1e-9
"""A smaller fraction of the variance of both samples counts as zero."""


class Directions(NamedTuple):
    """The directions in which the rows of a class vary, from the scatter matrix S of all rows about their mean.

    ``whitening`` (width, rank) is T such that T'ST is the identity; ``squares`` the diagonal of S, 0 where it is
    rounding error.
    """

    whitening: Numbers
    squares: Numbers

    @classmethod
    def of(cls, knowledge: Knowledge, index: int) -> Directions:
        """The directions of one class of knowledge, from the eigenvectors of its correlation matrix."""
        gram, total, count = knowledge.grams[index], knowledge.sums[index], float(knowledge.counts[index])
        scatter = gram - np.outer(total, total / count)
        noise = ROUNDING[knowledge.precision] * np.maximum(gram.diagonal(), knowledge.peaks[index])
        varying = scatter.diagonal() > noise
        squares = np.where(varying, scatter.diagonal(), 0.0)
        at = np.flatnonzero(varying)
        root = np.sqrt(squares[at])
        values, vectors = np.linalg.eigh(scatter[np.ix_(at, at)] / root / root[:, None])
        kept = values > MIN_EIGENVALUE * values[-1] if len(values) else np.zeros(0, dtype=bool)
        whitening = np.zeros((len(squares), int(kept.sum())))
        whitening[at] = vectors[:, kept] / np.sqrt(values[kept]) / root[:, None]
        return cls(whitening, squares)


def compare_means(differences: Numbers, first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    """Mahalanobis distance of two means, and the p-value of Hotelling's T^2.

    ``differences`` (pairs, rank) of the means are in directions in which the scatter of all n = n1 + n2 rows is the
    identity. With the leverage h = n1 n2 / n |difference|^2, T^2 = (n - 2) h / (1 - h), and
    h / (1 - h) (n - r - 1) / r has the F distribution with r and n - r - 1 degrees of freedom.
    """
    rank, total = differences.shape[1], first + second
    scale = first * second / total
    leverage = scale * np.einsum("pr,pr->p", differences, differences)
    free = total - rank - 1
    with np.errstate(all="ignore"):
        odds = np.where(1 - leverage > NEGLIGIBLE_FRACTION, leverage / (1 - leverage), np.inf)
        distances = np.sqrt((total - 2) * odds / scale)
        p_values = np.where(np.isinf(odds), 0.0, _f_survival(odds * free / max(rank, 1), max(rank, 1), free))
    enough = (free > 0) & (rank > 0)
    return np.where(enough, distances, np.nan), np.where(enough, p_values, np.nan)


def compare_covariances(
    scatters: Numbers, differences: Numbers, first: Numbers, second: Numbers
) -> tuple[Numbers, Numbers, Numbers, NDArray[np.int64]]:
    """Root of the symmetrised Kullback-Leibler divergence of two covariances, Box's M, its p-value and its rank.

    ``scatters`` (pairs, rank, rank) of the first sample, and ``differences`` of the means, are in the directions of
    :func:`compare_means`. The scatter within both samples is I - n1 n2 / n difference difference'. In coordinates where
    that is the identity, both scatters have the same eigenvectors, with eigenvalues e and 1 - e, from which everything
    follows. Directions in which one sample does not vary are left out.
    """
    scale, total = first * second / (first + second), first + second
    length = np.einsum("pr,pr->p", differences, differences)
    pull = (1 / np.sqrt(1 - scale * length) - 1) / np.where(length > 0, length, 1.0)
    image = (scatters @ differences[:, :, None])[:, :, 0]
    half = pull[:, None] * image + (pull**2 * np.einsum("pr,pr->p", differences, image) / 2)[:, None] * differences
    cross = half[:, :, None] * differences[:, None]
    fractions = np.linalg.eigvalsh(scatters + cross + cross.swapaxes(1, 2))
    kept = (fractions > NEGLIGIBLE_FRACTION) & (fractions < 1 - NEGLIGIBLE_FRACTION)
    fractions = np.where(kept, fractions, 0.5)
    free_first, free_second = (first - 1)[:, None], (second - 1)[:, None]
    of_first = (total - 2)[:, None] * fractions / free_first
    of_second = (total - 2)[:, None] * (1 - fractions) / free_second
    statistics = -np.where(kept, free_first * np.log(of_first) + free_second * np.log(of_second), 0.0).sum(axis=1)
    divergences = np.where(kept, (of_first / of_second + of_second / of_first) / 2 - 1, 0.0).sum(axis=1)
    ranks = kept.sum(axis=1)
    p_values = np.where(ranks > 0, box_p_values(statistics, ranks, first - 1, second - 1), np.nan)
    return np.sqrt(np.maximum(divergences, 0.0)), statistics, p_values, ranks


def box_p_values(statistics: Numbers, ranks: NDArray[np.int64], first: Numbers, second: Numbers) -> Numbers:
    """P-values of Box's M for two covariances of ``first`` and ``second`` degrees of freedom, by his F approximation.

    M = f ln|S| - f1 ln|S1| - f2 ln|S2| (Box, Biometrika 36, 1949). For many rows (1 - c) M has a chi^2 distribution
    with r (r + 1) / 2 degrees of freedom.
    """
    r, total = ranks.astype(np.float64), first + second
    one = (1 / first + 1 / second - 1 / total) * (2 * r * r + 3 * r - 1) / (6 * (r + 1))
    two = (1 / first**2 + 1 / second**2 - 1 / total**2) * (r - 1) * (r + 2) / 6
    free, gap = r * (r + 1) / 2, two - one**2
    with np.errstate(all="ignore"):
        below = (free + 2) / np.abs(gap)
        usual = _f_survival(statistics * (1 - one - free / below) / free, free, below)
        scale = below / (1 - one + 2 / below)
        ratio = below * statistics / (free * (scale - statistics))
        other = np.where(statistics < scale, _f_survival(ratio, free, below), 0.0)
        by_chi2 = chdtrc(free, np.maximum((1 - one) * statistics, 0.0))
        p_values: Numbers = np.where(np.abs(gap) < 1e-12, by_chi2, np.where(gap > 0, usual, other))
    return p_values


def _f_survival(values: Numbers, numerator: Numbers | int, denominator: Numbers) -> Numbers:
    """Survival function of the F distribution: scipy.stats takes long to import."""
    survival: Numbers = fdtrc(numerator, denominator, np.maximum(values, 0.0))
    return survival


def holm(p_values: Numbers) -> Numbers:
    """P-values adjusted for multiple testing by Holm's method; NaN stay NaN and do not count as tests.

    >>> holm(np.array([0.01, 0.04, np.nan, 0.03])).round(10).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    adjusted = np.full(p_values.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted
