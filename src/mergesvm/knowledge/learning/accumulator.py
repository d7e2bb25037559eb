"""Accumulates batches into knowledge."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.engines.machine import check_memory, fits_memory
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError
from mergesvm.knowledge.gram.dispatch import MAX_NARROW_WIDTH, accumulate
from mergesvm.knowledge.gram.running_sums import RunningSums
from mergesvm.knowledge.gram.triangles import fill_lower
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.signature import Signature


class Accumulator:
    """Sums about one anchor, to which batches are added in place; the kind of labels is taken from the batches."""

    def __init__(self, signature: Signature, anchor: NDArray[np.float64], engine: Threads, precision: str) -> None:
        self.signature, self.anchor = signature, anchor
        self._engine, self._precision = engine, precision
        self._rounded = self._upper_only = False
        self._sums = RunningSums(signature.width, not signature.per_class)
        self._rows: dict[object, int] = {}
        self._counts: dict[object, float] = {}

    def add(self, batch: Batch, signature: Signature, expected: float = 1.0) -> None:
        """Add a batch with the same signature; ``expected`` is the expected number of batches of this size."""
        self.signature = self.signature.joined(signature)
        classes = batch.labels.classes
        check_sums_fit(len({*self._rows, *classes}), self.signature)
        features = self.signature.features if self.signature.mapped else None
        upper_only = accumulate(batch, self._sums, self.anchor, self._engine, self._precision, expected, features)
        self._upper_only = self._upper_only or upper_only
        wide = features is not None or (batch.rows.width > MAX_NARROW_WIDTH and not isinstance(batch.rows, SparseRows))
        self._rounded = self._rounded or (wide and self._precision == "float32")
        counts: NDArray[Any] = batch.labels.rows
        if batch.weights is not None:
            # Rows of weight zero have code -1; their bin is left out.
            places = batch.labels.codes.astype(np.intp) + 1
            counts = np.bincount(places, batch.weights, minlength=len(classes) + 1)[1:]
            if not np.isfinite(counts).all():
                raise DataError("The sum of sample_weight overflows. Scale the weights down.")
        for label, rows, count in zip(classes, batch.labels.rows.tolist(), counts.tolist(), strict=True):
            self._rows[label] = self._rows.get(label, 0) + rows
            self._counts[label] = self._counts.get(label, 0.0) + count

    def knowledge(self, *, upper_only: bool = False) -> Knowledge:
        """Return the knowledge of all batches, the last call; ``upper_only`` allows lower triangles to be unfilled."""
        if self._upper_only and not upper_only:
            self._engine.map(fill_lower, self._sums.grams)
        sums, labels = self._sums, tuple(sorted(self._sums.places))
        at = [sums.places[label] for label in labels]
        grams = sums.grams if sums.pooled else [sums.grams[index] for index in at]
        return Knowledge(
            self.signature,
            self.anchor,
            labels,
            np.array([self._rows[label] for label in labels], dtype=np.int64),
            np.array([self._counts[label] for label in labels], dtype=np.float64),
            np.array([sums.totals[index] for index in at]).reshape(len(at), sums.width),
            tuple(grams),
            np.zeros((len(grams), sums.width)),
            "float32" if self._rounded else "float64",
        )


def check_sums_fit(n_classes: int, signature: Signature) -> None:
    """Raise an error if the sums would not fit into memory."""
    width, n_grams = signature.width, n_classes if signature.per_class else 1
    pooled = 8 * width**2
    offer = (
        f", or in the pooled form (per_class=False, --pooled), which takes {pooled / 1e9:,.1f} GB but allows no "
        f"one-vs-one and fixes class weights when learning"
        if signature.per_class and fits_memory(pooled)
        else ""
    )
    what = f"Knowledge of {n_grams} x {width:,} x {width:,} sums"
    check_memory(8 * n_grams * width**2, what, f"Learn from fewer features{offer}.")
