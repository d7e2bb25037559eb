"""SubproblemMatrices: kernel matrices of the working sets, updated from one iteration to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.features.scratch import Scratch
from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.messages import EMPTY
from mergesvm.methods.kernel.setup import TrainingSetup

MAX_CACHED_BYTES = 64 * 2**20
"""Keep the kernel matrices of all working sets if they take no more memory than this."""

MIN_REUSED_FRACTION = 1 / 4
"""Reuse a matrix if at least this fraction of its rows is still in the working set."""

SCRATCH = Scratch()


class SubproblemMatrices:
    """Kernel matrices of the working sets; most of their rows stay from one iteration to the next."""

    def __init__(self, setup: TrainingSetup, registry: RowRegistry) -> None:
        self._kernel, self._dtype, self._registry = setup.kernel, setup.dtype, registry
        self._matrices: dict[int, tuple[NDArray[np.int64], NDArray[Any]]] = {}

    def get(self, problem: int, indices: NDArray[np.int64], n_problems: int) -> NDArray[Any]:
        """The kernel matrix of these rows of a problem; it may be overwritten by the next call in the same thread."""
        from mergesvm.methods.kernel.jit.scores import assemble_matrix

        kernel, rows = self._kernel, self._registry.lifted.take(self._registry.positions(indices))
        count = len(indices)
        if n_problems * count**2 * self._dtype.itemsize > MAX_CACHED_BYTES:
            K = SCRATCH.take("matrix", (count, count), self._dtype)
            kernel.fill(kernel.turn(rows), rows, K)
            return K
        K = np.empty((count, count), dtype=self._dtype)
        before, old = self._matrices.pop(problem, (EMPTY, K[:0]))
        sorter = np.argsort(indices)
        positions = sorter[np.minimum(np.searchsorted(indices, before, sorter=sorter), count - 1)]
        stayed = np.flatnonzero(indices[positions] == before)
        if len(stayed) < int(MIN_REUSED_FRACTION * count):
            kernel.fill(kernel.turn(rows), rows, K)
        else:
            fresh = np.setdiff1d(np.arange(count), positions[stayed], assume_unique=True)
            part = SCRATCH.take("part", (len(fresh), count), self._dtype)
            kernel.fill(kernel.turn(rows.take(fresh)), rows, part)
            assemble_matrix(K, old, stayed, positions[stayed], part, fresh)
        self._matrices[problem] = indices, K
        return K
