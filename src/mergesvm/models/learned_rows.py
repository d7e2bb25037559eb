"""The rows that were learned in folds, given once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data import Batch, Scan, spans
from mergesvm.engines import Threads
from mergesvm.errors import KnowledgeError, ParameterError
from mergesvm.knowledge import Folds
from mergesvm.knowledge.stream import Progress, batch_of
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

Numbers = NDArray[np.float64]

BLOCK_BYTES = 2**24
"""Rows are scored so many bytes at a time."""


@dataclass(frozen=True)
class LearnedRows:
    """The rows that were learned, once more, each with its fold."""

    folds: Folds
    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    numbers: Any
    engine: Threads
    progress: Progress | None = None

    def batches(self) -> Iterator[tuple[Batch, NDArray[np.int64]]]:
        """Rows, and the fold of each."""
        folding = self.folds.folding
        if isinstance(self.X, Scan):
            for part in self.X:
                if part.rows.n_rows:
                    batch = batch_of(part)
                    yield self._checked(batch), folding.numbers(batch.rows, folding.groups_of(part), self.engine)
                if self.progress is not None:
                    self.progress(self.X)
            return
        batch = Batch.of(self.X, self.y, self.sample_weight)
        if self.numbers is None:
            yield self._checked(batch), folding.numbers(batch.rows, self.groups, self.engine)
            return
        numbers = np.asarray(self.numbers)
        if numbers.shape != (batch.rows.n_rows,):
            raise ParameterError(f"numbers has to be the fold of each of {batch.rows.n_rows} rows.")
        yield self._checked(batch), numbers.astype(np.int64)

    def _checked(self, batch: Batch) -> Batch:
        signature = self.folds.signature
        if batch.rows.width != signature.inputs:
            raise ParameterError(f"The rows have {batch.rows.width} columns, but the folds {signature.inputs}.")
        strangers = [label for label in batch.labels.classes if label not in self.folds.labels]
        if strangers:
            raise ParameterError(
                f"Class {strangers[0]!r} is in none of the folds: rows can only be measured that were learned."
            )
        batch.rows.check_finite("before validating")
        return batch

    def decisions(self, models: Sequence[LinearModel | PairwiseModel]) -> tuple[Numbers, NDArray[np.intp], Numbers]:
        """Decisions (rows, columns) on the rows of each fold by its model, the places of their classes, and weights."""
        labels = self.folds.labels
        for fold, model in enumerate(models):
            missing = [label for label in labels if label not in model.labels]
            if missing:
                raise KnowledgeError(
                    f"All rows of class {missing[0]!r} lie in fold {fold}: without it, nothing tells of that class. "
                    f"Deal the rows out otherwise."
                )
        found: list[tuple[Any, ...]] = []
        for batch, numbers in self.batches():
            table = np.array([*(labels.index(label) for label in batch.labels.classes), -1], dtype=np.intp)
            codes = table[batch.labels.codes]
            weights = np.ones(len(codes)) if batch.weights is None else batch.weights
            for start, stop in spans(batch.rows.n_rows, max(256, BLOCK_BYTES // (8 * batch.rows.width))):
                block = batch.rows.block(start, stop)
                for fold, model in enumerate(models):
                    held = np.flatnonzero((numbers[start:stop] == fold) & (codes[start:stop] >= 0))
                    if len(held):
                        decided = model.decision_function(block[held])
                        found.append((decided.reshape(len(held), -1), codes[start + held], weights[start + held]))
        if not found:
            raise KnowledgeError("None of these rows lies in a fold.")
        scores, places, heavy = (np.concatenate(each) for each in zip(*found, strict=True))
        return scores, places, heavy
