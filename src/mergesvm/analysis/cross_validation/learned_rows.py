"""The rows that folds were learned from, given again, each with its fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.scan import Scan
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, KnowledgeError, ParameterError
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.learning.local import Progress
from mergesvm.models.base import check_columns
from mergesvm.models.linear import LinearModel
from mergesvm.models.pairwise import PairwiseModel

Numbers = NDArray[np.float64]

WEIGHT_TOLERANCE = 1e-6
"""Relative difference of weights that is due to rounding."""

BLOCK_BYTES = 2**24
"""Rows are scored in blocks of this size."""


class LearnedBatch(NamedTuple):
    """Rows, the code of the class of each (-1 for weight 0), its weight, and its fold (-1 if it is never held out)."""

    rows: Rows
    codes: NDArray[np.intp]
    weights: Numbers
    folds: NDArray[np.int64]


@dataclass(frozen=True)
class LearnedRows:
    """The rows that folds were learned from; see :func:`~mergesvm.validate` for the arguments."""

    folds: Folds
    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    numbers: Any
    engine: Threads
    progress: Progress | None = None

    def batches(self) -> Iterator[LearnedBatch]:
        """The rows in batches."""
        assignment = self.folds.assignment
        if isinstance(self.X, Scan):
            self._check_columns(self.X.width, self.X.names)
            self.X.expect_labels(self.folds.signature.labels)
            for part in self.X:
                if part.rows.n_rows:
                    batch = part.batch()
                    encoded = self._encoded(batch)
                    folds = assignment.numbers(batch.rows, assignment.groups_of(part), self.engine)
                    yield LearnedBatch(*encoded, folds)
                if self.progress is not None:
                    self.progress(self.X)
            return
        batch = Batch.of(self.X, self.y, self.sample_weight)
        self._check_columns(batch.rows.width, batch.rows.names)
        if self.numbers is None:
            yield LearnedBatch(*self._encoded(batch), assignment.numbers(batch.rows, self.groups, self.engine))
            return
        numbers = np.asarray(self.numbers)
        valid = numbers.shape == (batch.rows.n_rows,) and numbers.dtype.kind in "iu"
        if not valid or numbers.min() < -1 or numbers.max() >= len(self.folds):
            raise ParameterError(
                f"numbers must be the fold of each of {batch.rows.n_rows} rows, from 0 to {len(self.folds) - 1}, or "
                f"-1 for a row that is never held out."
            )
        yield LearnedBatch(*self._encoded(batch), numbers.astype(np.int64))

    def check_complete(self, fold: int, totals: Numbers) -> None:
        """Raise an error if the weight of each class differs from that of the rows the fold was learned from."""
        part = self.folds[fold]
        learned = np.zeros(len(self.folds.labels))
        learned[[self.folds.labels.index(label) for label in part.labels]] = part.counts
        wrong = np.flatnonzero(np.abs(totals - learned) > WEIGHT_TOLERANCE * np.maximum(learned, totals))
        if len(wrong):
            at = wrong[0]
            raise DataError(
                f"Fold {fold} was learned from rows of class {self.folds.labels[at]!r} with a weight of "
                f"{learned[at]:g}, but those given have {totals[at]:g}. Give the rows, weights, groups or folds that "
                f"were learned."
            )

    def _check_columns(self, width: int, names: tuple[str, ...] | None) -> None:
        check_columns(width, names, self.folds.signature, "the folds were learned from", "folds.signature.names")

    def _encoded(self, batch: Batch) -> tuple[Rows, NDArray[np.intp], Numbers]:
        known = self.folds.labels
        unknown = [label for label in batch.labels.classes if label not in known]
        if unknown:
            raise ParameterError(f"Class {unknown[0]!r} is in none of the folds. Give only rows that were learned.")
        batch.rows.check_finite("before validating")
        table = np.array([*(known.index(label) for label in batch.labels.classes), -1], dtype=np.intp)
        weights = np.ones(batch.rows.n_rows) if batch.weights is None else batch.weights
        return batch.rows, table[batch.labels.codes], weights

    def decisions(self, models: Sequence[LinearModel | PairwiseModel]) -> tuple[Numbers, NDArray[np.intp], Numbers]:
        """Decisions (rows, columns) on the rows of each fold by its model, the codes of their classes, and weights."""
        labels = self.folds.labels
        for fold, model in enumerate(models):
            missing = [label for label in labels if label not in model.labels]
            if missing:
                raise KnowledgeError(
                    f"All rows of class {missing[0]!r} are in fold {fold}, so the model trained on the other folds has "
                    f"never seen it. Assign rows to folds differently: pass folds=[...] or different groups."
                )
        blocks = [part for batch in self.batches() for part in _decide(models, batch)]
        if not blocks:
            raise KnowledgeError("None of these rows is in a fold.")
        scores, codes, weights, numbers = (np.concatenate(each) for each in zip(*blocks, strict=True))
        for fold in range(len(models)):
            own = numbers == fold
            self.check_complete(fold, np.bincount(codes[own], weights[own], len(labels)).astype(np.float64))
        return scores, codes, weights


def _decide(
    models: Sequence[LinearModel | PairwiseModel], batch: LearnedBatch
) -> Iterator[tuple[Numbers, NDArray[np.intp], Numbers, NDArray[np.intp]]]:
    """Decisions, codes, weights and folds of blocks of held-out rows, each fold by its model."""
    rows, codes, weights, folds = batch
    for start, stop in spans(rows.n_rows, max(256, BLOCK_BYTES // (8 * rows.width))):
        block = rows.block(start, stop)
        for fold, model in enumerate(models):
            held_out = np.flatnonzero((folds[start:stop] == fold) & (codes[start:stop] >= 0))
            if len(held_out):
                decisions = model.decision_function(block[held_out]).reshape(len(held_out), -1)
                at = start + held_out
                yield decisions, codes[at], weights[at], np.full(len(held_out), fold)
