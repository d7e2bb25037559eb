"""Drift between pieces of knowledge: differences of class means, covariances and proportions, from the sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.class_drift import NUMBERS, compare_class, compare_proportions
from mergesvm.analysis.pieces.pieces import Pieces, named_pieces
from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import FormError, ParameterError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.factor import small_blas

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Drift:
    """Differences of pieces from a reference, class by class.

    P-values assume normal rows. Box's M rejects if rows are far from normal, such as 0/1 columns or long tails.
    Hotelling's T^2 is more robust if there are more rows than directions: on real rows split at random it rejects 3 to
    4 of 100 comparisons at the level 0.01 with 15 to 1,500 rows in 20 to 47 directions, but 11 to 15 of 100 with 5 to
    120 rows in 57 to 107. With a million rows every difference is significant, however small.

    So look at the distances: they measure how large a difference is, p-values only whether it may be due to chance.
    Without drift, distances are about sqrt(r (1 / n1 + 1 / n2)) for means in r directions, and
    sqrt(r (r + 1) / 2 (1 / n1 + 1 / n2)) for covariances: compare pieces of similar size with one another.

    Attributes
    ----------
    names, labels : tuples
        The pieces and the classes.
    rows : array of int, shape (pieces, classes)
    distances : array of shape (pieces, classes)
        Mahalanobis distance of the class means, in the covariance within both sides.
    mean_p_values : array of shape (pieces, classes)
        P-values of Hotelling's T^2.
    ranks : array of int, shape (pieces, classes)
        Number of directions in which the rows of the class vary.
    shifts : array of shape (pieces, classes, width)
        Difference of the means of each feature, in standard deviations within both sides.
    covariance_distances : array of shape (pieces, classes)
        Root of the symmetrised Kullback-Leibler divergence of two normals with the class covariances.
    statistics : array of shape (pieces, classes)
        Box's M.
    covariance_p_values : array of shape (pieces, classes)
        P-values of Box's M, by his F approximation.
    covariance_ranks : array of int, shape (pieces, classes)
        Number of directions in which both sides vary.
    proportion_distances : array of shape (pieces,)
        Total variation distance of the class proportions: the fraction of rows that would have to change class.
    proportion_p_values : array of shape (pieces,)
        P-values of the chi^2 test of equal class proportions.
    reasons : tuple of tuples of str, (pieces, classes)
        Why a test is missing, or empty.
    level : float
    feature_names : tuple of str or None
    """

    names: tuple[str, ...]
    labels: tuple[Label, ...]
    rows: NDArray[np.int64]
    distances: Numbers
    mean_p_values: Numbers
    ranks: NDArray[np.int64]
    shifts: Numbers
    covariance_distances: Numbers
    statistics: Numbers
    covariance_p_values: Numbers
    covariance_ranks: NDArray[np.int64]
    proportion_distances: Numbers
    proportion_p_values: Numbers
    reasons: tuple[tuple[str, ...], ...]
    level: float
    feature_names: tuple[str, ...] | None

    @property
    def means_drifted(self) -> Flags:
        """Whether class means differ significantly, after Holm's correction for all tests, (pieces, classes)."""
        return self._significant()[0]

    @property
    def covariances_drifted(self) -> Flags:
        """Whether class covariances differ significantly, after Holm's correction for all tests, (pieces, classes)."""
        return self._significant()[1]

    @property
    def proportions_drifted(self) -> Flags:
        """Whether class proportions differ significantly, after Holm's correction for all tests, (pieces,)."""
        return self._significant()[2]

    @property
    def drifted(self) -> Flags:
        """Whether class means or proportions of a piece differ significantly, (pieces,).

        Covariances do not count, because few real rows are as normal as their test requires.
        """
        means, _, proportions = self._significant()
        found: Flags = means.any(axis=1) | proportions
        return found

    def _significant(self) -> tuple[Flags, Flags, Flags]:
        every = [self.mean_p_values, self.covariance_p_values, self.proportion_p_values]
        significant = holm(np.concatenate([values.ravel() for values in every])) <= self.level
        means, covariances, proportions = np.split(significant, np.cumsum([values.size for values in every])[:-1])
        shape = self.mean_p_values.shape
        return means.reshape(shape), covariances.reshape(shape), proportions

    def feature(self, index: int) -> str:
        """Name of a feature, or its index."""
        return str(index) if self.feature_names is None else self.feature_names[index]

    def table(self) -> list[dict[str, Any]]:
        """One row per piece and class, the largest distance of the means first."""
        means, covariances, proportions = self._significant()
        table = []
        for piece, name in enumerate(self.names):
            for place, label in enumerate(self.labels):
                most = int(np.nan_to_num(np.abs(self.shifts[piece, place]), nan=-1.0).argmax())
                table.append(
                    {
                        "piece": name,
                        "class": label,
                        "rows": int(self.rows[piece, place]),
                        "distance": float(self.distances[piece, place]),
                        "p_value": float(self.mean_p_values[piece, place]),
                        "drifted": bool(means[piece, place]),
                        "feature": self.feature(most),
                        "shift": float(self.shifts[piece, place, most]),
                        "covariance_distance": float(self.covariance_distances[piece, place]),
                        "covariance_p_value": float(self.covariance_p_values[piece, place]),
                        "covariance_drifted": bool(covariances[piece, place]),
                        "proportion_distance": float(self.proportion_distances[piece]),
                        "proportion_p_value": float(self.proportion_p_values[piece]),
                        "proportion_drifted": bool(proportions[piece]),
                        "reason": self.reasons[piece][place],
                    }
                )
        return sorted(table, key=lambda row: -row["distance"] if row["distance"] >= 0 else 1.0)


def drift(
    pieces: Mapping[str, Knowledge] | Sequence[Knowledge],
    reference: Knowledge | None = None,
    *,
    level: float = 0.01,
    n_jobs: int | None = None,
) -> Drift:
    """Drift of each piece from a reference, without data: class means, covariances and proportions.

    For each piece and class: Hotelling's T^2 for the means and Box's M for the covariances; for each piece a chi^2 test
    of the class proportions. All are corrected together for multiple testing by Holm's method. Only directions in which
    the rows of the class vary are compared.

    The sums do not show how unequal sample weights are: the number of rows of a piece is taken as its fraction of the
    total weight times all rows. With weights of 1 that is exact; with very unequal ones p-values are too small.

    Parameters
    ----------
    pieces : mapping of name to Knowledge, or sequence of Knowledge
    reference : Knowledge, optional
        Knowledge of other rows to compare with; by default all other pieces together.
    level : float
        Level of significance.
    n_jobs : int, optional
        Number of threads (default: one per core).

    Examples
    --------
    >>> import mergesvm as ms
    >>> X, y = np.random.default_rng(0).normal(size=(600, 3)), np.tile(["a", "b"], 300)
    >>> X[500:, 1] += 1.0
    >>> found = drift([ms.learn(X[i : i + 100], y[i : i + 100]) for i in range(0, 600, 100)])
    >>> found.drifted.tolist(), found.table()[0]["feature"]
    ([False, False, False, False, False, True], '1')
    """
    if not isinstance(level, (int, float)) or not 0 < level < 1:
        raise ParameterError(f"level must be a number between 0 and 1, not {level!r}.")
    names, each = named_pieces(pieces, 2 if reference is None else 1)
    if reference is not None and not isinstance(reference, Knowledge):
        raise TypeError(f"reference must be knowledge, not {type(reference).__name__}.")
    if not all(piece.per_class for piece in each):
        raise FormError("Drift needs a Gram matrix per class, and pooled knowledge has only one: per_class=True.")
    with small_blas(each[0].width):
        engine = Threads.of_jobs(n_jobs)
        if reference is None:
            return _compare_groups(names, [Pieces.of(each, engine)], len(each), float(level), engine)
        groups = [Pieces.of([piece, reference]) for piece in each]
        return _compare_groups(names, groups, 1, float(level), engine)


def _compare_groups(names: tuple[str, ...], groups: list[Pieces], count: int, level: float, engine: Threads) -> Drift:
    """Compare the first ``count`` pieces of each group (all, or one and the reference) with the others of the group."""
    labels = tuple(sorted({label for pieces in groups for label in pieces.total.labels}))
    shape, signature = (len(names), len(labels)), groups[0].total.signature
    numbers = np.full((len(NUMBERS), *shape), np.nan)
    rows, ranks, covariance_ranks = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    shifts, proportions = np.full((*shape, signature.width), np.nan), np.full((2, len(names)), np.nan)
    reasons = [["no rows of this class"] * len(labels) for _ in names]
    tasks = [(group, index) for group, pieces in enumerate(groups) for index in range(len(pieces.total.labels))]
    found = engine.map(lambda task: compare_class(groups[task[0]], count, task[1]), tasks)
    for (group, index), of_class in zip(tasks, found, strict=True):
        pieces = groups[group]
        place = labels.index(pieces.total.labels[index])
        at = slice(group, group + count), place
        rows[at] = pieces.rows[:count, index]
        numbers[(slice(None), *at)], shifts[at] = of_class.numbers, of_class.shifts
        ranks[at], covariance_ranks[at] = of_class.rank, of_class.covariance_ranks
        for row, reason in enumerate(of_class.reasons):
            reasons[group + row][place] = reason
    for group, pieces in enumerate(groups):
        proportions[:, group : group + count] = compare_proportions(pieces, count)
    return Drift(
        names=names,
        labels=labels,
        rows=rows,
        ranks=ranks,
        shifts=shifts,
        covariance_ranks=covariance_ranks,
        proportion_distances=proportions[0],
        proportion_p_values=proportions[1],
        reasons=tuple(tuple(row) for row in reasons),
        level=level,
        feature_names=None if signature.mapped else signature.names,
        **dict(zip(NUMBERS, numbers, strict=True)),
    )


def holm(p_values: Numbers) -> Numbers:
    """P-values adjusted for multiple testing by Holm's method; NaN stay NaN and do not count as tests."""
    adjusted = np.full(p_values.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p_values[order]), 1.0)
    return adjusted
