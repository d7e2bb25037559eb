"""Smaller models, fitted at the rows of all units: the rows stay there, except candidates for support vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.base import Actors, Engine
from mergesvm.methods.kernel.messages import RowPacket
from mergesvm.models.kernel import KernelModel
from mergesvm.models.reduction.candidates import Candidates, max_candidates, sample
from mergesvm.models.reduction.local import support_candidates
from mergesvm.models.reduction.path import ReducedPath, Reduction


class UnitReduction:
    """Reductions of a model at the rows of the units that trained it.

    Parameters
    ----------
    units : Actors of Unit
    engine : Engine
    model : KernelModel
        The full model.
    support : array of int
        Indices of its support vectors among all rows.
    n_given : int
        Number of all rows that were given, with those that have been removed since.
    """

    def __init__(
        self, units: Actors[Any], engine: Engine, model: KernelModel, support: NDArray[np.int64], n_given: int
    ) -> None:
        self._units, self._engine, self._model = units, engine, model
        self._support, self._n_given = support, n_given

    def reduced(self, size: int) -> tuple[KernelModel, NDArray[np.int64]]:
        """The model of this number of vectors, and their indices among all rows, in its order."""
        reduction = self._reduction(size)
        try:
            step = reduction.fitted(size)
            vectors = reduction.vectors_of(step)
            return reduction.built(step), vectors.indices[vectors.by_class()]
        finally:
            self._units.call("finish_reduction")

    def path(self, size: int) -> ReducedPath[KernelModel]:
        """The models of up to this number of vectors."""
        reduction = self._reduction(size)
        try:
            return reduction.path(size)
        finally:
            self._units.call("finish_reduction")

    def _reduction(self, size: int) -> Reduction[KernelModel]:
        def consult(decide: Callable[[list[Any]], Any], method: str, *arguments: Any) -> Any:
            return self._units.consult(decide, "reduce", method, *arguments)

        self._units.call("prepare_reduction", self._model)
        return Reduction(consult, self._engine.ranks.on_root, self._candidates(size), self._model.with_vectors)

    def _candidates(self, size: int) -> Candidates:
        """Support vectors and other rows, drawn by index, so that they do not depend on where rows are."""
        most = max_candidates(size)
        candidates = support_candidates(self._model.expansion, most // 2, self._support)
        others = np.setdiff1d(np.arange(self._n_given), self._support)
        wanted = others[sample(len(others), most - len(candidates))]
        packets: list[RowPacket] = self._units.call("rows_at", wanted)
        codes = {label: code for code, label in enumerate(self._model.labels)}
        for packet in packets:
            vectors = packet.rows
            if self._model.expansion.kernel.kind == "precomputed":
                vectors = packet.indices[:, None]  # the columns of kernel values that predictions need
            labels = np.array([codes[label] for label in packet.labels], dtype=np.intp)
            candidates = candidates.joined(Candidates(vectors, labels, packet.indices))
        return candidates.take(np.argsort(candidates.indices))
