"""The rows of one class of many pieces, each compared with those of all others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from mergesvm.analysis.pieces.pieces import Pieces, chunks
from mergesvm.analysis.pieces.two_samples import EMPTY, Directions, compare_means, compare_spreads

Numbers = NDArray[np.float64]

ENOUGH = 2
"""Covariances are compared where each side has this many rows for every direction: with fewer Box's M means nothing."""

CHUNK_BYTES = 2**25
"""Scatter matrices that are compared together take no more memory than this."""


class Compared(NamedTuple):
    """One class of several pieces compared: distance and p-value of means; distance, M and p-value of covariances."""

    numbers: Numbers
    shifts: Numbers
    rank: int
    spread_ranks: NDArray[np.int64]
    reasons: list[str]


def compare_class(pieces: Pieces, at: range, index: int) -> Compared:
    """Compare one class of the first of several pieces, each with all others together."""
    total, counts = pieces.total, pieces.counts[: len(at), index]
    whole, n_rows = float(total.counts[index]), int(total.rows[index])
    basis = Directions.of(total, index)
    rank = basis.whitening.shape[1]
    numbers, shifts = np.full((5, len(at)), np.nan), np.full((len(at), total.width), np.nan)
    spread_ranks, reasons = np.zeros(len(at), dtype=np.int64), [""] * len(at)
    mine, theirs = pieces.rows[: len(at), index], n_rows - pieces.rows[: len(at), index]
    both = np.flatnonzero((mine > 0) & (theirs > 0))
    for row in np.flatnonzero((mine == 0) | (theirs == 0)).tolist():
        reasons[row] = "no rows of this class in the piece" if mine[row] == 0 else "no rows of this class elsewhere"
    if not len(both):
        return Compared(numbers, shifts, rank, spread_ranks, reasons)
    weights = counts[both], whole - counts[both]
    sums = pieces.sums[both, index]
    gaps = sums / weights[0][:, None] - (total.sums[index] - sums) / weights[1][:, None]
    # Weights as numbers of rows: their shares of all rows.
    first, second = (weight * n_rows / whole for weight in weights)
    turned = gaps @ basis.whitening * np.sqrt(whole / n_rows)
    numbers[:2, both] = compare_means(turned, first, second)
    shifts[both] = _shifts(gaps, basis.squares, weights, n_rows / whole / max(n_rows - 2, 1))

    share = first * second / n_rows * np.einsum("pr,pr->p", turned, turned)
    testable = (np.minimum(first, second) > ENOUGH * rank) & (share < 1 - EMPTY) & (rank > 0)
    for row in np.flatnonzero(~testable).tolist():
        reasons[both[row]] = _reason(rank, n_rows, float(min(first[row], second[row])), bool(share[row] >= 1 - EMPTY))
    tested = np.flatnonzero(testable)
    for some in chunks(tested.tolist(), max(1, CHUNK_BYTES // (8 * total.width**2))):
        scatters = np.empty((len(some), rank, rank))
        for row, chosen in enumerate(some):
            scatters[row] = _turned_scatter(pieces, int(both[chosen]), index, basis.whitening)
        compared = compare_spreads(scatters, turned[some], first[some], second[some])
        numbers[2:, both[some]] = compared[:3]
        spread_ranks[both[some]] = compared.ranks
    return Compared(numbers, shifts, rank, spread_ranks, reasons)


def _turned_scatter(pieces: Pieces, index: int, place: int, whitening: Numbers) -> Numbers:
    """The scatter of the rows of one class of a piece about their mean, in the directions of the class."""
    piece = pieces.each[index]
    own = piece.labels.index(pieces.total.labels[place])
    mean = piece.sums[own] @ whitening
    turned: Numbers = whitening.T @ piece.grams[own] @ whitening - np.outer(mean, mean / piece.counts[own])
    return turned


def _shifts(gaps: Numbers, squares: Numbers, weights: tuple[Numbers, Numbers], unit: float) -> Numbers:
    """Differences of means in standard deviations within both sides; infinite where neither varies."""
    share = (weights[0] * weights[1] / (weights[0] + weights[1]))[:, None]
    within = squares - share * gaps**2
    within = np.where(within > EMPTY * squares, within, 0.0) * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts: Numbers = np.where(squares > 0, gaps / np.sqrt(within), 0.0)
    return shifts


def _reason(rank: int, n_rows: int, fewest: float, apart: bool) -> str:
    if rank == 0:
        return "no feature varies within this class"
    if n_rows - rank - 1 <= 0:
        return f"{n_rows} rows are too few to compare means in {rank} directions"
    if apart:
        return "moved in a direction in which neither side varies"
    return f"covariances in {rank} directions need more than {ENOUGH * rank} rows on each side, not {fewest:.0f}"


def compare_shares(pieces: Pieces, at: list[int]) -> tuple[Numbers, Numbers]:
    """Distances of the shares of the classes in pieces from those in the rest, and p-values of the chi^2 test."""
    weights = dict(pieces.total.signature.class_weights)
    fixed = np.array([weights.get(label, 1.0) for label in pieces.total.labels])
    counts = pieces.counts / fixed
    every = counts.sum(axis=0)
    unit = pieces.total.rows.sum() / every.sum()
    own, rest = counts[at] * unit, (every - counts[at]) * unit
    with np.errstate(divide="ignore", invalid="ignore"):
        mine, theirs = own / own.sum(axis=1, keepdims=True), rest / rest.sum(axis=1, keepdims=True)
        distances = np.abs(mine - theirs).sum(axis=1) / 2
        # Both rows of the table of counts deviate from it by as much.
        share = own.sum(axis=1) * rest.sum(axis=1) / (every.sum() * unit)
        statistics = share * ((mine - theirs) ** 2 / (every / every.sum())).sum(axis=1)
    p_values = chi2.sf(statistics, max(len(every) - 1, 1)) if len(every) > 1 else np.full(len(at), np.nan)
    return distances, p_values
