"""WarmStart: the dual solution of the last training run, from which the next one starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.messages import EMPTY, Request
from mergesvm.methods.kernel.ragged_array import RaggedArray
from mergesvm.methods.kernel.setup import Pair, TrainingSetup
from mergesvm.methods.kernel.stats import TINY

Coefs = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Indices of the support vectors of a problem, and their y alpha."""


class WarmStart:
    """y alpha of all support vectors, and the steps that make it feasible again when rows or bounds change."""

    def __init__(self, registry: RowRegistry) -> None:
        self._registry = registry
        self._coefs: dict[Pair, Coefs] = {}
        self._bounds: dict[Pair, NDArray[np.float64]] = {}

    def save(self, pairs: Sequence[Pair], coefs: RaggedArray) -> None:
        """Keep the solution of a training run."""
        assert coefs.values is not None
        spans = [coefs.span(p) for p in range(len(coefs))]
        self._coefs = {pair: (coefs.keys[span], coefs.values[span]) for pair, span in zip(pairs, spans, strict=True)}

    def support(self, pairs: Sequence[Pair]) -> RaggedArray:
        """Y alpha of the support vectors of each problem, by id."""
        saved = [self._of(pair) for pair in pairs]
        return RaggedArray.of([self._registry.ids(indices) for indices, _ in saved], [coefs for _, coefs in saved])

    def removal(self, setup: TrainingSetup, removed: NDArray[np.int64]) -> Request:
        """Steps that set y alpha of some rows to zero, and reduce that of others to keep y'alpha = 0 if it must be."""
        keys, values = [], []
        for pair in setup.pairs:
            indices, coefs = self._of(pair)
            leaving = np.isin(indices, removed)
            steps = np.where(leaving, -coefs, 0.0)
            missing = -steps.sum()  # by which y'alpha of the remaining rows differs from 0
            if setup.penalty < 0 and missing != 0:
                reduced = ~leaving & (coefs * missing < 0)
                fraction = min(1.0, abs(missing) / max(np.abs(coefs[reduced]).sum(), TINY))
                steps[reduced] = -coefs[reduced] * fraction
            moving = np.flatnonzero(steps)
            keys.append(self._registry.ids(indices[moving]))
            values.append(steps[moving])
            left = coefs + steps
            kept = ~leaving & (left != 0)
            self._coefs[pair] = indices[kept], left[kept]
        return Request.move(np.arange(len(setup.pairs)), RaggedArray.of(keys, values))

    def rescaling(self, setup: TrainingSetup) -> Request:
        """Steps that bring alpha within bounds that have decreased, as those that depend on class counts may.

        All alpha of a problem are scaled by the same factor, which preserves y'alpha = 0.
        """
        moved, keys, values = [], [], []
        for p, pair in enumerate(setup.pairs):
            before = self._bounds.get(pair, setup.bounds[p])
            factor = float(np.divide(setup.bounds[p], before, out=np.ones(2), where=before > 0).min())
            indices, coefs = self._of(pair)
            if factor < 1 and len(indices):
                moved.append(p)
                keys.append(self._registry.ids(indices))
                values.append((factor - 1) * coefs)
                self._coefs[pair] = indices, factor * coefs
        self._bounds = dict(zip(setup.pairs, setup.bounds, strict=True))
        return Request.move(np.array(moved, np.int64), RaggedArray.of(keys, values))

    def _of(self, pair: Pair) -> Coefs:
        return self._coefs.get(pair, (EMPTY, np.zeros(0)))
