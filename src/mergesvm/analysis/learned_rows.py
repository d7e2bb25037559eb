"""The rows that were learned in folds, given once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import spans
from mergesvm.data.scan import Scan
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, KnowledgeError, ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.learning.local import Progress, batch_of
from mergesvm.models.base import check_columns
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

Numbers = NDArray[np.float64]

SAME = 1e-6
"""Weights that differ by no more than this share are the same but for rounding."""

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
            self._check_columns(self.X.width, self.X.names)
            for part in self.X:
                if part.rows.n_rows:
                    batch = batch_of(part)
                    yield self._checked(batch), folding.numbers(batch.rows, folding.groups_of(part), self.engine)
                if self.progress is not None:
                    self.progress(self.X)
            return
        batch = Batch.of(self.X, self.y, self.sample_weight)
        self._check_columns(batch.rows.width, batch.rows.names)
        if self.numbers is None:
            yield self._checked(batch), folding.numbers(batch.rows, self.groups, self.engine)
            return
        numbers = np.asarray(self.numbers)
        whole = numbers.shape == (batch.rows.n_rows,) and numbers.dtype.kind in "iu"
        if not whole or numbers.min() < -1 or numbers.max() >= len(self.folds):
            raise ParameterError(
                f"numbers has to be the fold of each of {batch.rows.n_rows} rows, from 0 to {len(self.folds) - 1}, or "
                f"-1 for one that is never held out."
            )
        yield self._checked(batch), numbers.astype(np.int64)

    def check_whole(self, fold: int, totals: Numbers) -> None:
        """Raise an error if the rows given, by the weight of each class, are not those of which a fold was learned."""
        part = self.folds[fold]
        learned = np.zeros(len(self.folds.labels))
        learned[[self.folds.labels.index(label) for label in part.labels]] = part.counts
        wrong = np.flatnonzero(np.abs(totals - learned) > SAME * np.maximum(learned, totals))
        if len(wrong):
            at = wrong[0]
            raise DataError(
                f"Fold {fold} was learned from rows of class {self.folds.labels[at]!r} that weigh {learned[at]:g}, and "
                f"those given weigh {totals[at]:g}: these are not the rows, weights, groups or folds that were learned."
            )

    def _check_columns(self, width: int, names: tuple[str, ...] | None) -> None:
        check_columns(width, names, self.folds.signature, "the folds were", "folds.signature.names")

    def _checked(self, batch: Batch) -> Batch:
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
                        decided = decided.reshape(len(held), -1)
                        numbered = np.full(len(held), fold)
                        found.append((decided, codes[start + held], weights[start + held], numbered))
        if not found:
            raise KnowledgeError("None of these rows lies in a fold.")
        scores, places, heavy, of_fold = (np.concatenate(each) for each in zip(*found, strict=True))
        for fold in range(len(models)):
            there = of_fold == fold
            self.check_whole(fold, np.bincount(places[there], heavy[there], len(labels)).astype(np.float64))
        return scores, places, heavy
