"""KeptRows: the rows that stay in the working sets from one iteration to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.messages import EMPTY
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.subproblems import Subproblems


class KeptRows:
    """The free support vectors of the last working set of each problem, at most ``max_kept``, the newest first."""

    def __init__(self, n_problems: int, max_kept: int) -> None:
        self._n_problems, self._max_kept = n_problems, max_kept
        self._problems, self._indices = EMPTY, EMPTY  # of all kept rows; problems ascend

    def of(self, problems: NDArray[np.int64], registry: RowRegistry) -> RaggedArray:
        """Ids of the kept rows of some problems."""
        here = self._mask(problems)[self._problems]
        starts = np.append(np.searchsorted(self._problems[here], problems), here.sum())
        return RaggedArray(starts, registry.ids(self._indices[here]))

    def update(self, solved: NDArray[np.int64], row_indices: NDArray[np.int64], subproblems: Subproblems) -> None:
        """Keep the free support vectors of subproblems that have been solved."""
        free = np.flatnonzero((subproblems.alpha > 0) & (subproblems.alpha < subproblems.bound))
        problems, indices = solved[subproblems.problems[free]], row_indices[free]
        if len(free) and np.bincount(problems).max() > self._max_kept:
            problems, indices = self._newest(problems, indices)
        others = ~self._mask(solved)[self._problems]
        problems, indices = np.append(self._problems[others], problems), np.append(self._indices[others], indices)
        order = np.argsort(problems, kind="stable")
        self._problems, self._indices = problems[order], indices[order]

    def _newest(
        self, problems: NDArray[np.int64], indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """At most ``max_kept`` rows per problem, first those that were not kept before."""
        stride = 1 + max(indices.max(), self._indices.max(initial=0))
        old = np.isin(problems * stride + indices, self._problems * stride + self._indices)
        order = np.lexsort((old, problems))
        problems, indices = problems[order], indices[order]
        newest = np.arange(len(problems)) - np.searchsorted(problems, problems) < self._max_kept
        return problems[newest], indices[newest]

    def _mask(self, problems: NDArray[np.int64]) -> NDArray[np.bool_]:
        mask = np.zeros(self._n_problems, dtype=bool)
        mask[problems] = True
        return mask
