"""Pieces of knowledge side by side, and their total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import DuplicatePieceError, KnowledgeError, ParameterError
from mergesvm.knowledge.algebra import CANCELLATION_FACTOR, origins_of
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance.combine import joined
from mergesvm.knowledge.provenance.origin import NOT_FILES, Origin
from mergesvm.knowledge.signature import Signature

Numbers = NDArray[np.float64]
Grams = tuple[Numbers, ...]


@dataclass(frozen=True, eq=False)
class Pieces:
    """Several pieces of knowledge: their counts and sums for the classes of all, about one anchor, and their total.

    Rows and counts are (pieces, classes). Sums (pieces, classes, width) are about the anchor of the total, the mean of
    all rows. Gram matrices are large and stay about the anchor of their piece; there is one per class, or a single one
    in the pooled form. Shifts (pieces, width) are the anchor of each piece minus that of the total.
    """

    each: tuple[Knowledge, ...]
    total: Knowledge
    grams: tuple[Grams, ...]
    rows: NDArray[np.int64]
    counts: Numbers
    sums: Numbers
    shifts: Numbers

    @classmethod
    def of(cls, each: Sequence[Knowledge], engine: Threads | None = None, *, pooled: bool = False) -> Pieces:
        """Align pieces; ``pooled`` sums the Gram matrices over the classes, so that less is read later."""
        each, engine = tuple(each), engine or Threads(1)
        signature = each[0].signature
        for piece in each[1:]:
            signature = signature if signature == piece.signature else signature.joined(piece.signature)
        grams = tuple(piece.grams for piece in each)
        if pooled and signature.per_class:
            grams = _pooled_grams(each, engine)
            signature = replace(signature, per_class=False)
        labels = tuple(sorted({label for piece in each for label in piece.labels}))
        rows, counts, sums, anchors = _aligned(each, labels, signature.width)
        mean = _mean(counts.sum(axis=1), sums, anchors)
        shifts = anchors - mean
        moved = counts[:, :, None] * shifts[:, None]
        sums += moved
        halves = sums - moved / 2
        if not signature.per_class:
            halves = halves.sum(axis=1, keepdims=True)

        def add_grams(place: int) -> tuple[Numbers, Numbers]:
            if not signature.per_class:
                return _moved_sum([own[0] for own in grams if own], halves[:, 0], shifts)
            label, pairs = labels[place], zip(each, grams, strict=True)
            of_class = [own[piece.labels.index(label)] for piece, own in pairs if label in piece.labels]
            return _moved_sum(of_class, halves[:, place], shifts)

        found = engine.map(add_grams, range(halves.shape[1]))
        total = Knowledge(
            signature=signature,
            anchor=mean,
            labels=labels,
            rows=rows.sum(axis=0),
            counts=counts.sum(axis=0),
            sums=sums.sum(axis=0),
            grams=tuple(gram for gram, _ in found),
            peaks=np.maximum([peaks for _, peaks in found], _summed_peaks(each, labels, signature)),
            precision="float32" if any(piece.precision == "float32" for piece in each) else "float64",
            provenance=joined(map(origins_of, each)),
        )
        return cls(each, total, grams, rows, counts, sums, shifts)

    def __len__(self) -> int:
        return len(self.each)

    def places(self, index: int) -> list[int]:
        """Places of the classes of one piece among those of the total."""
        return np.flatnonzero(self.rows[index]).tolist()

    def without(self, index: int) -> Knowledge:
        """The total minus one piece."""
        piece = self.each[index]
        if piece.per_class and not self.total.per_class:
            piece = pooled_knowledge(piece, self.grams[index])
        return self.total - piece


def pooled_knowledge(knowledge: Knowledge, grams: Grams) -> Knowledge:
    """Knowledge in the pooled form, with a given Gram matrix of all classes (or none, if it has no rows)."""
    peaks = knowledge.peaks.sum(axis=0, keepdims=True)[: len(grams)]
    return replace(knowledge, signature=replace(knowledge.signature, per_class=False), grams=grams, peaks=peaks)


def named_pieces(pieces: Any, min_pieces: int = 2) -> tuple[tuple[str, ...], tuple[Knowledge, ...]]:
    """Names and pieces, which must not have rows in common.

    Unnamed pieces are named after their file if it is the only one and unique, or "piece 3".

    >>> import mergesvm as ms
    >>> named_pieces([ms.learn([[0.0]], ["a"]), ms.learn([[1.0]], ["a"])])[0]
    ('piece 0', 'piece 1')
    """
    if isinstance(pieces, Mapping):
        names, each = tuple(str(name) for name in pieces), tuple(pieces.values())
    else:
        each = () if isinstance(pieces, Knowledge) else tuple(pieces)
        names = _default_names(each) if all(isinstance(piece, Knowledge) for piece in each) else ()
    other = [piece for piece in each if not isinstance(piece, Knowledge)]
    if other:
        kind = type(other[0]).__name__
        raise TypeError(f"Pieces must be knowledge, not {kind}. A fitted estimator has it as knowledge_.")
    if len(each) < min_pieces or isinstance(pieces, Knowledge):
        given = "a single Knowledge" if isinstance(pieces, Knowledge) else f"{len(each)} of them"
        least = "two pieces" if min_pieces == 2 else "one piece"
        raise ParameterError(f"pieces must be a list or mapping of at least {least} pieces of knowledge, not {given}.")
    _check_disjoint(names, each)
    return names, each


def _check_disjoint(names: tuple[str, ...], each: tuple[Knowledge, ...]) -> None:
    """Raise an error that names two pieces with the same rows."""
    inside: dict[str, list[tuple[str, Origin]]] = {}
    for name, piece in zip(names, each, strict=True):
        for origin in piece.provenance:
            if origin.id is None or origin.taken_back:
                continue
            others = inside.setdefault(origin.id, [])
            for other, held in others:
                if held.extent.overlaps(origin.extent):
                    raise DuplicatePieceError(
                        f"{other} and {name} both contain {origin}: its rows would count twice. Leave one of them out."
                    )
            others.append((name, origin))


def _default_names(each: tuple[Knowledge, ...]) -> tuple[str, ...]:
    sources = [piece.provenance[0].source if len(piece.provenance) == 1 else "" for piece in each]
    times = Counter(sources) | dict.fromkeys(NOT_FILES, 2)
    return tuple(source if source and times[source] == 1 else f"piece {index}" for index, source in enumerate(sources))


def _pooled_grams(each: tuple[Knowledge, ...], engine: Threads) -> tuple[Grams, ...]:
    """The Gram matrix of all classes of each piece."""

    def pool(at: Sequence[int]) -> list[Grams]:
        return [(_summed(each[index].grams),) if len(each[index].grams) > 1 else each[index].grams for index in at]

    parts = chunks(range(len(each)), -(-len(each) // engine.workers))
    return tuple(grams for part in engine.map(pool, parts) for grams in part)


def _summed(grams: Sequence[Numbers]) -> Numbers:
    total = grams[0] + grams[1] if len(grams) > 1 else grams[0].copy()
    for gram in grams[2:]:
        total += gram
    return total


def _aligned(
    each: tuple[Knowledge, ...], labels: tuple[Label, ...], width: int
) -> tuple[NDArray[np.int64], Numbers, Numbers, Numbers]:
    """Rows, counts (pieces, classes), sums (pieces, classes, width), with zeros for absent classes; and anchors."""
    place = {label: index for index, label in enumerate(labels)}
    shape = len(each), len(labels)
    rows, counts = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    sums, anchors = np.zeros((*shape, width)), np.empty((len(each), width))
    for index, piece in enumerate(each):
        at = slice(None) if piece.labels == labels else [place[label] for label in piece.labels]
        rows[index, at], counts[index, at], sums[index, at] = piece.rows, piece.counts, piece.sums
        anchors[index] = piece.anchor
    return rows, counts, sums, anchors


def _mean(weights: Numbers, sums: Numbers, anchors: Numbers) -> Numbers:
    """The mean of all rows, from the sums of each piece about its anchor."""
    if not weights.sum() > 0:
        raise KnowledgeError("The pieces hold no rows. Learn some first.")
    # Relative to the anchor of the heaviest piece: far from the origin a mean of means would lose digits.
    near = anchors[int(weights.argmax())]
    mean: Numbers = near + (sums.sum(axis=(0, 1)) + weights @ (anchors - near)) / weights.sum()
    return mean


def _moved_sum(grams: list[Numbers], halves: Numbers, shifts: Numbers) -> tuple[Numbers, Numbers]:
    """The sum of Gram matrices moved by M + h d' + d h', and where moving cancelled digits the diagonal before."""
    total = _summed(grams)
    before = total.diagonal().copy()
    cross = halves.T @ shifts  # all moves together
    total += cross + cross.T
    return total, np.where(before > CANCELLATION_FACTOR * total.diagonal(), before, 0.0)


def _summed_peaks(each: tuple[Knowledge, ...], labels: tuple[Label, ...], signature: Signature) -> Numbers:
    """Sums of the peaks of the pieces: diagonals before something was subtracted from a piece."""
    peaks = np.zeros((len(labels) if signature.per_class else 1, signature.width))
    for piece in each:
        if piece.peaks.any():
            at = [labels.index(label) for label in piece.labels] if signature.per_class else [0] * len(piece.peaks)
            np.add.at(peaks, at, piece.peaks)
    return peaks


def chunks(numbers: Sequence[int], size: int) -> list[Sequence[int]]:
    """Consecutive parts of nearly equal length, at most ``size`` each.

    >>> chunks(range(5), 2)
    [range(0, 2), range(2, 3), range(3, 5)]
    """
    parts = -(-len(numbers) // max(size, 1))
    bounds = [round(len(numbers) * part / parts) for part in range(parts + 1)] if parts else []
    return [numbers[start:stop] for start, stop in pairwise(bounds)]
