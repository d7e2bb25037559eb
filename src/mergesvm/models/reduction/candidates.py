"""Candidates: the rows among which the vectors of a smaller model are selected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.rows.base import Rows, spans

MIN_MAX_CANDIDATES, CANDIDATES_PER_VECTOR = 1200, 2
"""There are at most this number of candidates, or this number for each vector that is wanted."""

BLOCK_ROWS = 4096
"""Rows that are read at a time."""


@dataclass(frozen=True)
class Candidates:
    """Rows, their classes, and their indices among all rows that were given."""

    vectors: Any
    codes: NDArray[np.intp]
    indices: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, chosen: NDArray[Any]) -> Candidates:
        """Some of the candidates."""
        return Candidates(self.vectors[chosen], self.codes[chosen], self.indices[chosen])

    def joined(self, other: Candidates) -> Candidates:
        """These candidates followed by others; sparse if these are."""
        vectors = self.vectors, other.vectors
        if sparse.issparse(self.vectors):
            joined = sparse.vstack([sparse.csr_array(part) for part in vectors], format="csr")
        else:
            joined = np.concatenate([part.toarray() if sparse.issparse(part) else part for part in vectors])
        codes, indices = np.append(self.codes, other.codes), np.append(self.indices, other.indices)
        return Candidates(joined, codes, indices)

    def by_class(self) -> NDArray[np.intp]:
        """The order that sorts the candidates by class."""
        return np.argsort(self.codes, kind="stable")


def max_candidates(size: int) -> int:
    """The number of candidates for a model of this number of vectors."""
    return max(MIN_MAX_CANDIDATES, CANDIDATES_PER_VECTOR * size)


def sample(count: int, size: int) -> NDArray[np.intp]:
    """The positions of at most this number of rows, drawn at random, always the same; ascending.

    >>> sample(3, 5), len(sample(100, 5))
    (array([0, 1, 2]), 5)
    """
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, size, replace=False))


def rows_at(rows: Rows, positions: NDArray[np.intp]) -> Any:
    """Some rows, at ascending positions, as an array or CSR array."""
    parts = []
    for start, stop in spans(rows.n_rows, BLOCK_ROWS):
        inside = positions[(positions >= start) & (positions < stop)]
        if len(inside):
            parts.append(rows.block(start, stop)[inside - start])
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
