"""The algebra of knowledge: addition, subtraction, and the move to another anchor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.errors import KnowledgeError, SubtractionError
from mergesvm.knowledge.provenance import without
from mergesvm.knowledge.sums import Sums

Piece = TypeVar("Piece", bound=Sums)

WEIGHT_TOLERANCE = 1e-4
"""Sums of weights that differ by no more than this, relatively, may be the same sum after much rounding."""

SHRUNK = 1e6
"""A sum of squares that a move of the anchor makes smaller by this factor has lost so many of its digits."""

PENDING_BYTES = 2**26
"""Pieces of a stream are added up when they take this much memory: many at once, so that large sums are copied less."""

FAR = 16.0
"""An anchor so many standard deviations from the mean of a feature is moved to the mean."""

FAINTEST = 1e-100
"""A class whose rows together weigh less than this is forgotten."""


def merge(pieces: Iterable[Piece]) -> Piece:
    """Add many pieces at once. Pieces may know different classes; the anchor is that of the piece with most rows.

    >>> import mergesvm as ms
    >>> ms.merge(ms.learn([[float(i)]], ["odd" if i % 2 else "even"]) for i in range(5))
    Knowledge of 5 rows x 1 feature in 2 classes: even 3, odd 2
    """
    pieces = list(pieces)
    strangers = [piece for piece in pieces if not isinstance(piece, Sums)]
    if strangers:
        kind = type(strangers[0]).__name__
        raise TypeError(f"Only knowledge can be merged, not {kind}. A fitted estimator has it as knowledge_.")
    if not pieces:
        raise KnowledgeError("There is nothing to merge: give at least one piece of knowledge.")
    signature = reduce(lambda one, other: one.joined(other), (piece.signature for piece in pieces))
    anchor = max(pieces, key=lambda piece: int(piece.rows.sum())).anchor
    labels = tuple(sorted({label for piece in pieces for label in piece.labels}))
    position = {label: index for index, label in enumerate(labels)}
    rows, counts = np.zeros(len(labels), dtype=np.int64), np.zeros(len(labels))
    sums = np.zeros((len(labels), signature.width))
    totals = [_Total() for _ in range(_n_grams(labels, signature.per_class))]
    peaks = np.zeros((len(totals), signature.width))
    for piece in pieces:
        at = [position[label] for label in piece.labels]
        moved_sums, moved_peaks = reanchored_sums(piece, anchor)
        rows[at] += piece.rows
        counts[at] += piece.counts
        sums[at] += moved_sums
        at = at if signature.per_class else [0] * len(piece.grams)
        peaks[at] += moved_peaks
        for index, gram in zip(at, _reanchored_grams(piece, anchor), strict=True):
            totals[index].add(gram)
    precision = "float32" if any(piece.precision == "float32" for piece in pieces) else "float64"
    grams = tuple(total.matrix for total in totals)
    return settled(
        replace(
            pieces[0],
            signature=signature,
            anchor=anchor,
            labels=labels,
            rows=rows,
            counts=counts,
            sums=sums,
            grams=grams,
            peaks=peaks,
            precision=precision,
            provenance=tuple(origin for piece in pieces for origin in piece.provenance),
        )
    )


def merge_stream(pieces: Iterable[Piece]) -> Piece | None:
    """Add pieces as they come, with a few of them in memory at one time; None if there are none.

    >>> import mergesvm as ms
    >>> merge_stream(ms.learn([[float(i)]], ["odd" if i % 2 else "even"]) for i in range(5))
    Knowledge of 5 rows x 1 feature in 2 classes: even 3, odd 2
    """
    pending: list[Piece] = []
    held = 0
    for piece in pieces:
        pending.append(piece)
        held += sum(array.nbytes for array in piece.arrays())
        if held > PENDING_BYTES and len(pending) > 1:
            pending, held = [merge(pending)], 0
    return merge(pending) if pending else None


def subtract(whole: Piece, part: Piece) -> Piece:
    """Take a piece back. What is left is the knowledge of the rows that remain; on any error nothing is changed."""
    signature = whole.signature.joined(part.signature, "subtract", "from")
    position = {label: index for index, label in enumerate(whole.labels)}
    for label, rows, count in zip(part.labels, part.rows, part.counts, strict=True):
        _check_inside(whole, position, label, int(rows), float(count))
    part = reanchor(part, whole.anchor)
    at = [position[label] for label in part.labels]
    rows, counts, sums = whole.rows.copy(), whole.counts.copy(), whole.sums.copy()
    rows[at] -= part.rows
    counts[at] -= part.counts
    sums[at] -= part.sums
    grams, peaks = list(whole.grams), whole.peaks.copy()
    at_grams = at if whole.per_class else [0] * len(part.grams)
    for index, gram, peak in zip(at_grams, part.grams, part.peaks, strict=True):
        peaks[index] = np.maximum.reduce([peaks[index], peak, grams[index].diagonal()])
        grams[index] = grams[index] - gram
    # A class of which no row is left is dropped whole, and rounding with it.
    left = np.flatnonzero(rows)
    labels = tuple(whole.labels[index] for index in left)
    kept = left if whole.per_class else list(range(_n_grams(labels, False)))
    precision = "float32" if "float32" in (whole.precision, part.precision) else "float64"
    return settled(
        replace(
            whole,
            signature=signature,
            labels=labels,
            rows=rows[left],
            counts=counts[left],
            sums=sums[left],
            grams=tuple(grams[index] for index in kept),
            peaks=peaks[kept],
            precision=precision,
            provenance=without(whole.provenance, part.provenance),
        )
    )


def reanchor(knowledge: Piece, anchor: NDArray[np.float64]) -> Piece:
    """Move the sums to another anchor b: with d = a - b, v becomes v + n d, and M becomes M + v d' + d v' + n d d'."""
    if np.array_equal(knowledge.anchor, anchor):
        return knowledge
    sums, peaks = reanchored_sums(knowledge, anchor)
    grams = tuple(_reanchored_grams(knowledge, anchor))
    return replace(knowledge, anchor=anchor, sums=sums, grams=grams, peaks=peaks)


def _reanchored_grams(knowledge: Sums, anchor: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """The matrices about another anchor, one after another, so that no more than one need be held."""
    shift = knowledge.anchor - anchor
    if not shift.any():
        yield from knowledge.grams
        return
    for gram, half in zip(knowledge.grams, _halves(knowledge, shift), strict=True):
        cross = np.outer(half, shift)
        # Both halves at once, so that the sum is symmetric to the last digit.
        yield gram + (cross + cross.T)


def reanchored_sums(knowledge: Sums, anchor: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the sums of the classes, and the peaks of their squares, are about another anchor; without the matrices."""
    shift = knowledge.anchor - anchor
    if not shift.any():
        return knowledge.sums, knowledge.peaks
    before = np.array([gram.diagonal() for gram in knowledge.grams]).reshape(-1, knowledge.width)
    after = before + 2 * _halves(knowledge, shift) * shift
    # Sums that shrink much by the move were rounded when they were large, and that is to be remembered.
    peaks = np.maximum(knowledge.peaks, np.where(before > SHRUNK * after, before, 0.0))
    return knowledge.sums + knowledge.counts[:, None] * shift, peaks


def _halves(knowledge: Sums, shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each matrix, v + n d / 2."""
    sums, counts = knowledge.sums, knowledge.counts[:, None]
    if knowledge.grams and not knowledge.per_class:
        sums, counts = sums.sum(axis=0, keepdims=True), counts.sum(axis=0, keepdims=True)
    return np.asarray(sums + counts * shift / 2)


def faded(knowledge: Piece, factor: float) -> Piece:
    """The same rows, each with its weight times a factor. A class of which hardly a weight is left is dropped."""
    left = np.flatnonzero(knowledge.counts * factor > FAINTEST)
    kept = left if knowledge.per_class else list(range(_n_grams(tuple(left), False)))
    return replace(
        knowledge,
        labels=tuple(knowledge.labels[index] for index in left),
        rows=knowledge.rows[left],
        counts=knowledge.counts[left] * factor,
        sums=knowledge.sums[left] * factor,
        grams=tuple(knowledge.grams[index] * factor for index in kept),
        peaks=knowledge.peaks[kept] * factor,
    )


def settled(knowledge: Piece) -> Piece:
    """Knowledge whose anchor has followed its rows, where they have drifted far from it.

    Rows that arrive while others are forgotten may wander off. Sums about a point left behind would lose their digits.
    """
    if not knowledge.labels:
        return knowledge
    total = knowledge.counts.sum()
    mean = knowledge.sums.sum(axis=0) / total
    square = np.sum([gram.diagonal() for gram in knowledge.grams], axis=0) / total
    variance = np.maximum(square - mean**2, 0.0)
    rounding = 1e-9 * np.abs(knowledge.anchor + mean)
    far = np.abs(mean) > FAR * np.sqrt(variance) + rounding
    return reanchor(knowledge, knowledge.anchor + np.where(far, mean, 0.0)) if far.any() else knowledge


def _n_grams(labels: tuple[Label, ...], per_class: bool) -> int:
    return len(labels) if per_class else min(1, len(labels))


class _Total:
    """A running sum of matrices; one that only a single piece has is shared, not copied."""

    def __init__(self) -> None:
        self.matrix = np.empty((0, 0))
        self._terms = 0

    def add(self, matrix: NDArray[np.float64]) -> None:
        if self._terms == 0:
            self.matrix = matrix
        elif self._terms == 1:
            self.matrix = self.matrix + matrix
        else:
            self.matrix += matrix
        self._terms += 1


def _check_inside(whole: Sums, position: dict[Label, int], label: Label, rows: int, count: float) -> None:
    if label not in position:
        known = ", ".join(repr(known) for known in whole.labels) or "none"
        raise SubtractionError(
            f"Cannot subtract class {label!r}: it was never learned, or is already gone. Known classes: {known}."
        )
    had_rows, had_count = int(whole.rows[position[label]]), float(whole.counts[position[label]])
    if rows > had_rows or count > had_count * (1 + WEIGHT_TOLERANCE):
        raise SubtractionError(
            f"Cannot subtract {rows:,} rows (weight {count:g}) of class {label!r}: only {had_rows:,} rows "
            f"(weight {had_count:g}) are known. Subtract only what has been added before."
        )
    # Weights are sums that rounding touches, rows are not: rows decide when a class is gone.
    left = had_count - count
    if left > WEIGHT_TOLERANCE * had_count if rows == had_rows else left <= 0:
        raise SubtractionError(
            f"Cannot subtract {rows:,} rows (weight {count:g}) of class {label!r} from {had_rows:,} rows "
            f"(weight {had_count:g}): rows and weights do not run out together, so these are not the same rows "
            f"with the same weights. Use the sample weights with which the rows were learned."
        )
