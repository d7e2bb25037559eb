"""Measured scores of all candidates on the rows of the folds that they were not learned from, in one pass."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.analysis.cross_validation.grid import SolvedSetting
from mergesvm.analysis.cross_validation.learned_rows import LearnedBatch, LearnedRows
from mergesvm.analysis.curves import ratio
from mergesvm.analysis.normal import EPSILON
from mergesvm.data.labels import Label
from mergesvm.data.rows.base import Rows, spans
from mergesvm.engines.threads import Threads
from mergesvm.features.mapped import MappedRows
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.multiclass.votes import is_second, winners

Numbers = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK_VALUES = 1 << 20
"""Number of scores computed together, so that they stay in the cache until they are counted."""

MIN_BLOCK_ROWS = 256


class FoldTally:
    """Sums over the held-out rows of one fold, and the scores of all candidates that follow from them.

    ``hits`` (candidates, classes) and ``totals`` (classes,) are the weight of the rows predicted correctly, and of all.
    ``kept`` has classes, weights and probabilities (candidates, rows, classes) of each block, if ROC curves need them.
    """

    def __init__(self, n_candidates: int, n_classes: int) -> None:
        self.hits, self.totals = np.zeros((n_candidates, n_classes)), np.zeros(n_classes)
        self.log_losses = np.zeros(n_candidates)
        self.kept: list[tuple[Codes, Numbers, Numbers]] = []

    def add(self, other: FoldTally) -> None:
        """Add the rows of another tally."""
        self.hits += other.hits
        self.totals += other.totals
        self.log_losses += other.log_losses
        self.kept += other.kept

    @property
    def accuracy(self) -> Numbers:
        """Fraction of rows predicted correctly, (candidates,)."""
        return ratio(self.hits.sum(axis=1), self.totals.sum())

    @property
    def balanced_accuracy(self) -> Numbers:
        """Mean recall of the classes that occur, (candidates,)."""
        present = self.totals > 0
        recalls = self.hits[:, present] / self.totals[present]
        return recalls.mean(axis=1) if present.any() else self.log_losses * np.nan

    @property
    def neg_log_loss(self) -> Numbers:
        """Mean log of the probability of the true class, (candidates,)."""
        return -ratio(self.log_losses, self.totals.sum())

    @property
    def roc_auc(self) -> Numbers:
        """Area under the ROC curve, (candidates,); for more than two classes the mean of each against the rest."""
        if not self.kept:
            return self.log_losses * np.nan
        codes = np.concatenate([codes for codes, _, _ in self.kept])
        weights = np.concatenate([weights for _, weights, _ in self.kept])
        first = len(self.totals) - self.kept[0][2].shape[2]  # of two classes only the second is kept
        areas = np.empty((len(self.hits), self.kept[0][2].shape[2]))
        for candidate, column in np.ndindex(*areas.shape):
            scores = np.concatenate([block[candidate, :, column] for _, _, block in self.kept])
            areas[candidate, column] = weighted_auc(scores, codes == first + column, weights)
        defined = ~np.isnan(areas).all(axis=0)  # the fold has rows of the class, and others
        return areas[:, defined].mean(axis=1) if defined.any() else self.log_losses * np.nan


def weighted_auc(scores: Numbers, positive: NDArray[np.bool_], weights: Numbers) -> float:
    """Area under the ROC curve of weighted rows; ties count half. NaN without both positives and negatives."""
    if positive.all() or not positive.any():
        return float("nan")
    _, ranks = np.unique(scores, return_inverse=True)
    positives = np.bincount(ranks, weights * positive)
    negatives = np.bincount(ranks, weights * ~positive)
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below / (positives.sum() * negatives.sum()))


class FoldScorer:
    """Scores the held-out rows of one fold by all candidates, solved from the knowledge of the other folds.

    Codes of rows are places in ``labels``, which are all classes. ``needs`` may have "probabilities", and "ranks" for
    ROC curves.
    """

    def __init__(self, solved: Sequence[SolvedSetting], labels: tuple[Label, ...], needs: set[str]) -> None:
        self.labels = labels
        self.n_candidates = sum(len(each.solutions) for each in solved)
        self.knowledge: Knowledge = solved[0].knowledge
        self._solved, self._needs = solved, needs
        # Classes that the candidates have not seen have place -1.
        known = [list(solved[0].labels).index(label) if label in solved[0].labels else -1 for label in labels]
        self._places = np.array(known, dtype=np.intp)
        self._models = [list(each.models()) for each in solved] if needs else []
        # One-vs-rest, the hyperplanes of a class are adjacent, so that classes are compared for all candidates at once.
        tables = [np.arange(len(each.Cs) * len(each.problems)).reshape(len(each.Cs), -1) for each in solved]
        orders = [(table if each.in_pairs else table.T).ravel() for each, table in zip(solved, tables, strict=True)]
        ordered = list(zip((each.bundle() for each in solved), orders, strict=True))
        coefs = np.concatenate([bundle.coefs[order] for bundle, order in ordered])
        self._offsets = np.concatenate([bundle.offsets[order] for bundle, order in ordered])
        # Rows get a last column of ones for the offsets, so that all scores are one matrix product.
        self._weights = np.vstack([coefs.T, self._offsets])
        self.n_scores = len(self._offsets)
        self._buffers = threading.local()

    def tally(self, block: Any, codes: Codes, weights: Numbers) -> FoldTally:
        """Score and count rows (rows, features) that are sorted by their codes."""
        tally = FoldTally(self.n_candidates, len(self.labels))
        tally.totals += np.bincount(codes, weights, minlength=len(self.labels))
        scores = self._scores(block)
        weighted = bool((weights != 1).any())
        first, column = 0, 0
        probabilities = []
        for number, solved in enumerate(self._solved):
            count, problems = len(solved.Cs), len(solved.problems)
            part = scores[:, column : column + count * problems]
            if solved.in_pairs:
                correct = self._correct_by_votes(part.reshape(len(codes), count, problems), solved, codes)
            else:
                correct = self._correct(part.reshape(len(codes), problems, count), codes)
            for code, start, stop in _runs(codes):
                hits = correct[start:stop]
                counted = weights[start:stop] @ hits if weighted else np.count_nonzero(hits, axis=0)
                tally.hits[first : first + count, code] += counted
            if self._needs:
                probabilities.append(self._probabilities(part, number, solved))
            first, column = first + count, column + count * problems
        if self._needs:
            self._add_probabilities(tally, np.concatenate(probabilities), codes, weights)
        return tally

    def _scores(self, block: Any) -> Numbers:
        """Scores of all candidates, (rows, hyperplanes), in a buffer that is reused for the next block."""
        anchor = self.knowledge.anchor
        if sparse.issparse(block):
            found: Numbers = block @ self._weights[:-1] + (self._offsets - anchor @ self._weights[:-1])
            return found
        rows, width = block.shape
        if not hasattr(self._buffers, "rows") or len(self._buffers.rows) < rows:
            self._buffers.rows = np.ones((rows, width + 1))
            self._buffers.scores = np.empty((rows, len(self._offsets)))
        centred, scores = self._buffers.rows[:rows], self._buffers.scores[:rows]
        np.subtract(block, anchor, out=centred[:, :width])
        return np.matmul(centred, self._weights, out=scores)  # type: ignore[no-any-return]

    def _correct(self, scores: Numbers, codes: Codes) -> NDArray[np.bool_]:
        """Whether each candidate is correct, (rows, candidates), from scores (rows, problems, candidates)."""
        correct = np.zeros((len(codes), scores.shape[2]), dtype=bool)
        for code, start, stop in _runs(codes):
            place, some = int(self._places[code]), scores[start:stop]
            if place < 0:
                continue
            if scores.shape[1] == 1:
                several = len(self.knowledge.labels) == 2
                correct[start:stop] = (is_second(some[:, 0]) == (place == 1)) if several else True
                continue
            # Of equal scores the first class wins.
            own, best = some[:, place], np.ones(some[:, place].shape, dtype=bool)
            for other in range(scores.shape[1]):
                if other != place:
                    best &= own > some[:, other] if other < place else own >= some[:, other]
            correct[start:stop] = best
        return correct

    def _correct_by_votes(self, scores: Numbers, solved: SolvedSetting, codes: Codes) -> NDArray[np.bool_]:
        rows, count, problems = scores.shape
        flat = np.ascontiguousarray(scores).reshape(-1, problems)
        chosen = winners(flat, len(solved.labels), solved.setting.ties).reshape(rows, count)
        correct: NDArray[np.bool_] = chosen == self._places[codes][:, None]
        return correct

    def _probabilities(self, part: Numbers, number: int, solved: SolvedSetting) -> Numbers:
        """Probabilities (candidates, rows, classes); 0 for a class that the candidates have not seen."""
        count, known = len(solved.Cs), np.flatnonzero(self._places >= 0)
        # (candidates, rows, problems)
        candidates = np.moveaxis(part.reshape(len(part), count, -1), 1, 0)
        if not solved.in_pairs:
            candidates = np.moveaxis(part.reshape(len(part), -1, count), 2, 0)
        probabilities = np.zeros((count, len(part), len(self.labels)))
        for scores, model, found in zip(candidates, self._models[number], probabilities, strict=True):
            found[:, known] = model.probabilities(np.ascontiguousarray(scores))[:, self._places[known]]
        return probabilities

    def _add_probabilities(self, tally: FoldTally, probabilities: Numbers, codes: Codes, weights: Numbers) -> None:
        of_true = probabilities[:, np.arange(len(codes)), codes]
        tally.log_losses += -np.log(np.clip(of_true, EPSILON, 1 - EPSILON)) @ weights
        if "ranks" in self._needs:
            kept = probabilities[:, :, 1:].copy() if len(self.labels) == 2 else probabilities
            tally.kept.append((codes, weights, kept))


def score_folds(scorers: Mapping[int, FoldScorer], rows: LearnedRows) -> dict[int, FoldTally]:
    """Score the rows of each fold by the candidates that were learned without it."""
    tallies = {fold: FoldTally(each.n_candidates, len(each.labels)) for fold, each in scorers.items()}
    for batch in rows.batches():
        for fold, tally in _score_batch(scorers, batch, len(rows.folds), rows.engine):
            tallies[fold].add(tally)
    return tallies


def _score_batch(
    scorers: Mapping[int, FoldScorer], batch: LearnedBatch, n_folds: int, engine: Threads
) -> list[tuple[int, FoldTally]]:
    """Folds, and tallies of their rows in each block."""
    _, codes, weights, folds = batch
    first = next(iter(scorers.values()))
    signature = first.knowledge.signature
    rows: Rows = MappedRows(batch.rows, signature.features) if signature.mapped else batch.rows

    def run(span: tuple[int, int]) -> list[tuple[int, FoldTally]]:
        block, found = rows.block(*span), []
        for fold, scorer in scorers.items():
            at = span[0] + np.flatnonzero((folds[slice(*span)] == fold) & (codes[slice(*span)] >= 0))
            if len(at):
                at = at[np.argsort(codes[at], kind="stable")]
                with np.errstate(all="ignore"):
                    found.append((fold, scorer.tally(block[at - span[0]], codes[at], weights[at])))
        return found

    step = max(MIN_BLOCK_ROWS, BLOCK_VALUES // max(1, first.n_scores)) * max(1, n_folds // 2)
    with Threads.single_threaded_blas():  # blocks are small
        return [pair for pairs in engine.map(run, list(spans(rows.n_rows, step))) for pair in pairs]


def _runs(codes: Codes) -> list[tuple[int, int, int]]:
    """Code, start and stop of each run of equal codes."""
    edges = np.flatnonzero(np.diff(codes)) + 1
    starts = [0, *edges.tolist()]
    return [(int(codes[a]), a, b) for a, b in zip(starts, [*starts[1:], len(codes)], strict=True)]
