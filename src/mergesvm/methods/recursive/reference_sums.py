"""Sums of all rows beside a live model: exact knowledge, to which new rows are added in blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import CategoricalLabels, Label
from mergesvm.knowledge.algebra import added, decayed, subtracted, without_negligible
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.learn import learn
from mergesvm.methods.recursive.row_encoder import EncodedRows

MAX_BUFFER_BYTES = 2**26
"""Memory of the rows that wait to be summed."""

DEFAULT_BUFFER_ROWS, MIN_BUFFER_ROWS = 4096, 16


class ReferenceSums:
    """Knowledge of rows of features, and a buffer of rows that are not summed yet; its provenance stays as it is.

    Every new row multiplies the weight of all earlier rows by the factor ``forgetting``.

    >>> import mergesvm as ms
    >>> reference = ReferenceSums(ms.Knowledge.zero(ms.Signature(ms.features.Identity(), 1)))
    >>> reference.append(EncodedRows(np.array([[1.0], [2.0]]), np.array([0, 1]), np.ones(2)), ["a", "b"])
    >>> reference.knowledge(["a", "b"])
    Knowledge of 2 rows x 1 feature in 2 classes: a 1, b 1
    """

    def __init__(self, known: Knowledge, forgetting: float = 1.0) -> None:
        self.known, self.forgetting = known, forgetting
        self._new_buffer()

    def _new_buffer(self) -> None:
        # A buffer as large as the sums makes additions to them rare.
        width = self.known.width
        wanted = max(DEFAULT_BUFFER_ROWS, len(self.known.grams) * width)
        self.capacity = max(MIN_BUFFER_ROWS, min(wanted, MAX_BUFFER_BYTES // (8 * width)))
        # Memory is never reused, so that the rows of a checkpoint stay unchanged.
        rows, codes = np.empty((self.capacity, width)), np.empty(self.capacity, dtype=np.int64)
        self._buffer, self._n_buffered = EncodedRows(rows, codes, np.empty(self.capacity)), 0

    def append(self, part: EncodedRows, labels: list[Label]) -> None:
        """Put rows into the buffer, no more than :attr:`free_rows`."""
        start, stop = self._n_buffered, self._n_buffered + len(part.rows)
        rows, codes, weights = self._buffer
        if part.rows.base is not rows:  # otherwise it is next_slot(), which is in place already
            rows[start:stop], codes[start:stop], weights[start:stop] = part
        self._n_buffered = stop
        if stop == self.capacity:
            self.knowledge(labels)

    def next_slot(self) -> EncodedRows:
        """Memory of the next row in the buffer; filling it before :meth:`append` saves a copy."""
        return self._buffer.slice(self._n_buffered, self._n_buffered + 1)

    def last_rows(self, n_rows: int) -> EncodedRows:
        """The last rows of the buffer."""
        return self._buffer.slice(self._n_buffered - n_rows, self._n_buffered)

    @property
    def free_rows(self) -> int:
        """Number of rows that fit into the buffer."""
        return self.capacity - self._n_buffered

    def add(self, part: EncodedRows, labels: list[Label]) -> None:
        """Add rows to the sums, the newest last."""
        self.known = self._with(self.knowledge(labels), part, labels)

    def add_batch(self, batch: Batch, weights: NDArray[np.float64], labels: list[Label]) -> None:
        """Add rows that are not mapped yet, the newest last."""
        known, signature = self.knowledge(labels), self.known.signature
        counted = weights > 0
        if self.forgetting != 1:
            weights = weights * self.forgetting ** (counted.sum() - np.cumsum(counted))
        piece = learn(
            batch.rows,
            CategoricalLabels(np.maximum(batch.labels.codes, 0), batch.labels.classes),
            None if (weights == 1).all() else weights,
            features=signature.features,
            per_class=signature.per_class,
            anchor=known.anchor if known.labels else None,
            precision="float64",
        )
        factor = self.forgetting ** int(counted.sum())
        earlier = known if factor == 1 else decayed(known, factor)
        total = added([earlier, replace(piece, signature=signature)])
        self.known = total if self.forgetting == 1 else without_negligible(total)

    def subtract(self, part: EncodedRows, labels: list[Label]) -> None:
        """Subtract rows from the sums."""
        self.known = subtracted(self.knowledge(labels), self.piece(part, labels))

    def knowledge(self, labels: list[Label]) -> Knowledge:
        """Knowledge of all rows, including those in the buffer."""
        if self._n_buffered:
            self.known = self._with(self.known, self._buffer.slice(0, self._n_buffered), labels)
            self._new_buffer()
        return self.known

    def _with(self, known: Knowledge, part: EncodedRows, labels: list[Label]) -> Knowledge:
        if self.forgetting == 1:
            return added([known, self.piece(part, labels)])
        weights = part.weights * self.forgetting ** np.arange(len(part.rows) - 1, -1, -1.0)
        new = self.piece(part._replace(weights=weights), labels)
        return without_negligible(added([decayed(known, self.forgetting ** len(part.rows)), new]))

    def piece(self, part: EncodedRows, labels: list[Label]) -> Knowledge:
        """Knowledge of these rows alone."""
        signature, coded = self.known.signature, CategoricalLabels(part.codes, tuple(labels))
        anchor = self.known.anchor if self.known.labels else None
        weights = None if (part.weights == 1).all() else part.weights
        piece = learn(part.rows, coded, weights, per_class=signature.per_class, anchor=anchor)
        return replace(piece, signature=signature, provenance=())

    def set_label_kind(self, kind: str) -> None:
        """Note the kind of the labels in the signature."""
        self.known = replace(self.known, signature=replace(self.known.signature, labels=kind))

    def __getstate__(self) -> dict[str, Any]:
        buffered = tuple(self._buffer.slice(0, self._n_buffered))
        return {"known": self.known, "forgetting": self.forgetting, "buffered": buffered}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["known"], state["forgetting"])  # type: ignore[misc]
        self._n_buffered = len(state["buffered"][0])
        for array, values in zip(self._buffer, state["buffered"], strict=True):
            array[: self._n_buffered] = values

    def checkpoint(self) -> tuple[Knowledge, EncodedRows, int]:
        """What :meth:`rollback` needs, without copies."""
        return self.known, self._buffer, self._n_buffered

    def rollback(self, checkpoint: tuple[Knowledge, EncodedRows, int]) -> None:
        """Undo everything since the checkpoint."""
        self.known, self._buffer, self._n_buffered = checkpoint
        self.capacity = len(self._buffer.rows)
