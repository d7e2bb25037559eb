"""RaggedArray: one list of entries per binary problem, stored in flat arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class RaggedArray:
    """Lists of rows with values, one list per problem, concatenated as in a CSR matrix.

    >>> ragged = RaggedArray.of([np.array([3, 1]), np.array([7])])
    >>> ragged.keys[ragged.span(1)], len(ragged)
    (array([7]), 2)
    """

    starts: NDArray[np.int64]  # list p is keys[starts[p] : starts[p + 1]]
    keys: NDArray[np.int64]  # the row of each entry
    values: NDArray[np.float64] | None = None  # of each entry

    @classmethod
    def of(cls, keys: list[NDArray[np.int64]], values: list[NDArray[np.float64]] | None = None) -> RaggedArray:
        """Concatenate one array of keys, and optionally of values, per problem."""
        starts = np.cumsum([0, *(len(part) for part in keys)], dtype=np.int64)
        joined = np.concatenate(keys) if keys else np.zeros(0, np.int64)
        return cls(starts, joined, np.concatenate(values) if values else None if values is None else np.zeros(0))

    @classmethod
    def empty(cls, problems: int) -> RaggedArray:
        """Empty lists for this number of problems."""
        return cls(np.zeros(problems + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def merged(cls, parts: list[RaggedArray]) -> RaggedArray:
        """Concatenate the lists of several ragged arrays, problem by problem.

        >>> one, other = RaggedArray.of([np.array([3]), np.array([7])]), RaggedArray.of([np.array([1]), np.array([5])])
        >>> RaggedArray.merged([one, other]).keys
        array([3, 1, 7, 5])
        """
        order = np.argsort(np.concatenate([part.problems for part in parts]), kind="stable")
        keys, values = np.concatenate([part.keys for part in parts]), [part.values for part in parts]
        starts = np.sum([part.starts for part in parts], axis=0)
        return cls(starts, keys[order], None if values[0] is None else np.concatenate(values)[order])  # type: ignore[arg-type]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of entries of each problem."""
        return np.diff(self.starts)

    @property
    def problems(self) -> NDArray[np.int64]:
        """The problem of each entry."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def span(self, problem: int) -> slice:
        """The slice of the entries of one problem."""
        return slice(int(self.starts[problem]), int(self.starts[problem + 1]))

    def __len__(self) -> int:
        return len(self.starts) - 1
