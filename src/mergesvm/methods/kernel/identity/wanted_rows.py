"""WantedRows: rows to forget, which are looked for at all units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import SubtractionError
from mergesvm.methods.kernel.identity.row_ids import joined_ids

Found = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows that a unit has found: the number of the key of each, and its index among all rows."""


class WantedRows:
    """The keys of rows to forget: their digests, or their ids.

    Parameters
    ----------
    parts : list of array
        Keys by the place that names them, such as a rank. Empty digests are of rows of weight 0, which were never
        learned.
    name : callable
        Returns what errors call a row, from the number of its part and its position there.
    once : bool
        Whether a row that is named several times counts once.
    """

    def __init__(self, parts: list[NDArray[Any]], name: Callable[[int, int], str], *, once: bool) -> None:
        self._name, self._once = name, once
        keys = joined_ids(parts)
        learned = np.flatnonzero(keys != b"") if keys.dtype.kind == "S" else np.arange(len(keys))
        self._places = np.array([(part, row) for part, keys in enumerate(parts) for row in range(len(keys))])[learned]
        self.keys, self._numbers = np.unique(keys[learned], return_inverse=True)  # sorted

    def matched(self, found: list[Found]) -> NDArray[np.int64]:
        """The indices of the rows to forget, ascending; an error if a row was not found, or not often enough."""
        numbers, indices = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        order = np.lexsort((indices, numbers))
        numbers, indices = numbers[order], indices[order]
        available = np.bincount(numbers, minlength=len(self.keys))
        wanted = np.bincount(self._numbers, minlength=len(self.keys))
        if self._once:
            wanted = np.minimum(wanted, 1)
        self._check(wanted, available)
        copies = np.arange(len(numbers)) - (np.cumsum(available) - available)[numbers]
        return np.sort(indices[copies < wanted[numbers]])

    def _check(self, wanted: NDArray[np.int64], available: NDArray[np.int64]) -> None:
        lacking = available < wanted
        if not lacking.any():
            return
        rows = np.flatnonzero(lacking[self._numbers])
        number = self._numbers[rows[0]]
        first = rows[self._numbers[rows] == number][available[number]]
        row = self._name(*self._places[first].tolist())
        how = (
            "" if self.keys.dtype.kind != "S" else ", or occurs more often here: values, class and weight must be equal"
        )
        raise SubtractionError(f"{row} is not among the rows that were learned{how}. Nothing was changed.")


def positions_in(keys: NDArray[Any], sorted_keys: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The positions of the keys that are among the sorted ones, and where they are among those.

    >>> positions_in(np.array([5, 3, 7]), np.array([3, 4, 5]))
    (array([0, 1]), array([2, 0]))
    """
    if not len(sorted_keys):
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    here = np.flatnonzero(sorted_keys[at] == keys)
    return here, at[here]
