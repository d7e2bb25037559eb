"""The partial results of workers, and how they are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.reduce import Addition, Block, Total
from mergesvm.errors import DataError
from mergesvm.features.maps.identity import Identity
from mergesvm.knowledge.algebra import added, lowest_precision, n_grams, reanchor, reanchored_sums, recentred
from mergesvm.knowledge.gram.triangles import add_to_triangle, fill_lower, pack_triangle, triangle_size, unpack_triangle
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.select import only
from mergesvm.knowledge.signature import Signature, different_maps_error


@dataclass(frozen=True)
class PartialResult:
    """The knowledge of some of the rows, None if there are none, and where they came from.

    ``counts`` are the rows used from each file, ``dropped`` those left out because of missing values. ``upper_only``
    says that only the upper triangles of the matrices are valid; such matrices have no other owner and may be changed
    in place.
    """

    knowledge: Knowledge | None
    counts: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    upper_only: bool = False

    def __getstate__(self) -> dict[str, Any]:
        # Knowledge is pickled as upper triangles and is symmetric when unpickled.
        return {**self.__dict__, "upper_only": False}

    def symmetric(self) -> PartialResult:
        """Fill the lower triangles."""
        if self.upper_only and self.knowledge is not None:
            for gram in self.knowledge.grams:
                gram.flags.writeable = True
                fill_lower(gram)
                gram.flags.writeable = False
        return replace(self, upper_only=False)

    def required(self) -> Knowledge:
        """Return the knowledge, or raise an error if there were no rows."""
        if self.knowledge is None:
            where = f" in {next(iter(self.counts))}" if self.counts else ""
            what = "all rows have missing values" if self.dropped else "there are no rows"
            raise DataError(f"There is nothing to learn{where}: {what}.")
        return self.knowledge


@dataclass(frozen=True)
class Description:
    """A partial result without its sums.

    The feature map is replaced by its name and fingerprint: it may be large, and all workers have the same.
    """

    signature: Signature
    fingerprint: str
    saying: str
    width: int
    anchor: NDArray[np.float64]
    labels: tuple[Label, ...]
    rows: NDArray[np.int64]
    counts: NDArray[np.float64]
    precision: str


@dataclass(frozen=True)
class Plan:
    """What all workers agreed on: the signature, the anchor, and the classes with their counts."""

    pieces: tuple[Description | None, ...]
    signature: Signature
    width: int
    anchor: NDArray[np.float64]
    labels: tuple[Label, ...]
    counts: dict[str, int]
    dropped: int

    @property
    def n_grams(self) -> int:
        """Number of Gram matrices."""
        return n_grams(self.labels, self.signature.per_class)


class Reducer(Addition[PartialResult]):
    """The sum of partial results.

    Across workers these are steps 2 and 4 of the parallel algorithm of Zhang and Zhu (2009): first the counts of all
    classes are sent to all workers, then the sums are added along a cascade. The first block holds the sums of the
    classes and the peaks of their squares, each further block the triangle of a Gram matrix.
    The feature map of all partial results may be large: pickled copies do not contain it.
    """

    def __init__(self, features: Any) -> None:
        self.features = features

    def __reduce__(self) -> tuple[type[Reducer], tuple[None]]:
        return type(self), (None,)

    def __call__(self, results: Sequence[PartialResult]) -> PartialResult:
        """Merge partial results in this process."""
        upper_only = all(partial.upper_only for partial in results if partial.knowledge is not None)
        found = results if upper_only else [partial.symmetric() for partial in results]
        pieces = [partial.knowledge for partial in found if partial.knowledge is not None]
        counts = reduce(lambda one, other: one + other, (Counter(partial.counts) for partial in results))
        for partial in results:  # adding counters drops files with no rows
            counts.update(dict.fromkeys(partial.counts, 0))
        dropped = sum(partial.dropped for partial in results)
        return PartialResult(added(pieces) if pieces else None, dict(counts), dropped, upper_only)

    def describe(self, result: PartialResult) -> tuple[Description | None, dict[str, int], int]:
        """Everything but the sums."""
        known = result.knowledge
        if known is None:
            return None, result.counts, result.dropped
        features = known.signature.features
        described = Description(
            replace(known.signature, features=Identity()),
            features.fingerprint,
            str(features),
            known.width,
            known.anchor,
            known.labels,
            known.rows,
            known.counts,
            known.precision,
        )
        return described, result.counts, result.dropped

    def agree(self, descriptions: Sequence[tuple[Description | None, dict[str, int], int]]) -> Plan:
        """The terms of all together, or an error that says what differs."""
        found = [piece for piece, _, _ in descriptions if piece is not None]
        joined = self([PartialResult(None, counts, dropped) for _, counts, dropped in descriptions])
        pieces = tuple(piece for piece, _, _ in descriptions)
        if not found:
            joined.required()
        for piece in found[1:]:
            if piece.fingerprint != found[0].fingerprint:
                raise different_maps_error(piece.saying, found[0].saying)
        signature = reduce(lambda one, other: one.joined(other), (piece.signature for piece in found))
        most = max(found, key=lambda piece: int(piece.rows.sum()))
        labels = tuple(sorted({label for piece in found for label in piece.labels}))
        return Plan(pieces, signature, most.width, most.anchor, labels, joined.counts, joined.dropped)

    def blocks(self, plan: Plan) -> list[Block]:
        """Sums and peaks first, then one triangle per matrix, held by the workers that have seen the class."""
        known = tuple(piece is not None and piece.labels != () for piece in plan.pieces)
        if not plan.labels:
            return []
        first = Block((len(plan.labels) + plan.n_grams) * plan.width, known)
        holders = [tuple(piece is not None and label in piece.labels for piece in plan.pieces) for label in plan.labels]
        triangles = holders if plan.signature.per_class else [known]
        return [first, *(Block(triangle_size(plan.width), have) for have in triangles)]

    def pack(self, result: PartialResult, plan: Plan, index: int, out: NDArray[np.float64]) -> None:
        """Write numbers of a partial result, about the agreed anchor."""
        known = result.knowledge
        assert known is not None
        if index == 0:
            sums, peaks = sums_and_peaks(plan, out)
            out[:] = 0.0
            places = [plan.labels.index(label) for label in known.labels]
            sums[places], peaks[places if known.per_class else [0]] = reanchored_sums(known, plan.anchor)
        else:
            one = only(known, [plan.labels[index - 1]]) if known.per_class else known
            pack_triangle(reanchor(one, plan.anchor).grams[0], out)

    def total(self, plan: Plan, own: PartialResult | None = None) -> PartialResultTotal:
        """Start at zero, or at ``own``, to whose matrices the others are added in place."""
        total = PartialResultTotal(plan, self.features)
        known = None if own is None else own.knowledge
        if own is None or known is None or not known.labels:
            return total
        places = [plan.labels.index(label) for label in known.labels] if known.per_class else [0]
        as_it_is = own.upper_only and np.array_equal(known.anchor, plan.anchor)
        blocks = self.blocks(plan)
        for index in (0, *(() if as_it_is else (place + 1 for place in places))):
            numbers = np.empty(blocks[index].size)
            self.pack(own, plan, index, numbers)
            total.add(index, 0, numbers, last=False)
        if as_it_is:  # the matrices have no other owner
            for place, gram in zip(places, known.grams, strict=True):
                gram.flags.writeable = True
                total.grams[place] = gram
        return total


class PartialResultTotal(Total[PartialResult]):
    """Adds up the sums of all workers as they arrive. The plan does not contain the feature map."""

    def __init__(self, plan: Plan, features: Any) -> None:
        self._plan, self._features = plan, features
        self._first = np.zeros((len(plan.labels) + plan.n_grams) * plan.width)
        self.grams: list[NDArray[np.float64] | None] = [None] * plan.n_grams
        self._unfinished = set(range(plan.n_grams))

    def add(self, index: int, first: int, numbers: NDArray[np.float64], *, last: bool) -> None:
        """Add to the sums and peaks, or to the triangle of a matrix, which is filled after its last numbers."""
        if index == 0:
            self._first[first : first + len(numbers)] += numbers
            return
        place, width = index - 1, self._plan.width
        gram = self.grams[place]
        if gram is None and len(numbers) == triangle_size(width):
            gram = np.empty((width, width))
            unpack_triangle(numbers, gram)
        else:
            gram = np.zeros((width, width)) if gram is None else gram
            add_to_triangle(numbers, first, gram)
        self.grams[place] = gram
        if last:
            fill_lower(gram)
            self._unfinished.remove(place)

    def finish(self) -> PartialResult:
        """Return the merged result."""
        plan = self._plan
        found = [piece for piece in plan.pieces if piece is not None]
        signature = replace(plan.signature, features=self._features)
        if not plan.labels:
            return PartialResult(Knowledge.zero(signature, plan.anchor), plan.counts, plan.dropped)
        rows, counts = np.zeros(len(plan.labels), dtype=np.int64), np.zeros(len(plan.labels))
        for piece in found:
            at = [plan.labels.index(label) for label in piece.labels]
            rows[at] += piece.rows
            counts[at] += piece.counts
        sums, peaks = sums_and_peaks(plan, self._first)
        for place in self._unfinished:
            gram = self.grams[place]
            self.grams[place] = np.zeros((plan.width, plan.width)) if gram is None else fill_lower(gram)
        grams = tuple(gram for gram in self.grams if gram is not None)
        precision = lowest_precision(found)
        knowledge = Knowledge(signature, plan.anchor, plan.labels, rows, counts, sums, grams, peaks, precision)
        return PartialResult(recentred(knowledge), plan.counts, plan.dropped)


def sums_and_peaks(plan: Plan, block: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Split the first block into sums and peaks."""
    at = len(plan.labels) * plan.width
    return block[:at].reshape(-1, plan.width), block[at:].reshape(-1, plan.width)
