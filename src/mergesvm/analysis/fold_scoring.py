"""What all candidates do on the rows that each of them has not seen: measured, for one more pass over the rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from mergesvm.analysis.grid import Solved
from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.rows.base import Rows, spans
from mergesvm.engines.threads import Threads
from mergesvm.features.mapped import MappedRows
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.multiclass.votes import winners

Numbers = NDArray[np.float64]

BLOCK_VALUES = 1 << 20
"""Scores are found so many at a time, so that they stay in the cache until they are counted."""

LEAST_ROWS = 256
TINY = float(np.finfo(np.float64).eps)


@dataclass
class Tally:
    """What is counted of one fold: all arrays have one row a candidate.

    Attributes
    ----------
    hits : array of shape (candidates, classes)
        The weight of the rows of each class that are predicted rightly.
    totals : array of shape (classes,)
        The weight of all rows of each class.
    log_losses : array of shape (candidates,)
    kept : list
        Of each block the classes, weights and probabilities (candidates, rows, classes), where they are needed as a
        whole.
    """

    hits: Numbers
    totals: Numbers
    log_losses: Numbers
    kept: list[tuple[NDArray[Any], Numbers, Numbers]] = field(default_factory=list)

    @classmethod
    def empty(cls, n_candidates: int, n_classes: int) -> Tally:
        """Nothing counted yet."""
        return cls(np.zeros((n_candidates, n_classes)), np.zeros(n_classes), np.zeros(n_candidates))

    def add(self, other: Tally) -> None:
        """Count what another one has counted."""
        self.hits += other.hits
        self.totals += other.totals
        self.log_losses += other.log_losses
        self.kept += other.kept

    @property
    def accuracy(self) -> Numbers:
        """The share of rows predicted rightly, (candidates,)."""
        return self.hits.sum(axis=1) / self.totals.sum() if self.totals.any() else self.log_losses * np.nan

    @property
    def balanced_accuracy(self) -> Numbers:
        """The mean recall of the classes that occur, (candidates,)."""
        there = self.totals > 0
        recalls = self.hits[:, there] / self.totals[there]
        return recalls.mean(axis=1) if there.any() else self.log_losses * np.nan

    @property
    def log_loss(self) -> Numbers:
        """Mean of -log of the probability given to the true class, (candidates,)."""
        return self.log_losses / self.totals.sum() if self.totals.any() else self.log_losses * np.nan

    @property
    def auc(self) -> Numbers:
        """The area under the ROC curve, (candidates,); of more than two classes the mean of each against the rest."""
        if not self.kept:
            return self.log_losses * np.nan
        codes = np.concatenate([codes for codes, _, _ in self.kept])
        weights = np.concatenate([weights for _, weights, _ in self.kept])
        first = len(self.totals) - self.kept[0][2].shape[2]  # of two classes the second is kept
        areas = np.empty((len(self.hits), self.kept[0][2].shape[2]))
        for candidate, column in np.ndindex(*areas.shape):
            shares = np.concatenate([shares[candidate, :, column] for _, _, shares in self.kept])
            areas[candidate, column] = area(shares, codes == first + column, weights)
        there = ~np.isnan(areas).all(axis=0)  # classes that the fold has, and not alone
        return areas[:, there].mean(axis=1) if there.any() else self.log_losses * np.nan


class FoldScorer:
    """Scores the rows of one fold by the candidates that have not seen them.

    Parameters
    ----------
    solved : list of Solved
        Of the knowledge of all other folds.
    labels : tuple
        All classes, in the order of the codes of rows.
    needs : set of str
        What is to be found beside predictions: "probabilities", and "ranks" for curves.
    """

    def __init__(self, solved: Sequence[Solved], labels: tuple[Label, ...], needs: set[str]) -> None:
        self.labels = labels
        self.n_candidates = sum(len(each.solutions) for each in solved)
        self._solved, self._needs = solved, needs
        # A code of a class that the candidates have not met is none of their places.
        known = [list(solved[0].labels).index(label) if label in solved[0].labels else -1 for label in labels]
        self._places = np.array(known, dtype=np.intp)
        self._knowledge: Knowledge = solved[0].knowledge
        self._models = [list(each.models()) for each in solved] if needs else []
        # Of one-vs-rest, the planes of a class stand side by side, so that classes are compared candidate by candidate.
        self._orders = [self._order(each) for each in solved]
        bundles = [each.bundle() for each in solved]
        ordered = list(zip(bundles, self._orders, strict=True))
        coefs = np.concatenate([bundle.coefs[order] for bundle, order in ordered])
        self._offsets = np.concatenate([bundle.offsets[order] for bundle, order in ordered])
        # Rows have a last column of ones for the offsets, so that scores are one product.
        self._planes = np.vstack([coefs.T, self._offsets])
        self._own = threading.local()

    @staticmethod
    def _order(solved: Solved) -> NDArray[np.intp]:
        count, problems = len(solved.Cs), len(solved.problems)
        table = np.arange(count * problems).reshape(count, problems)
        return (table if solved.in_pairs else table.T).ravel()

    @property
    def block_rows(self) -> int:
        """How many rows to score at a time."""
        return max(LEAST_ROWS, BLOCK_VALUES // max(1, len(self._offsets)))

    def examine(self, block: Any, codes: NDArray[np.intp], weights: Numbers) -> Tally:
        """Count rows, (rows, features), sorted by their codes."""
        tally = Tally.empty(self.n_candidates, len(self.labels))
        tally.totals += np.bincount(codes, weights, minlength=len(self.labels))
        scores = self._scores(block)
        heavy = bool((weights != 1).any())
        first, column = 0, 0
        shares = []
        for number, solved in enumerate(self._solved):
            count, problems = len(solved.Cs), len(solved.problems)
            part = scores[:, column : column + count * problems]
            some = slice(first, first + count)
            if solved.in_pairs:
                right = self._right_in_pairs(part.reshape(len(codes), count, problems), solved, codes)
            else:
                right = self._right(part.reshape(len(codes), problems, count), codes)
            for code, start, stop in _runs(codes):
                there = right[start:stop]
                tally.hits[some, code] += weights[start:stop] @ there if heavy else np.count_nonzero(there, axis=0)
            if self._needs:
                shares.append(self._shares(part, number, solved))
            first, column = first + count, column + count * problems
        if self._needs:
            self._count_shares(tally, np.concatenate(shares), codes, weights)
        return tally

    def _scores(self, block: Any) -> Numbers:
        """Scores of all candidates, (rows, planes), in memory that is used again for the next block."""
        anchor = self._knowledge.anchor
        if sparse.issparse(block):
            stored: Numbers = block @ self._planes[:-1] + (self._offsets - anchor @ self._planes[:-1])
            return stored
        rows, width = block.shape
        if not hasattr(self._own, "rows") or len(self._own.rows) < rows:
            self._own.rows = np.ones((rows, width + 1))
            self._own.scores = np.empty((rows, len(self._offsets)))
        near, scores = self._own.rows[:rows], self._own.scores[:rows]
        np.subtract(block, anchor, out=near[:, :width])
        return np.matmul(near, self._planes, out=scores)  # type: ignore[no-any-return]

    def _right(self, scores: Numbers, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether each candidate is right, (rows, candidates), from scores (rows, problems, candidates)."""
        right = np.zeros((len(codes), scores.shape[2]), dtype=bool)
        for code, start, stop in _runs(codes):
            place, some = int(self._places[code]), scores[start:stop]
            if place < 0:
                continue
            if scores.shape[1] == 1:
                several = len(self._knowledge.labels) == 2
                right[start:stop] = ((some[:, 0] > 0) == (place == 1)) if several else True
                continue
            # The first of the highest wins.
            own, better = some[:, place], np.ones(some[:, place].shape, dtype=bool)
            for other in range(scores.shape[1]):
                if other != place:
                    better &= own > some[:, other] if other < place else own >= some[:, other]
            right[start:stop] = better
        return right

    def _right_in_pairs(self, scores: Numbers, solved: Solved, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        rows, count, problems = scores.shape
        flat = np.ascontiguousarray(scores).reshape(-1, problems)
        chosen = winners(flat, len(solved.labels), solved.setting.ties).reshape(rows, count)
        right: NDArray[np.bool_] = chosen == self._places[codes][:, None]
        return right

    def _shares(self, part: Numbers, number: int, solved: Solved) -> Numbers:
        """Probabilities of all classes, (candidates, rows, classes), 0 for one that the candidates have not met."""
        count, problems = len(solved.Cs), len(solved.problems)
        shape = (len(part), count, problems) if solved.in_pairs else (len(part), problems, count)
        scores = part.reshape(shape) if solved.in_pairs else part.reshape(shape).swapaxes(1, 2)
        known = np.flatnonzero(self._places >= 0)
        shares = np.zeros((count, len(part), len(self.labels)))
        for at, model in enumerate(self._models[number]):
            shares[at][:, known] = model.shares(np.ascontiguousarray(scores[:, at]))[:, self._places[known]]
        return shares

    def _count_shares(self, tally: Tally, shares: Numbers, codes: NDArray[np.intp], weights: Numbers) -> None:
        own = shares[:, np.arange(len(codes)), codes]
        tally.log_losses += -np.log(np.clip(own, TINY, 1 - TINY)) @ weights
        if "ranks" in self._needs:
            tally.kept.append((codes, weights, shares[:, :, 1:].copy() if len(self.labels) == 2 else shares))


def examine(
    examiners: Sequence[FoldScorer | None],
    batches: Iterable[tuple[Batch, NDArray[np.int64]]],
    engine: Threads,
    progress: Callable[[], None] | None = None,
) -> list[Tally | None]:
    """Score all rows, each by the candidates that have not seen it.

    Parameters
    ----------
    examiners : sequence
        One a fold; None for a fold that cannot be examined.
    batches : iterable of (Batch, array of int)
        Rows, and the fold of each; -1 for a row that is never held out.
    """
    present = next(examiner for examiner in examiners if examiner is not None)
    labels, step = present.labels, present.block_rows * max(1, len(examiners) // 2)
    features = present._knowledge.signature
    tallies = [None if each is None else Tally.empty(each.n_candidates, len(labels)) for each in examiners]
    for batch, numbers in batches:
        table = np.array([*(labels.index(label) for label in batch.labels.classes), -1], dtype=np.intp)
        codes = table[batch.labels.codes]
        weights = np.ones(batch.rows.n_rows) if batch.weights is None else batch.weights
        rows: Rows = MappedRows(batch.rows, features.features) if features.mapped else batch.rows

        def run(
            span: tuple[int, int], rows: Rows = rows, codes: Any = codes, weights: Any = weights, numbers: Any = numbers
        ) -> list[tuple[int, Tally]]:
            block = rows.block(*span)
            here, own, heavy = numbers[slice(*span)], codes[slice(*span)], weights[slice(*span)]
            found = []
            for fold, examiner in enumerate(examiners):
                held = np.flatnonzero((here == fold) & (own >= 0))
                if examiner is not None and len(held):
                    held = held[np.argsort(own[held], kind="stable")]
                    with np.errstate(all="ignore"):
                        found.append((fold, examiner.examine(block[held], own[held], heavy[held])))
            return found

        with Threads.single_threaded_blas():  # blocks are small
            counted = engine.map(run, list(spans(rows.n_rows, step)))
        for found in counted:
            for fold, tally in found:
                total = tallies[fold]
                assert total is not None
                total.add(tally)
        if progress is not None:
            progress()
    return tallies


def area(scores: Numbers, positive: NDArray[np.bool_], weights: Numbers) -> float:
    """The area under the ROC curve of weighted rows; ties count half. NaN without both kinds.

    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]), np.ones(4))
    0.75
    """
    if positive.all() or not positive.any():
        return float("nan")
    if (weights == 1).all():
        n_positive = int(positive.sum())
        ranks = float(rankdata(scores)[positive].sum())
        return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * (len(scores) - n_positive))
    _, places = np.unique(scores, return_inverse=True)
    gained = np.bincount(places, weights * positive)
    lost = np.bincount(places, weights * ~positive)
    below = np.cumsum(lost) - lost / 2
    return float(gained @ below / (gained.sum() * lost.sum()))


def _runs(codes: NDArray[np.intp]) -> list[tuple[int, int, int]]:
    """Code, begin and end of each run of sorted codes."""
    edges = np.flatnonzero(np.diff(codes)) + 1
    starts = [0, *edges.tolist()]
    return [(int(codes[a]), a, b) for a, b in zip(starts, [*starts[1:], len(codes)], strict=True)]
