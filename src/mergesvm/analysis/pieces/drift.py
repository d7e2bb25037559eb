"""Whether pieces of knowledge differ: their class means, covariances and shares, from the sums alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.class_drift import Compared, compare_class, compare_shares
from mergesvm.analysis.pieces.pieces import Pieces, named_pieces
from mergesvm.analysis.pieces.two_samples import holm
from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import FormError, ParameterError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.factor import small_blas

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Drift:
    """How pieces differ from a reference, class by class.

    P-values are those of normal rows. Rows that are far from normal, such as 0/1 columns or long tails, make Box's M
    reject. Hotelling's T^2 minds less, if there are more rows than directions: of real rows dealt at random it calls 3
    to 4 of 100 comparisons different at the level 0.01 with 15 to 1,500 rows in 20 to 47 directions, but 11 to 15 of
    100 with 5 to 120 rows in 57 to 107. And with a million rows every difference is significant, however small.

    So look at the distances: they say how large a difference is, and p-values only whether chance could have made it.
    By chance alone distances are not zero, but about the root of r (1 / n1 + 1 / n2) for means in r directions, and
    that of r (r + 1) / 2 (1 / n1 + 1 / n2) for covariances: compare pieces of one size with one another.

    Attributes
    ----------
    names : tuple of str
        The pieces.
    labels : tuple
        The classes.
    rows : array of int, shape (pieces, classes)
    distances : array of shape (pieces, classes)
        Mahalanobis distance of the class means, in the covariance within both sides.
    mean_p_values : array of shape (pieces, classes)
        Of Hotelling's T^2.
    ranks : array of int, shape (pieces, classes)
        In how many directions the rows of the class vary.
    shifts : array of shape (pieces, classes, width)
        The difference of the means of each feature, in standard deviations within both sides.
    spreads : array of shape (pieces, classes)
        Distance of the class covariances: the root of the symmetrised Kullback-Leibler divergence of two normals.
    statistics : array of shape (pieces, classes)
        Box's M.
    spread_p_values : array of shape (pieces, classes)
        Of Box's M, by his F approximation.
    spread_ranks : array of int, shape (pieces, classes)
        In how many directions both sides vary.
    share_distances : array of shape (pieces,)
        The share of the rows that would have to change their class for equal shares of the classes.
    share_p_values : array of shape (pieces,)
        Of the chi^2 test of equal shares.
    reasons : tuple of tuples of str, (pieces, classes)
        Why a test is missing, or what else is to be said.
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
    spreads: Numbers
    statistics: Numbers
    spread_p_values: Numbers
    spread_ranks: NDArray[np.int64]
    share_distances: Numbers
    share_p_values: Numbers
    reasons: tuple[tuple[str, ...], ...]
    level: float
    feature_names: tuple[str, ...] | None

    @property
    def means_drifted(self) -> NDArray[np.bool_]:
        """Whether class means differ at the level, corrected for all tests by Holm's method, (pieces, classes)."""
        return self._significant()[0]

    @property
    def spreads_drifted(self) -> NDArray[np.bool_]:
        """Whether class covariances differ at the level, corrected for all tests, (pieces, classes)."""
        return self._significant()[1]

    @property
    def shares_drifted(self) -> NDArray[np.bool_]:
        """Whether the shares of the classes differ at the level, corrected for all tests, (pieces,)."""
        return self._significant()[2]

    @property
    def drifted(self) -> NDArray[np.bool_]:
        """Whether class means or shares of a piece differ at the level, corrected for all tests, (pieces,).

        Covariances are left out of this, because few real rows are as normal as their test wants them.
        """
        means, _, shares = self._significant()
        found: NDArray[np.bool_] = means.any(axis=1) | shares
        return found

    def _significant(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        every = [self.mean_p_values, self.spread_p_values, self.share_p_values]
        adjusted = holm(np.concatenate([values.ravel() for values in every])) <= self.level
        bounds = np.cumsum([values.size for values in every])[:-1]
        means, spreads, shares = np.split(adjusted, bounds)
        shape = self.mean_p_values.shape
        return means.reshape(shape), spreads.reshape(shape), shares

    def feature(self, index: int) -> str:
        """The name of a feature, or its place."""
        return str(index) if self.feature_names is None else self.feature_names[index]

    def table(self) -> list[dict[str, Any]]:
        """One row for each piece and class, the largest distance of means first."""
        means, spreads, shares = self._significant()
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
                        "spread": float(self.spreads[piece, place]),
                        "spread_p_value": float(self.spread_p_values[piece, place]),
                        "spread_drifted": bool(spreads[piece, place]),
                        "share_distance": float(self.share_distances[piece]),
                        "share_p_value": float(self.share_p_values[piece]),
                        "share_drifted": bool(shares[piece]),
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
    """How the rows of each piece differ from a reference, with no data: where they lie, how they spread, how many.

    For each piece and class: Hotelling's T^2 for the means, Box's M for the covariances; for each piece a chi^2 test of
    the shares of the classes. All are corrected together for their number by Holm's method. Only directions in which
    the rows of the class vary are compared.

    The sums do not tell how unequal sample weights are. A piece counts as so many of all rows as its share of all
    weight: with weights of 1 that is the number of its rows, and with very unequal ones p-values are too small.

    Parameters
    ----------
    pieces : mapping of name to Knowledge, or sequence of Knowledge
    reference : Knowledge, optional
        What to compare with, of other rows; by default all other pieces together.
    level : float
        At which differences are called significant.
    n_jobs : int, optional
        Number of threads; one a core by default.

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
        raise ParameterError(f"level has to be between 0 and 1, not {level!r}.")
    names, each = named_pieces(pieces, 2 if reference is None else 1)
    if reference is not None and not isinstance(reference, Knowledge):
        raise TypeError(f"The reference has to be knowledge, not {type(reference).__name__}.")
    if not all(piece.per_class for piece in each):
        raise FormError("Drift needs the Gram matrix of every class, and the pooled form has one. Learn per class.")
    with small_blas(each[0].width):
        engine = Threads(n_jobs)
        if reference is None:
            parts = [(Pieces.from_named(names, each, engine), range(len(each)))]
        else:
            parts = [(Pieces.of([piece, reference]), range(1)) for piece in each]
        labels = tuple(sorted({label for stack, _ in parts for label in stack.total.labels}))
        return _collect(names, labels, parts, float(level), engine)


def _collect(
    names: tuple[str, ...],
    labels: tuple[Label, ...],
    parts: list[tuple[Pieces, range]],
    level: float,
    engine: Threads,
) -> Drift:
    """Compare all pieces in all classes, and put the answers together."""
    total = parts[0][0].total
    shape, width = (len(names), len(labels)), total.width
    numbers = np.full((5, *shape), np.nan)
    rows, ranks, spread_ranks = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    shifts, shares = np.full((*shape, width), np.nan), np.full((2, len(names)), np.nan)
    reasons = [["no rows of this class"] * len(labels) for _ in names]
    tasks: list[tuple[int, int, int]] = []
    start = 0
    for part, (stack, at) in enumerate(parts):
        shares[:, start : start + len(at)] = compare_shares(stack, list(at))
        places = [labels.index(label) for label in stack.total.labels]
        rows[start : start + len(at), places] = stack.rows[: len(at)]
        tasks += [(part, start, index) for index in range(len(stack.total.labels))]
        start += len(at)

    def run(task: tuple[int, int, int]) -> Compared:
        part, _, index = task
        return compare_class(*parts[part], index)

    for (part, start, index), found in zip(tasks, engine.map(run, tasks), strict=True):
        place = labels.index(parts[part][0].total.labels[index])
        where = slice(start, start + len(parts[part][1])), place
        numbers[(slice(None), *where)], shifts[where] = found.numbers, found.shifts
        ranks[where], spread_ranks[where] = found.rank, found.spread_ranks
        for row, reason in enumerate(found.reasons):
            reasons[start + row][place] = reason
    distances, mean_p_values, spreads, statistics, spread_p_values = numbers
    return Drift(
        names=names,
        labels=labels,
        rows=rows,
        distances=distances,
        mean_p_values=mean_p_values,
        ranks=ranks,
        shifts=shifts,
        spreads=spreads,
        statistics=statistics,
        spread_p_values=spread_p_values,
        spread_ranks=spread_ranks,
        share_distances=shares[0],
        share_p_values=shares[1],
        reasons=tuple(tuple(row) for row in reasons),
        level=level,
        feature_names=total.signature.names if not total.signature.mapped else None,
    )
