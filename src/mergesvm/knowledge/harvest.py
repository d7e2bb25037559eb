"""What a worker brings in, and how the harvests of all workers become one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.engines.joining import Addition, Block
from mergesvm.errors import DataError
from mergesvm.features import Identity
from mergesvm.knowledge.algebra import merge, reanchor, reanchored_sums, settled
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.parts import only
from mergesvm.knowledge.signature import Signature, unlike_maps
from mergesvm.knowledge.triangles import pack_triangle, triangle_size, unpacked


@dataclass(frozen=True)
class Harvest:
    """Knowledge, if there were rows, and where they came from.

    Attributes
    ----------
    knowledge : Knowledge or None
    counts : dict of source to int
        How many rows of each file were used.
    dropped : int
        How many were left out for missing values.
    """

    knowledge: Knowledge | None
    counts: dict[str, int] = field(default_factory=dict)
    dropped: int = 0

    def nothing(self) -> DataError:
        """The error for a harvest without knowledge."""
        where = f" in {next(iter(self.counts))}" if self.counts else ""
        what = "all rows have missing values" if self.dropped else "there are no rows"
        return DataError(f"There is nothing to learn{where}: {what}.")


@dataclass(frozen=True)
class Description:
    """What the others need to know of a harvest: everything but its sums.

    The feature map is described by its name and fingerprint: it may be large, and all have the same.
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
    """What all workers have agreed on: the terms, the anchor, and the classes with their counts."""

    pieces: tuple[Description | None, ...]
    signature: Signature
    width: int
    anchor: NDArray[np.float64]
    labels: tuple[Label, ...]
    counts: dict[str, int]
    dropped: int

    @property
    def n_grams(self) -> int:
        """How many Gram matrices there are."""
        return len(self.labels) if self.signature.per_class else min(1, len(self.labels))


class Gathering(Addition[Harvest]):
    """The sum of harvests.

    Across workers it is step 2 and step 4 of the parallel algorithm of Zhang and Zhu (2009): first the counts of all
    classes go to everyone, then the sums are added up along a cascade. The first block holds the sums of the classes
    and the peaks of their squares, each further one the triangle of a Gram matrix.

    Parameters
    ----------
    features : FeatureMap
        That of all knowledge to be gathered. It may be large, and stays where sums are unpacked: a copy that travels
        to add or to pack goes without it.
    """

    def __init__(self, features: Any) -> None:
        self.features = features

    def __reduce__(self) -> tuple[type[Gathering], tuple[None]]:
        return type(self), (None,)

    def __call__(self, results: Sequence[Harvest]) -> Harvest:
        """Harvests joined in this process."""
        pieces = [harvest.knowledge for harvest in results if harvest.knowledge is not None]
        counts = reduce(lambda one, other: one + other, (Counter(harvest.counts) for harvest in results))
        for harvest in results:  # a counter forgets files of which no row was used
            counts.update(dict.fromkeys(harvest.counts, 0))
        return Harvest(merge(pieces) if pieces else None, dict(counts), sum(harvest.dropped for harvest in results))

    def describe(self, result: Harvest) -> tuple[Description | None, dict[str, int], int]:
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
        joined = self([Harvest(None, counts, dropped) for _, counts, dropped in descriptions])
        pieces = tuple(piece for piece, _, _ in descriptions)
        if not found:
            raise joined.nothing()
        for piece in found[1:]:
            if piece.fingerprint != found[0].fingerprint:
                raise unlike_maps(piece.saying, found[0].saying)
        signature = reduce(lambda one, other: one.joined(other), (piece.signature for piece in found))
        most = max(found, key=lambda piece: int(piece.rows.sum()))
        labels = tuple(sorted({label for piece in found for label in piece.labels}))
        return Plan(pieces, signature, most.width, most.anchor, labels, joined.counts, joined.dropped)

    def alike(self, descriptions: Sequence[tuple[Description | None, dict[str, int], int]]) -> bool:
        """Whether all have the same classes about the same anchor."""
        first, *others = (piece for piece, _, _ in descriptions)
        return first is not None and all(
            piece is not None and piece.labels == first.labels and np.array_equal(piece.anchor, first.anchor)
            for piece in others
        )

    def blocks(self, plan: Plan) -> list[Block]:
        """Sums and peaks first, and then one triangle a matrix, held by the workers that have seen the class."""
        known = tuple(piece is not None and piece.labels != () for piece in plan.pieces)
        if not plan.labels:
            return []
        first = Block((len(plan.labels) + plan.n_grams) * plan.width, known)
        holders = [tuple(piece is not None and label in piece.labels for piece in plan.pieces) for label in plan.labels]
        triangles = holders if plan.signature.per_class else [known]
        return [first, *(Block(triangle_size(plan.width), have) for have in triangles)]

    def pack(self, result: Harvest, plan: Plan, index: int, out: NDArray[np.float64]) -> None:
        """The numbers of a harvest, about the anchor that was agreed on."""
        known = result.knowledge
        assert known is not None
        if index == 0:
            sums, peaks = self._first(plan, out)
            out[:] = 0.0
            places = [plan.labels.index(label) for label in known.labels]
            sums[places], peaks[places if known.per_class else [0]] = reanchored_sums(known, plan.anchor)
        else:
            one = only(known, [plan.labels[index - 1]]) if known.per_class else known
            pack_triangle(reanchor(one, plan.anchor).grams[0], out)

    def unpack(self, plan: Plan, totals: Iterable[NDArray[np.float64]]) -> Harvest:
        """The harvest of all."""
        found = [piece for piece in plan.pieces if piece is not None]
        signature = replace(plan.signature, features=self.features)
        if not plan.labels:
            return Harvest(Knowledge.zero(signature, plan.anchor), plan.counts, plan.dropped)
        blocks = iter(totals)
        sums, peaks = (array.copy() for array in self._first(plan, next(blocks)))
        grams = unpacked(blocks, plan.width)
        rows, counts = np.zeros(len(plan.labels), dtype=np.int64), np.zeros(len(plan.labels))
        for piece in found:
            at = [plan.labels.index(label) for label in piece.labels]
            rows[at] += piece.rows
            counts[at] += piece.counts
        precision = "float32" if any(piece.precision == "float32" for piece in found) else "float64"
        knowledge = Knowledge(signature, plan.anchor, plan.labels, rows, counts, sums, grams, peaks, precision)
        return Harvest(settled(knowledge), plan.counts, plan.dropped)

    @staticmethod
    def _first(plan: Plan, block: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        at = len(plan.labels) * plan.width
        return block[:at].reshape(-1, plan.width), block[at:].reshape(-1, plan.width)
