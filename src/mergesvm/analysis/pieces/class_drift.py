"""The rows of one class of many pieces, each compared with those of all other pieces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from mergesvm.analysis.pieces.pieces import Pieces, chunks
from mergesvm.analysis.pieces.two_samples import NEGLIGIBLE_FRACTION, Directions, compare_covariances, compare_means

Numbers = NDArray[np.float64]

MIN_ROWS_PER_DIRECTION = 2
"""Covariances are compared if both sides have more rows than this per direction: with fewer, Box's M is unreliable."""

CHUNK_BYTES = 2**25
"""Limit of the memory for scatter matrices that are compared together."""


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
    both = np.flatnonzero((here > 0) & (elsewhere > 0))
    for row in np.flatnonzero((here == 0) | (elsewhere == 0)).tolist():
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
    # chdtrc is the survival function of chi^2: scipy.stats takes long to import.
    p_values = chdtrc(len(every) - 1, statistics) if len(every) > 1 else np.full(count, np.nan)
    return distances, p_values
