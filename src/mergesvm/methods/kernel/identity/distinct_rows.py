"""DistinctRows: decides which of the new rows are learned, if rows with the same id count once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DataError
from mergesvm.methods.kernel.identity.row_ids import joined_ids


@dataclass(frozen=True)
class RowIdentities:
    """Ids of rows of a unit, their indices among all rows, and digests of their values, class and weight."""

    ids: NDArray[Any]
    indices: NDArray[np.int64]
    digests: NDArray[np.bytes_]

    @classmethod
    def none(cls) -> RowIdentities:
        """Those of no rows."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, "S1"))

    @classmethod
    def joined(cls, parts: list[RowIdentities]) -> RowIdentities:
        """Those of several units, one after the other."""
        ids = joined_ids([part.ids for part in parts])
        indices, digests = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "digests"))
        return cls(ids, indices, digests)


@dataclass(frozen=True)
class KeptRows:
    """The new rows that a unit learns: their indices as they were given, and as they are from now on."""

    given: NDArray[np.int64]
    indices: NDArray[np.int64]  # ascending


class DistinctRows:
    """Decides which copy of each row is learned; rows themselves are not needed, only their identities.

    Copies of a row are spread over the units that hold one, so that each learns about the same number. Whichever is
    learned, it has the index of the first. A new copy of a row that was learned earlier is dropped.
    """

    def __init__(self, *, hashed: bool) -> None:
        self._hashed = hashed

    def collect(self, parts: list[RowIdentities]) -> NDArray[Any]:
        """Take the identities of the new rows of each unit, and return the distinct ids."""
        self._new = new = RowIdentities.joined(parts)
        self._units = np.repeat(np.arange(len(parts)), [len(part.ids) for part in parts])
        ids, self._first, self._groups = np.unique(new.ids, return_index=True, return_inverse=True)
        self._check_equal(new, np.arange(len(new.ids)), new, self._first[self._groups])
        return ids

    def decide(self, held: list[RowIdentities]) -> list[KeptRows]:
        """The new rows that each unit learns; ``held`` are rows learned earlier, those with one of the distinct ids."""
        new, known = self._new, RowIdentities.joined(held)
        at = np.searchsorted(new.ids[self._first], known.ids)
        self._check_equal(new, self._first[at], known, np.arange(len(at)))
        sizes = np.bincount(self._groups, minlength=len(self._first))
        shared = np.cumsum(sizes > 1) - 1  # numbers the ids that several rows have
        chosen = np.where(sizes > 1, shared, 0) % np.maximum(sizes, 1)
        chosen[at] = -1
        order = np.argsort(self._groups, kind="stable")
        groups = self._groups[order]
        copies = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[groups]
        kept = order[copies == chosen[groups]]
        kept = kept[np.argsort(self._first[self._groups[kept]])]
        units, given, indices = self._units[kept], new.indices[kept], new.indices[self._first[self._groups[kept]]]
        return [KeptRows(given[units == unit], indices[units == unit]) for unit in range(len(held))]

    def _check_equal(self, new: RowIdentities, at: Any, others: RowIdentities, other_at: Any) -> None:
        """Raise an error if a row has the id of a different one."""
        wrong = np.flatnonzero(new.digests[at] != others.digests[other_at])
        if not len(wrong):
            return
        row, other = at[wrong[0]], other_at[wrong[0]]
        places = f"rows {others.indices[other]} and {new.indices[row]}, counted over all rows as in support_,"
        if self._hashed:
            raise DataError(f"The same row has different weights: {places} are equal otherwise. Weigh them equally.")
        raise DataError(
            f"Row id {new.ids[row].item()!r} belongs to different rows: {places} differ in values, class or weight. "
            f"Give every row an id of its own."
        )
