"""The algebra of knowledge: addition, subtraction, and moving the anchor.

Knowledge with addition is a commutative group up to rounding, with :meth:`Knowledge.zero` as its zero. Any partition of
the rows, added in any order, gives the sums of all rows; and the anchor does not matter: ``reanchor(a, p) + b`` and
``a + b`` have the same sums about any point. tests/laws/test_algebra.py states these laws as properties. Pieces with
different signatures raise an error, as does merging a piece that is inside already, and subtracting one that is not, as
far as ids and counts can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.checks import check_flag, listed
from mergesvm.data.labels import Label
from mergesvm.engines.machine import check_memory
from mergesvm.errors import KnowledgeError, SubtractionError
from mergesvm.knowledge.provenance.combine import joined, new_ids_for_copies, renamed, without
from mergesvm.knowledge.provenance.origin import UNKNOWN, Origin, Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import MAX_ROWS, Sums

Piece = TypeVar("Piece", bound=Sums)


class HasArrays(Protocol):
    """Knowledge with or without folds."""

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays."""


Stored = TypeVar("Stored", bound=HasArrays)

WEIGHT_TOLERANCE = 1e-4
"""Sums of weights whose relative difference is below this may be equal but for rounding."""

CANCELLATION_FACTOR = 1e6
"""If a move of the anchor makes a sum of squares smaller by this factor, the lost digits are recorded as a peak."""

MAX_PENDING_BYTES = 2**26
"""Pieces of a stream are merged when they take this much memory: many at once, to copy large sums less often."""

MAX_ANCHOR_DEVIATIONS = 16.0
"""The anchor moves to the mean of a feature that is more than this many standard deviations away."""

MIN_CLASS_WEIGHT = 1e-100
"""Classes of smaller total weight are dropped."""


def merge(pieces: Iterable[Piece], *, force: bool = False) -> Piece:
    """Add many pieces at once, of which none may be inside another; with ``force``, rows count as often as given.

    Pieces may have different classes; the result takes the anchor of the piece with the most rows.
    """
    pieces = list(pieces)
    others = [piece for piece in pieces if not isinstance(piece, Sums)]
    if others:
        kind = type(others[0]).__name__
        raise TypeError(f"Only knowledge can be merged, not {kind}. A fitted estimator has it as knowledge_.")
    if not pieces:
        raise KnowledgeError("There is nothing to merge: give at least one piece of knowledge.")
    common_signature(pieces)  # pieces that do not match are the more important error
    provenances = [origins_of(piece) for piece in pieces] if len(pieces) > 1 else [pieces[0].provenance]
    if check_flag("force", force):
        copies = new_ids_for_copies(provenances)
        provenances = [renamed(one, ids) for one, ids in zip(provenances, copies, strict=True)]
    return replace(added(pieces), provenance=joined(provenances))


def common_signature(pieces: Sequence[Sums]) -> Signature:
    """Return the signature of a sum, or raise an error that names what differs."""
    return reduce(lambda one, other: one.joined(other), (piece.signature for piece in pieces))


def origins_of(knowledge: Sums) -> Provenance:
    """Return the origins of knowledge, an unknown one without an id if it has rows without any origin."""
    if knowledge.provenance or not knowledge.labels:
        return knowledge.provenance
    return (Origin(UNKNOWN, int(knowledge.rows.sum()), ""),)


def added(pieces: Sequence[Piece]) -> Piece:
    """Add the sums of pieces, without a look at their origins; the result has those of the first."""
    signature = common_signature(pieces)
    anchor = max(pieces, key=lambda piece: int(piece.rows.sum())).anchor
    labels = tuple(sorted({label for piece in pieces for label in piece.labels}))
    n_matrices = n_grams(labels, signature.per_class)
    what = f"The sum of {n_matrices:,} x {signature.width:,} x {signature.width:,} sums"
    check_memory(8 * n_matrices * signature.width**2, what, "Merge pieces of fewer classes or features.")
    position = {label: index for index, label in enumerate(labels)}
    rows, counts = np.zeros(len(labels), dtype=np.int64), np.zeros(len(labels))
    sums = np.zeros((len(labels), signature.width))
    grams: list[Any] = [None] * n_grams(labels, signature.per_class)
    peaks, copied = np.zeros((len(grams), signature.width)), set()
    if sum(int(piece.rows.sum()) for piece in pieces) > MAX_ROWS:
        raise KnowledgeError(f"All pieces together have more than {MAX_ROWS:,} rows, which cannot be counted.")
    for piece in pieces:
        at = [position[label] for label in piece.labels]
        moved_sums, moved_peaks = reanchored_sums(piece, anchor)
        rows[at] += piece.rows
        counts[at] += piece.counts
        sums[at] += moved_sums
        at = at if signature.per_class else [0] * len(piece.grams)
        peaks[at] += moved_peaks
        for index, gram in zip(at, _reanchored_grams(piece, anchor), strict=True):
            if grams[index] is None:
                grams[index] = gram  # shared with the piece until there is another to add
            elif index in copied:
                grams[index] += gram
            else:
                grams[index] = grams[index] + gram
                copied.add(index)
    return recentred(
        replace(
            pieces[0],
            signature=signature,
            anchor=anchor,
            labels=labels,
            rows=rows,
            counts=counts,
            sums=sums,
            grams=tuple(grams),
            peaks=peaks,
            precision=lowest_precision(pieces),
        )
    )


def merge_stream(pieces: Iterable[Stored], add: Callable[[list[Stored]], Stored]) -> Stored | None:
    """Add pieces as they arrive, with only a few in memory; return None if there are none.

    >>> import mergesvm as ms
    >>> merge_stream((ms.learn([[float(i)]], ["odd" if i % 2 else "even"]) for i in range(5)), merge)
    Knowledge of 5 rows x 1 feature in 2 classes: even 3, odd 2
    """
    pending: list[Stored] = []
    size = 0
    for piece in pieces:
        pending.append(piece)
        size += sum(array.nbytes for array in piece.arrays())
        if size > MAX_PENDING_BYTES and len(pending) > 1:
            pending, size = [add(pending)], 0
    return add(pending) if pending else None


def subtract(whole: Piece, part: Piece, *, force: bool = False) -> Piece:
    """Subtract a piece: the result is the knowledge of the remaining rows, without classes that have none left.

    Its pieces must be inside, unless ``force``: then those that are not are recorded as retired rows.
    """
    whole.signature.joined(part.signature, "subtract", "from")  # raises the more important error
    origins = without(origins_of(whole), origins_of(part), force=check_flag("force", force))
    difference = subtracted(whole, part)
    # Without rows nothing is inside, so what was retired need not be remembered.
    nothing_left = not difference.labels and any(origin.taken_back for origin in origins)
    return replace(difference, provenance=() if nothing_left else origins)


def subtracted(whole: Piece, part: Piece) -> Piece:
    """Subtract the sums of a piece, without a look at its origins; the result has those of the whole."""
    signature = whole.signature.joined(part.signature, "subtract", "from")
    position = {label: index for index, label in enumerate(whole.labels)}
    for label, rows, count in zip(part.labels, part.rows, part.counts, strict=True):
        _check_was_added(whole, position, label, int(rows), float(count))
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
    difference = replace(
        whole,
        signature=signature,
        rows=rows,
        counts=counts,
        sums=sums,
        grams=tuple(grams),
        peaks=peaks,
        precision=lowest_precision((whole, part)),
    )
    # A class without rows is dropped, and its rounding errors with it.
    return recentred(take_classes(difference, np.flatnonzero(rows)))


def take_classes(knowledge: Piece, at: NDArray[np.intp]) -> Piece:
    """Return the knowledge of the classes at these positions; Gram matrices are not copied, a pooled one is kept."""
    grams = at if knowledge.per_class else np.arange(min(1, len(at)))
    return replace(
        knowledge,
        labels=tuple(knowledge.labels[index] for index in at),
        rows=knowledge.rows[at],
        counts=knowledge.counts[at],
        sums=knowledge.sums[at],
        grams=tuple(knowledge.grams[index] for index in grams),
        peaks=knowledge.peaks[grams],
    )


def reanchor(knowledge: Piece, anchor: NDArray[np.float64]) -> Piece:
    """Move the sums to another anchor b: with d = a - b, v becomes v + n d, and M becomes M + v d' + d v' + n d d'."""
    if np.array_equal(knowledge.anchor, anchor):
        return knowledge
    sums, peaks = reanchored_sums(knowledge, anchor)
    grams = tuple(_reanchored_grams(knowledge, anchor))
    return replace(knowledge, anchor=anchor, sums=sums, grams=grams, peaks=peaks)


def _reanchored_grams(knowledge: Sums, anchor: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Yield the Gram matrices about another anchor, one at a time to save memory."""
    shift = knowledge.anchor - anchor
    if not shift.any():
        yield from knowledge.grams
        return
    for gram, half in zip(knowledge.grams, _half_shifts(knowledge, shift), strict=True):
        cross = np.outer(half, shift)
        # Both terms at once keep the sum exactly symmetric.
        yield gram + (cross + cross.T)


def reanchored_sums(knowledge: Sums, anchor: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the class sums and the peaks about another anchor, without computing the matrices."""
    shift = knowledge.anchor - anchor
    if not shift.any():
        return knowledge.sums, knowledge.peaks
    before = np.array([gram.diagonal() for gram in knowledge.grams]).reshape(-1, knowledge.width)
    after = before + 2 * _half_shifts(knowledge, shift) * shift
    # Squares that shrink much keep the rounding errors of their former size.
    peaks = np.maximum(knowledge.peaks, np.where(before > CANCELLATION_FACTOR * after, before, 0.0))
    return knowledge.sums + knowledge.counts[:, None] * shift, peaks


def _half_shifts(knowledge: Sums, shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return v + n d / 2 for each Gram matrix."""
    sums, counts = knowledge.sums, knowledge.counts[:, None]
    if knowledge.grams and not knowledge.per_class:
        sums, counts = sums.sum(axis=0, keepdims=True), counts.sum(axis=0, keepdims=True)
    return np.asarray(sums + counts * shift / 2)


def decayed(knowledge: Piece, factor: float) -> Piece:
    """Multiply the weights of all rows by a factor, and drop classes whose weight becomes negligible."""
    left = without_negligible(knowledge, MIN_CLASS_WEIGHT / factor if factor else np.inf)
    grams = tuple(gram * factor for gram in left.grams)
    return replace(left, counts=left.counts * factor, sums=left.sums * factor, grams=grams, peaks=left.peaks * factor)


def without_negligible(knowledge: Piece, weight: float = MIN_CLASS_WEIGHT) -> Piece:
    """Drop classes of no more than this total weight."""
    kept = knowledge.counts > weight
    return knowledge if kept.all() else take_classes(knowledge, np.flatnonzero(kept))


def recentred(knowledge: Piece) -> Piece:
    """Move the anchor to the mean in features that have drifted far from it: sums about a distant point lose digits."""
    if not knowledge.labels:
        return knowledge
    total = knowledge.counts.sum()
    mean = knowledge.sums.sum(axis=0) / total
    square = np.sum([gram.diagonal() for gram in knowledge.grams], axis=0) / total
    variance = np.maximum(square - mean**2, 0.0)
    rounding = 1e-9 * np.abs(knowledge.anchor + mean)
    far = np.abs(mean) > MAX_ANCHOR_DEVIATIONS * np.sqrt(variance) + rounding
    return reanchor(knowledge, knowledge.anchor + np.where(far, mean, 0.0)) if far.any() else knowledge


def n_grams(labels: tuple[Label, ...], per_class: bool) -> int:
    """Return the number of Gram matrices for these classes."""
    return len(labels) if per_class else min(1, len(labels))


def lowest_precision(pieces: Iterable[Any]) -> str:
    """Return "float32" if the products of any piece were formed in it, else "float64"."""
    return "float32" if any(piece.precision == "float32" for piece in pieces) else "float64"


def _check_was_added(whole: Sums, position: dict[Label, int], label: Label, rows: int, count: float) -> None:
    if label not in position:
        known = listed(whole.labels) or "none"
        raise SubtractionError(
            f"Cannot subtract class {label!r}: it was never learned, or is already gone. Known classes: {known}."
        )
    had_rows, had_count = int(whole.rows[position[label]]), float(whole.counts[position[label]])
    if rows > had_rows or count > had_count * (1 + WEIGHT_TOLERANCE):
        raise SubtractionError(
            f"Cannot subtract {rows:,} rows (weight {count:g}) of class {label!r}: only {had_rows:,} rows "
            f"(weight {had_count:g}) are known. Subtract only what has been added before."
        )
    # Rows are exact, weights are rounded: rows decide when a class is gone.
    left = had_count - count
    if left > WEIGHT_TOLERANCE * had_count if rows == had_rows else left <= 0:
        raise SubtractionError(
            f"Cannot subtract {rows:,} rows (weight {count:g}) of class {label!r} from {had_rows:,} rows "
            f"(weight {had_count:g}): either rows or weights would be left without the other, so these are not rows "
            f"that were added. Use the sample weights with which the rows were learned."
        )
