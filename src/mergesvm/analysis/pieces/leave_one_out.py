"""The model of many pieces beside those without one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.accuracy import accuracies
from mergesvm.analysis.pieces.leave_out import HyperplanesWithout
from mergesvm.analysis.pieces.pieces import Pieces, chunks
from mergesvm.analysis.pieces.remaining import RemainderOptions
from mergesvm.analysis.pieces.scores import Scores, scores_on_pieces, scores_on_whole
from mergesvm.engines.threads import Threads
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.methods.proximal.closed_form import solve_problems
from mergesvm.methods.proximal.equations import CoefficientScaling

Numbers = NDArray[np.float64]

MOST_PLANES = 64
"""With more planes than this the joint distribution of their scores takes too long: no accuracies are estimated."""

JUDGED = ("loss_on_piece", "loss_on_others", "accuracy_on_piece", "accuracy_on_others")
NUMBERS = ("change", "offset_change", *(name + model for name in JUDGED for model in ("", "_without")))


class Judgement(NamedTuple):
    """Arrays by name, one entry a piece; notes; and the planes without each piece, if they were to be kept."""

    numbers: dict[str, Numbers]
    notes: tuple[str, ...]
    coefs: Numbers | None
    offsets: Numbers | None


class LeaveOneOut:
    """Compares the model of all pieces with those without one of them."""

    def __init__(
        self, pieces: Pieces, terms: RemainderOptions, held_out: Knowledge | None, by_class: bool, keep_coefs: bool
    ) -> None:
        self.pieces, self.terms, self.held_out, self.keep_coefs = pieces, terms, held_out, keep_coefs
        self.by_class = by_class or terms.in_pairs
        total = pieces.total
        self.leaving = HyperplanesWithout(pieces, terms)
        self.problems = self.leaving.problems
        solution = solve_problems(
            total,
            self.problems,
            terms.C,
            standardize=terms.standardize,
            penalize_intercept=terms.penalize_intercept,
        )
        self.coefs, self.offsets = solution.coefs, solution.offsets
        self.scale = CoefficientScaling.of(total, True).scale
        self.full = 1 < len(self.problems) <= MOST_PLANES
        self.judged = total if held_out is None else held_out
        self.places = [total.labels.index(label) for label in self.judged.labels]
        self.whole = self._on_judged(self.coefs[None], self.offsets[None])
        weights = dict(total.signature.class_weights)
        self.fixed = np.array([weights.get(label, 1.0) for label in total.labels])

    def judge(self, engine: Threads) -> Judgement:
        """Leave out each piece, and say what that does."""
        pieces, total = self.pieces, self.pieces.total
        gone = pieces.rows == total.rows  # all rows of a class
        alive, dead = np.flatnonzero(~gone.any(axis=1)).tolist(), np.flatnonzero(gone.any(axis=1)).tolist()
        parts = chunks(alive, min(self.leaving.chunk, -(-len(alive) // engine.workers)))
        numbers = np.full((len(NUMBERS), len(pieces)), np.nan)
        coefs = np.full((len(pieces), *self.coefs.shape), np.nan) if self.keep_coefs else None
        offsets = np.full((len(pieces), len(self.problems)), np.nan) if self.keep_coefs else None
        for at, (some, some_coefs, some_offsets) in zip(parts, engine.map(self._chunk, parts), strict=True):
            numbers[:, at] = some
            if coefs is not None and offsets is not None:
                coefs[at], offsets[at] = some_coefs, some_offsets
        if dead:
            self._alone(dead, numbers)
        named = dict(zip(NUMBERS, numbers, strict=True))
        return Judgement(named, self._notes(gone, pieces.rows.sum(axis=1)), coefs, offsets)

    def _chunk(self, at: Sequence[int]) -> tuple[Numbers, Numbers | None, Numbers | None]:
        pieces, signs = self.pieces, self.problems.signs
        coefs, offsets = self.leaving.planes(at)
        change = np.sqrt((((self.coefs - coefs) * self.scale) ** 2).sum(axis=(1, 2)))
        size = np.sqrt(((self.coefs * self.scale) ** 2).sum())
        with np.errstate(invalid="ignore", divide="ignore"):
            change = np.where(change > 0, change / size, 0.0)
        offset_change = np.sqrt(((self.offsets - offsets) ** 2).mean(axis=1))
        both = np.stack([np.broadcast_to(self.coefs, coefs.shape), coefs], axis=1)
        both_offsets = np.stack([np.broadcast_to(self.offsets, offsets.shape), offsets], axis=1)
        own = scores_on_pieces(pieces, at, both, both_offsets, self.full)
        whole = self._on_judged(coefs, offsets)
        before = Scores(*(np.broadcast_to(array, (len(at), *array.shape[1:])) for array in self.whole))
        others = Scores(*(np.stack(pair, axis=1) for pair in zip(before, whole, strict=True)))
        if self.held_out is None:
            others = others.without(own, pieces.total.per_class)
        numbers = np.array(
            [
                change,
                offset_change,
                *own.loss(signs).T,
                *others.loss(signs).T,
                *self._accuracies(own).T,
                *self._accuracies(others).T,
            ]
        )
        return numbers, *((coefs, offsets) if self.keep_coefs else (None, None))

    def _on_judged(self, coefs: Numbers, offsets: Numbers) -> Scores:
        scores = scores_on_whole(self.judged, self.places, len(self.pieces.total.labels), coefs, self.full)
        return scores._replace(means=scores.means + offsets[:, None])

    def _accuracies(self, scores: Scores) -> Numbers:
        if len(self.problems) > MOST_PLANES:
            return np.full(scores.counts.shape[:-1], np.nan)
        if not self.by_class and self.pieces.total.per_class:
            scores = scores.pooled()
        scores = scores._replace(counts=scores.counts / self.fixed)
        return accuracies(scores, self.terms.in_pairs, self.pieces.stack is not None)

    def _alone(self, at: list[int], numbers: Numbers) -> None:
        """What can be said of pieces without which a class is gone: how the model of all does there."""
        shape = (len(at), 1, *self.coefs.shape)
        coefs, offsets = np.broadcast_to(self.coefs, shape), np.broadcast_to(self.offsets, shape[:3])
        own = scores_on_pieces(self.pieces, at, coefs, offsets, self.full)
        others = Scores(*(np.broadcast_to(array, (len(at), *array.shape))[:, :1] for array in self.whole))
        if self.held_out is None:
            others = others.without(own, self.pieces.total.per_class)
        signs = self.problems.signs
        numbers[2, at], numbers[4, at] = own.loss(signs)[:, 0], others.loss(signs)[:, 0]
        numbers[6, at], numbers[8, at] = self._accuracies(own)[:, 0], self._accuracies(others)[:, 0]

    def _notes(self, gone: NDArray[np.bool_], rows: NDArray[np.int64]) -> tuple[str, ...]:
        notes = ["" if count else "holds no rows" for count in rows.tolist()]
        for index in np.flatnonzero(gone.any(axis=1) & (rows > 0)).tolist():
            labels = [repr(self.pieces.total.labels[place]) for place in np.flatnonzero(gone[index])]
            named = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
            notes[index] = f"without it no row of class {named} is left, and there is no model to compare"
        return tuple(notes)
