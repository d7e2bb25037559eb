"""Pieces of knowledge side by side, and their total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.analysis.pieces.jit_policy import stack_kernels_pay
from mergesvm.data.labels import Label
from mergesvm.engines.threads import Threads
from mergesvm.errors import KnowledgeError, ParameterError
from mergesvm.knowledge.algebra import SHRUNK
from mergesvm.knowledge.gram.narrow import mirror
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature

Numbers = NDArray[np.float64]
Grams = tuple[Numbers, ...]

CELL_SECONDS = 2e-9
"""What compiled kernels save on each entry of a Gram matrix, from pooling it to the last of its products."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Several pieces of knowledge, the classes of all of them, and their counts and sums about one anchor.

    Gram matrices stay where they are, each about the anchor of its piece: they are large.

    Attributes
    ----------
    names : tuple of str
    each : tuple of Knowledge
    total : Knowledge
        All of them together, about the mean of all rows.
    grams : tuple of tuples of arrays
        Those of each piece; in the pooled form one each.
    rows : array of int, shape (pieces, classes)
    counts : array of shape (pieces, classes)
    sums : array of shape (pieces, classes, width)
        About the anchor of the total.
    shifts : array of shape (pieces, width)
        From the anchor of the total to that of each piece.
    stack : array of shape (pieces, width, at least width) or None
        Where compiled kernels are used: the upper triangles of the pooled form, as those want them.

    Examples
    --------
    >>> import mergesvm as ms
    >>> pieces = Pieces.of({"day 1": ms.learn([[0.0], [1.0]], ["a", "b"]), "day 2": ms.learn([[5.0]], ["b"])})
    >>> pieces.total.anchor, pieces.rows.tolist()
    (array([2.]), [[1, 1], [0, 1]])
    """

    names: tuple[str, ...]
    each: tuple[Knowledge, ...]
    total: Knowledge
    grams: tuple[Grams, ...]
    rows: NDArray[np.int64]
    counts: Numbers
    sums: Numbers
    shifts: Numbers
    stack: Numbers | None = None

    @classmethod
    def of(cls, pieces: Mapping[str, Knowledge] | Sequence[Knowledge], engine: Threads | None = None) -> Pieces:
        """Pieces by name, or in a row: then each is called by its source, if it has exactly one, or by its place."""
        return cls.joined(*named_pieces(pieces), engine or Threads(1))

    @classmethod
    def joined(
        cls, names: tuple[str, ...], each: tuple[Knowledge, ...], engine: Threads, *, pooled: bool = False
    ) -> Pieces:
        """Pieces whose names are known; in the pooled form, if that is enough: then much less is to be read later."""
        signature = reduce(_joined, (piece.signature for piece in each))
        grams, stack, summed = tuple(piece.grams for piece in each), None, None
        if pooled:
            if _kernels_pay(each, signature.width):
                stack, summed = _stacked(each, signature.width, engine)
            elif signature.per_class:
                grams = _pooled(each, signature.width, engine)
            signature = replace(signature, per_class=False)
        labels = tuple(sorted({label for piece in each for label in piece.labels}))
        place = {label: index for index, label in enumerate(labels)}
        shape = len(each), len(labels)
        rows, counts = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        sums, anchors = np.zeros((*shape, signature.width)), np.empty((len(each), signature.width))
        for index, piece in enumerate(each):
            at = slice(None) if piece.labels == labels else [place[label] for label in piece.labels]
            rows[index, at], counts[index, at], sums[index, at] = piece.rows, piece.counts, piece.sums
            anchors[index] = piece.anchor
        weights = counts.sum(axis=1)
        if not weights.sum() > 0:
            raise KnowledgeError("The pieces hold no rows. Learn some first.")
        # As differences from one of the anchors, which is near: far from the origin a mean of means loses digits.
        near = anchors[int(weights.argmax())]
        mean = near + (sums.sum(axis=(0, 1)) + weights @ (anchors - near)) / weights.sum()
        shifts = anchors - mean
        moved = counts[:, :, None] * shifts[:, None]
        sums += moved
        moved /= -2
        moved += sums
        halves = moved if signature.per_class else moved.sum(axis=1, keepdims=True)

        def add_up(place: int) -> tuple[Numbers, Numbers]:
            own = [summed] if summed is not None else _of_class(each, grams, labels, place, signature.per_class)
            return _moved_sum(own, halves[:, place], shifts)

        found = engine.map(add_up, range(halves.shape[1]))
        total = Knowledge(
            signature=signature,
            anchor=mean,
            labels=labels,
            rows=rows.sum(axis=0),
            counts=counts.sum(axis=0),
            sums=sums.sum(axis=0),
            grams=tuple(gram for gram, _ in found),
            peaks=np.maximum([peaks for _, peaks in found], _peaks(each, place, signature)),
            precision="float32" if any(piece.precision == "float32" for piece in each) else "float64",
            provenance=tuple(origin for piece in each for origin in piece.provenance),
        )
        return cls(names, each, total, grams, rows, counts, sums, shifts, stack)

    def __len__(self) -> int:
        return len(self.each)

    def places(self, index: int) -> list[int]:
        """The places of the classes of one piece."""
        return np.flatnonzero(self.rows[index]).tolist()

    def whole_grams(self, index: int) -> Grams:
        """The Gram matrices of one piece, both triangles; in the pooled form one at most."""
        grams = self.grams[index]
        if self.total.per_class or len(grams) < 2:
            return grams
        return (np.add.reduce(grams),)

    def without(self, index: int) -> Knowledge:
        """The total without one piece."""
        piece = self.each[index]
        if piece.per_class and not self.total.per_class:
            signature, grams = replace(piece.signature, per_class=False), self.whole_grams(index)
            peaks = piece.peaks.sum(axis=0, keepdims=True)[: len(grams)]
            piece = replace(piece, signature=signature, grams=grams, peaks=peaks)
        return self.total - piece


def named_pieces(pieces: Any, fewest: int = 2) -> tuple[tuple[str, ...], tuple[Knowledge, ...]]:
    """Names and pieces, of which there have to be so many at least."""
    if isinstance(pieces, Mapping):
        names, each = tuple(str(name) for name in pieces), tuple(pieces.values())
    else:
        each = () if isinstance(pieces, Knowledge) else tuple(pieces)
        names = _sources(each) if all(isinstance(piece, Knowledge) for piece in each) else ()
    strangers = [piece for piece in each if not isinstance(piece, Knowledge)]
    if strangers:
        kind = type(strangers[0]).__name__
        raise TypeError(f"Pieces have to be knowledge, not {kind}. A fitted estimator has it as knowledge_.")
    if len(each) < fewest or isinstance(pieces, Knowledge):
        given = "one knowledge by itself" if isinstance(pieces, Knowledge) else f"a list of {len(each)}"
        least = "two pieces" if fewest == 2 else "one piece"
        raise ParameterError(f"There has to be a list or mapping of at least {least} to compare, and this is {given}.")
    return names, each


def _sources(each: tuple[Knowledge, ...]) -> tuple[str, ...]:
    """What pieces are called that were given no names; two of one source are called by their places."""
    found = [piece.provenance[0].source if len(piece.provenance) == 1 else "" for piece in each]
    alone = [bool(name) and found.count(name) == 1 for name in found]
    return tuple(name if own else f"piece {index}" for index, (name, own) in enumerate(zip(found, alone, strict=True)))


def _joined(one: Signature, other: Signature) -> Signature:
    return one if one == other else one.joined(other)


def _pooled(each: tuple[Knowledge, ...], width: int, engine: Threads) -> tuple[Grams, ...]:
    """One Gram matrix for each piece, of all its classes."""
    stack = np.empty((len(each), width, width))

    def pool(at: Sequence[int]) -> list[Grams]:
        found = []
        for index in at:
            parts, gram = each[index].grams, stack[index]
            if len(parts) > 1:
                np.add(parts[0], parts[1], out=gram)
                for part in parts[2:]:
                    np.add(gram, part, out=gram)
            found.append((gram,) if len(parts) > 1 else parts)
        return found

    parts = chunks(range(len(each)), -(-len(each) // engine.workers))
    return tuple(grams for part in engine.map(pool, parts) for grams in part)


def _kernels_pay(each: tuple[Knowledge, ...], width: int) -> bool:
    saved = sum(len(piece.grams) for piece in each) * width**2 * CELL_SECONDS
    return stack_kernels_pay(saved)


def _stacked(each: tuple[Knowledge, ...], width: int, engine: Threads) -> tuple[Numbers, Numbers]:
    """The upper triangle of the Gram matrix of all classes, for each piece, and the sum of all, both triangles."""
    from mergesvm.analysis.pieces import jit as stack_kernels

    stack = np.empty((len(each), width, stack_kernels.padded(width)))

    def pool(at: Sequence[int]) -> Numbers:
        total = np.zeros((width, width))
        for index in at:
            parts, out = _side_by_side(each[index].grams), stack[index]
            for begun, part in enumerate(parts):
                stack_kernels.pool(part, out, total, begun > 0)
            if not parts:
                out[:] = 0.0
        return total

    found = engine.map(pool, chunks(range(len(each)), -(-len(each) // engine.workers)))
    total = np.add.reduce(found)
    mirror(total)
    return stack, total


def _side_by_side(grams: Grams) -> list[Numbers]:
    """Gram matrices as arrays of three dimensions: one, where they lie side by side in memory, as they are learned."""
    base = grams[0].base if grams else None
    if not isinstance(base, np.ndarray) or base.shape != (len(grams), *grams[0].shape) or base.dtype != np.float64:
        return [gram[None] for gram in grams]
    for gram in grams:
        if gram.base is not base:
            return [gram[None] for gram in grams]
    return [base]


def _of_class(
    each: tuple[Knowledge, ...], grams: tuple[Grams, ...], labels: tuple[Label, ...], place: int, per_class: bool
) -> list[Numbers]:
    """The Gram matrices of one class, or of all, in those pieces that have one."""
    if not per_class:
        return [own[0] for own in grams if own]
    label, found = labels[place], []
    for piece, own in zip(each, grams, strict=True):
        if piece.labels == labels:
            found.append(own[place])
        elif label in piece.labels:
            found.append(own[piece.labels.index(label)])
    return found


def _moved_sum(grams: list[Numbers], halves: Numbers, shifts: Numbers) -> tuple[Numbers, Numbers]:
    """The sum of Gram matrices, each moved by M + h d' + d h', and its diagonal before, where it was much larger.

    The moves add up to one product of matrices.
    """
    total = grams[0].copy()
    for gram in grams[1:]:
        total += gram
    before = total.diagonal().copy()
    cross = halves.T @ shifts
    total += cross + cross.T
    return total, np.where(before > SHRUNK * total.diagonal(), before, 0.0)


def _peaks(each: tuple[Knowledge, ...], place: Mapping[Label, int], signature: Signature) -> Numbers:
    """The largest diagonals that there were before something was subtracted from a piece."""
    peaks = np.zeros((len(place) if signature.per_class else 1, signature.width))
    if not np.concatenate([piece.peaks for piece in each]).any():
        return peaks
    for piece in each:
        if piece.peaks.any():
            at = [place[label] for label in piece.labels] if signature.per_class else [0] * len(piece.peaks)
            np.add.at(peaks, at, piece.peaks)
    return peaks


def chunks(numbers: Sequence[int], size: int) -> list[Sequence[int]]:
    """Consecutive parts of a sequence, each of at most so many, and of nearly one size.

    >>> chunks(range(5), 2)
    [range(0, 2), range(2, 3), range(3, 5)]
    """
    parts = -(-len(numbers) // max(size, 1))
    bounds = [round(len(numbers) * part / parts) for part in range(parts + 1)] if parts else []
    return [numbers[start:stop] for start, stop in pairwise(bounds)]
