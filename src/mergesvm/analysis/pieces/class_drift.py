"""One class of many pieces compared with all others: Hotelling's T^2 for the means, Box's M for the covariances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, fdtrc

from mergesvm.analysis.pieces.pieces import Pieces, chunks
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.sums import ROUNDING

Numbers = NDArray[np.float64]

MIN_ROWS_PER_DIRECTION = 2
"""Covariances are compared if both sides have more rows than this per direction: with fewer, Box's M is unreliable."""

CHUNK_BYTES = 2**25
"""Limit of the memory for scatter matrices that are compared together."""

MIN_EIGENVALUE = 1e-10
"""Directions with a smaller variance, relative to the largest and in correlation scale, count as constant."""

NEGLIGIBLE_FRACTION = 1e-9
"""A smaller fraction of the variance of both samples counts as zero."""

NUMBERS = ("distances", "mean_p_values", "covariance_distances", "statistics", "covariance_p_values")


class ClassComparison(NamedTuple):
    """One class of several pieces compared; ``numbers`` are (NUMBERS, pieces)."""

    numbers: Numbers
    shifts: Numbers
    rank: int
    covariance_ranks: NDArray[np.int64]
    reasons: list[str]


def compare_class(pieces: Pieces, count: int, index: int) -> ClassComparison:
    """Compare one class of each of the first ``count`` pieces with all other pieces together."""
    total, counts = pieces.total, pieces.counts[:count, index]
    weight, n_rows = float(total.counts[index]), int(total.rows[index])
    directions = Directions.of(total, index)
    rank = directions.whitening.shape[1]
    numbers, shifts = np.full((len(NUMBERS), count), np.nan), np.full((count, total.width), np.nan)
    covariance_ranks, reasons = np.zeros(count, dtype=np.int64), [""] * count
    here, elsewhere = pieces.rows[:count, index], n_rows - pieces.rows[:count, index]
    comparable = (here > 0) & (elsewhere > 0) & (weight - counts > 0)  # a difference of weights may round to zero
    both = np.flatnonzero(comparable)
    for row in np.flatnonzero(~comparable).tolist():
        reasons[row] = "no rows of this class in the piece" if here[row] == 0 else "no rows of this class elsewhere"
    if not len(both):
        return ClassComparison(numbers, shifts, rank, covariance_ranks, reasons)
    weights = counts[both], weight - counts[both]
    sums = pieces.sums[both, index]
    gaps = sums / weights[0][:, None] - (total.sums[index] - sums) / weights[1][:, None]
    # Weights as numbers of rows: their fractions of all rows.
    first, second = (each * n_rows / weight for each in weights)
    whitened = gaps @ directions.whitening * np.sqrt(weight / n_rows)
    numbers[:2, both] = compare_means(whitened, first, second)
    shifts[both] = _shifts(gaps, directions.squares, weights, n_rows / weight / max(n_rows - 2, 1))

    leverage = first * second / n_rows * np.einsum("pr,pr->p", whitened, whitened)
    separate = leverage >= 1 - NEGLIGIBLE_FRACTION
    testable = (np.minimum(first, second) > MIN_ROWS_PER_DIRECTION * rank) & ~separate & (rank > 0)
    for row in np.flatnonzero(~testable).tolist():
        reasons[both[row]] = _reason(rank, n_rows, float(min(first[row], second[row])), bool(separate[row]))
    for some in chunks(np.flatnonzero(testable).tolist(), max(1, CHUNK_BYTES // (8 * total.width**2))):
        scatters = np.empty((len(some), rank, rank))
        for row, chosen in enumerate(some):
            scatters[row] = _whitened_scatter(pieces, int(both[chosen]), index, directions.whitening)
        *tests, ranks = compare_covariances(scatters, whitened[some], first[some], second[some])
        numbers[2:, both[some]], covariance_ranks[both[some]] = tests, ranks
    return ClassComparison(numbers, shifts, rank, covariance_ranks, reasons)


def _whitened_scatter(pieces: Pieces, index: int, place: int, whitening: Numbers) -> Numbers:
    """Scatter matrix of the rows of one class of a piece about their mean, in the directions of the class."""
    piece = pieces.each[index]
    own = piece.labels.index(pieces.total.labels[place])
    mean = piece.sums[own] @ whitening
    scatter: Numbers = whitening.T @ piece.grams[own] @ whitening - np.outer(mean, mean / piece.counts[own])
    return scatter


def _shifts(gaps: Numbers, squares: Numbers, weights: tuple[Numbers, Numbers], unit: float) -> Numbers:
    """Differences of means in standard deviations within both sides; infinite where neither side varies."""
    scale = (weights[0] * weights[1] / (weights[0] + weights[1]))[:, None]
    within = squares - scale * gaps**2
    within = np.where(within > NEGLIGIBLE_FRACTION * squares, within, 0.0) * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts: Numbers = np.where(squares > 0, gaps / np.sqrt(within), 0.0)
    return shifts


def _reason(rank: int, n_rows: int, smaller: float, separate: bool) -> str:
    if rank == 0:
        return "no feature varies within this class"
    if n_rows - rank - 1 <= 0:
        return f"{n_rows} rows are too few to compare means in {rank} directions"
    if separate:
        return "moved in a direction in which neither side varies"
    needed = MIN_ROWS_PER_DIRECTION * rank
    return f"covariances in {rank} directions need more than {needed} rows on each side, not {smaller:.0f}"


def compare_proportions(pieces: Pieces, count: int) -> tuple[Numbers, Numbers]:
    """Total variation distance of the class proportions of the first pieces from the others, and p-values of chi^2."""
    weights = dict(pieces.total.signature.class_weights)
    fixed = np.array([weights.get(label, 1.0) for label in pieces.total.labels])
    counts = pieces.counts / fixed
    every = counts.sum(axis=0)
    unit = pieces.total.rows.sum() / every.sum()
    own, rest = counts[:count] * unit, (every - counts[:count]) * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        of_own, of_rest = own / own.sum(axis=1, keepdims=True), rest / rest.sum(axis=1, keepdims=True)
        distances = np.abs(of_own - of_rest).sum(axis=1) / 2
        # Both rows of the contingency table deviate from the expected counts by the same amount.
        scale = own.sum(axis=1) * rest.sum(axis=1) / (every.sum() * unit)
        statistics = scale * ((of_own - of_rest) ** 2 / (every / every.sum())).sum(axis=1)
    # The survival functions chdtrc of chi^2 and fdtrc of F, because scipy.stats takes long to import.
    p_values = chdtrc(len(every) - 1, statistics) if len(every) > 1 else np.full(count, np.nan)
    return distances, p_values


class Directions(NamedTuple):
    """The directions T (width, rank) in which the rows of a class vary, T'ST = I, and the diagonal of their scatter S.

    It is 0 where it is rounding error.
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
    """Survival function of the F distribution."""
    survival: Numbers = fdtrc(numerator, denominator, np.maximum(values, 0.0))
    return survival
