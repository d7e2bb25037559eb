"""Leave one piece out: the model of all pieces compared with the models without each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.pieces import Pieces, chunks
from mergesvm.analysis.pieces.remainder_solver import RemainderSolver
from mergesvm.analysis.pieces.score_moments import ScoreMoments, moments_on_knowledge, moments_on_pieces
from mergesvm.engines.threads import Threads
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.equations import CoefficientScaling
from mergesvm.methods.proximal.options import SolveOptions

Numbers = NDArray[np.float64]

MAX_PROBLEMS_FOR_ACCURACY = 64
"""With more binary problems the joint distribution of their scores takes too long: accuracies are NaN."""

SCORES = ("loss_on_piece", "loss_on_others", "accuracy_on_piece", "accuracy_on_others")
NUMBERS = ("change", "offset_change", *(name + model for name in SCORES for model in ("", "_without")))


class LeaveOneOut:
    """Compares the model of all pieces with those without each; held-out rows are about the anchor of the total."""

    def __init__(
        self, pieces: Pieces, options: SolveOptions, held_out: Knowledge | None, by_class: bool, keep_coefs: bool
    ) -> None:
        self.pieces, self.held_out, self.keep_coefs = pieces, held_out, keep_coefs
        total = pieces.total
        self.one_vs_one = options.in_pairs(len(total.labels))
        self.by_class = by_class or self.one_vs_one
        self.solver = RemainderSolver(pieces, options)
        self.problems = self.solver.problems
        solution = options.solution(total, self.problems)
        self.coefs, self.offsets = solution.coefs, solution.offsets
        self.scale = CoefficientScaling.of(total, True).scale
        self.full = 1 < len(self.problems) <= MAX_PROBLEMS_FOR_ACCURACY
        self.scored_on = total if held_out is None else held_out
        self.places = [total.labels.index(label) for label in self.scored_on.labels]
        self.whole = self._on_others(self.coefs[None], self.offsets[None])
        weights = dict(total.signature.class_weights)
        self.fixed_weights = np.array([weights.get(label, 1.0) for label in total.labels])

    def run(self, engine: Threads) -> dict[str, Any]:
        """Leave out each piece in turn; the results have the names of the attributes of Influence."""
        pieces, total = self.pieces, self.pieces.total
        # Classes that have no rows left without the piece, or no weight up to rounding.
        emptied = (pieces.rows == total.rows) | (pieces.counts >= total.counts)
        solvable, unsolvable = (np.flatnonzero(mask).tolist() for mask in (~emptied.any(axis=1), emptied.any(axis=1)))
        parts = chunks(solvable, min(self.solver.chunk, -(-len(solvable) // engine.workers)))
        numbers = np.full((len(NUMBERS), len(pieces)), np.nan)
        sizes = {"coefs_without": self.coefs.shape, "offsets_without": self.offsets.shape} if self.keep_coefs else {}
        kept = {name: np.full((len(pieces), *size), np.nan) for name, size in sizes.items()}
        for at, (some, hyperplanes) in zip(parts, engine.map(self._compare, parts), strict=True):
            numbers[:, at] = some
            for name in kept:
                kept[name][at] = hyperplanes[name]
        if unsolvable:
            self._score_whole_model(unsolvable, numbers)
        notes = self._notes(emptied, pieces.rows.sum(axis=1))
        return {**dict(zip(NUMBERS, numbers, strict=True)), "notes": notes, **kept}

    def _compare(self, at: Sequence[int]) -> tuple[Numbers, dict[str, Numbers]]:
        """All numbers of some pieces, (NUMBERS, pieces), and the hyperplanes without them if they are kept."""
        coefs, offsets = self.solver.solve(at)
        change = np.sqrt((((self.coefs - coefs) * self.scale) ** 2).sum(axis=(1, 2)))
        size = np.sqrt(((self.coefs * self.scale) ** 2).sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            change = np.where(change > 0, change / size, 0.0)
        offset_change = np.sqrt(((self.offsets - offsets) ** 2).mean(axis=1))
        both = np.stack([np.broadcast_to(self.coefs, coefs.shape), coefs], axis=1)
        both_offsets = np.stack([np.broadcast_to(self.offsets, offsets.shape), offsets], axis=1)
        without = self._on_others(coefs, offsets)
        whole = ScoreMoments(*(np.broadcast_to(array, (len(at), *array.shape[1:])) for array in self.whole))
        others = ScoreMoments(*(np.stack(pair, axis=1) for pair in zip(whole, without, strict=True)))
        scores = self._scores(at, both, both_offsets, others)
        numbers = np.array([change, offset_change, *(column for each in scores for column in each.T)])
        return numbers, {"coefs_without": coefs, "offsets_without": offsets} if self.keep_coefs else {}

    def _on_others(self, coefs: Numbers, offsets: Numbers) -> ScoreMoments:
        scores = moments_on_knowledge(self.scored_on, self.places, len(self.pieces.total.labels), coefs, self.full)
        return scores._replace(means=scores.means + offsets[:, None])

    def _scores(self, at: Sequence[int], coefs: Numbers, offsets: Numbers, others: ScoreMoments) -> tuple[Numbers, ...]:
        """SCORES of models of each piece, (pieces, models), from their moments on the scored rows."""
        own = moments_on_pieces(self.pieces, at, coefs, offsets, self.full)
        if self.held_out is None:
            others = others.without(own, self.pieces.total.per_class)
        signs = self.problems.signs
        return own.loss(signs), others.loss(signs), self._accuracies(own), self._accuracies(others)

    def _accuracies(self, scores: ScoreMoments) -> Numbers:
        if len(self.problems) > MAX_PROBLEMS_FOR_ACCURACY:
            return np.full(scores.counts.shape[:-1], np.nan)
        if not self.by_class and self.pieces.total.per_class:
            scores = scores.pooled()
        return scores._replace(counts=scores.counts / self.fixed_weights).accuracies(self.one_vs_one)

    def _score_whole_model(self, at: list[int], numbers: Numbers) -> None:
        """Score only the model of all pieces, for pieces without which a class has no rows."""
        shape = (len(at), 1, *self.coefs.shape)
        coefs, offsets = np.broadcast_to(self.coefs, shape), np.broadcast_to(self.offsets, shape[:3])
        others = ScoreMoments(*(np.broadcast_to(array, (len(at), *array.shape))[:, :1] for array in self.whole))
        for name, value in zip(SCORES, self._scores(at, coefs, offsets, others), strict=True):
            numbers[NUMBERS.index(name), at] = value[:, 0]

    def _notes(self, emptied: NDArray[np.bool_], rows: NDArray[np.int64]) -> tuple[str, ...]:
        notes = ["" if count else "no rows" for count in rows.tolist()]
        for index in np.flatnonzero(emptied.any(axis=1) & (rows > 0)).tolist():
            labels = [repr(self.pieces.total.labels[place]) for place in np.flatnonzero(emptied[index])]
            named = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
            notes[index] = f"all rows of class {named} are in this piece: no model without it"
        return tuple(notes)
