"""Two samples of one class compared by their means and covariances, for many pairs at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, f

from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.sums import ROUNDING

Numbers = NDArray[np.float64]

FLAT = 1e-10
"""Directions whose variance, in correlation scale, is no larger a share of the largest do not vary."""

EMPTY = 1e-9
"""A share of the variance of both samples together that is as good as none."""


class Directions(NamedTuple):
    """The directions in which the rows of a class vary.

    Attributes
    ----------
    whitening : array of shape (width, rank)
        T, for which T'ST is the identity, S being the scatter of all rows about their mean.
    squares : array of shape (width,)
        The diagonal of S; 0 where rounding has left nothing of it.
    """

    whitening: Numbers
    squares: Numbers

    @classmethod
    def of(cls, knowledge: Knowledge, index: int) -> Directions:
        """Of one class of knowledge, features being measured in standard deviations first."""
        gram, total, count = knowledge.grams[index], knowledge.sums[index], float(knowledge.counts[index])
        scatter = gram - np.outer(total, total / count)
        noise = ROUNDING[knowledge.precision] * np.maximum(gram.diagonal(), knowledge.peaks[index])
        varying = scatter.diagonal() > noise
        squares = np.where(varying, scatter.diagonal(), 0.0)
        at = np.flatnonzero(varying)
        root = np.sqrt(squares[at])
        values, vectors = np.linalg.eigh(scatter[np.ix_(at, at)] / root / root[:, None])
        kept = values > FLAT * values[-1] if len(values) else np.zeros(0, dtype=bool)
        whitening = np.zeros((len(squares), int(kept.sum())))
        whitening[at] = vectors[:, kept] / np.sqrt(values[kept]) / root[:, None]
        return cls(whitening, squares)


class Means(NamedTuple):
    """Means compared; arrays of one entry a pair."""

    distances: Numbers
    p_values: Numbers


def compare_means(turned: Numbers, first: Numbers, second: Numbers) -> Means:
    """Mahalanobis distance of two means, and the p-value of Hotelling's T^2.

    ``turned`` (pairs, rank) are the differences of the means in directions in which the scatter of all n = n1 + n2 rows
    is the identity. Then the leverage h = n1 n2 / n |turned|^2 tells all: T^2 = (n - 2) h / (1 - h), and
    h / (1 - h) (n - r - 1) / r has the F distribution with r and n - r - 1 degrees of freedom.
    """
    rank, total = turned.shape[1], first + second
    share = first * second / total
    leverage = share * np.einsum("pr,pr->p", turned, turned)
    free = total - rank - 1
    with np.errstate(all="ignore"):
        odds = np.where(1 - leverage > EMPTY, leverage / (1 - leverage), np.inf)
        distances = np.sqrt((total - 2) * odds / share)
        p_values = np.where(np.isinf(odds), 0.0, f.sf(odds * free / max(rank, 1), max(rank, 1), free))
    enough = (free > 0) & (rank > 0)
    return Means(np.where(enough, distances, np.nan), np.where(enough, p_values, np.nan))


class Spreads(NamedTuple):
    """Covariances compared; arrays of one entry a pair."""

    distances: Numbers
    statistics: Numbers
    p_values: Numbers
    ranks: NDArray[np.int64]


def compare_spreads(scatters: Numbers, turned: Numbers, first: Numbers, second: Numbers) -> Spreads:
    """The root of the symmetrised Kullback-Leibler divergence of two covariances, Box's M, and its p-value.

    ``scatters`` (pairs, rank, rank) are those of the first sample, ``turned`` the differences of the means, in the
    directions of :func:`compare_means`. About both means the scatter of all is I - n1 n2 / n turned turned', and where
    that is the identity, the two have the same eigenvectors: the shares e and 1 - e of the two samples in all say all.
    Directions in which one sample does not vary are left out.
    """
    share, total = first * second / (first + second), first + second
    length = np.einsum("pr,pr->p", turned, turned)
    pull = (1 / np.sqrt(1 - share * length) - 1) / np.where(length > 0, length, 1.0)
    image = (scatters @ turned[:, :, None])[:, :, 0]
    half = pull[:, None] * image + (pull**2 * np.einsum("pr,pr->p", turned, image) / 2)[:, None] * turned
    cross = half[:, :, None] * turned[:, None]
    shares = np.linalg.eigvalsh(scatters + cross + cross.swapaxes(1, 2))
    kept = (shares > EMPTY) & (shares < 1 - EMPTY)
    shares = np.where(kept, shares, 0.5)
    ones, others = (first - 1)[:, None], (second - 1)[:, None]
    mine, theirs = (total - 2)[:, None] * shares / ones, (total - 2)[:, None] * (1 - shares) / others
    statistics = -np.where(kept, ones * np.log(mine) + others * np.log(theirs), 0.0).sum(axis=1)
    divergences = np.where(kept, (mine / theirs + theirs / mine) / 2 - 1, 0.0).sum(axis=1)
    ranks = kept.sum(axis=1)
    p_values = np.where(ranks > 0, box_p_values(statistics, ranks, first - 1, second - 1), np.nan)
    return Spreads(np.sqrt(np.maximum(divergences, 0.0)), statistics, p_values, ranks)


def box_p_values(statistics: Numbers, ranks: NDArray[np.int64], first: Numbers, second: Numbers) -> Numbers:
    """P-values of Box's M for two covariances of ``first`` and ``second`` degrees of freedom, by his F approximation.

    M = f ln|S| - f1 ln|S1| - f2 ln|S2| (Box, Biometrika 36, 1949). With many rows it is that of chi^2 with
    r (r + 1) / 2 degrees of freedom for (1 - c) M.
    """
    r, total = ranks.astype(np.float64), first + second
    one = (1 / first + 1 / second - 1 / total) * (2 * r * r + 3 * r - 1) / (6 * (r + 1))
    two = (1 / first**2 + 1 / second**2 - 1 / total**2) * (r - 1) * (r + 2) / 6
    free, gap = r * (r + 1) / 2, two - one**2
    with np.errstate(all="ignore"):
        below = (free + 2) / np.abs(gap)
        usual = f.sf(statistics * (1 - one - free / below) / free, free, below)
        scale = below / (1 - one + 2 / below)
        other = np.where(statistics < scale, f.sf(below * statistics / (free * (scale - statistics)), free, below), 0.0)
        simple = chi2.sf((1 - one) * statistics, free)
        p_values: Numbers = np.where(np.abs(gap) < 1e-12, simple, np.where(gap > 0, usual, other))
    return p_values


def holm(p_values: Numbers) -> Numbers:
    """P-values corrected for their number by Holm's method; NaN are no tests, and stay.

    >>> holm(np.array([0.01, 0.04, np.nan, 0.03])).round(10).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    adjusted = np.full(p_values.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted
