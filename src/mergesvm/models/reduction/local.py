"""Reductions whose rows are in this process: those of a caller, or the support vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.errors import DataError, ParameterError
from mergesvm.models.expansion import Expansion
from mergesvm.models.heldout_scores import class_indices
from mergesvm.models.reduction.candidates import Candidates, max_candidates, rows_at, sample
from mergesvm.models.reduction.path import Build, Reduction
from mergesvm.models.reduction.rows import PairScorer, ReductionRows

Model = TypeVar("Model")


class LabelledScorer(PairScorer, Protocol):
    """A model with one score per pair of classes that knows its classes."""

    labels: tuple[Label, ...]


def support_candidates(expansion: Expansion, size: int, indices: NDArray[np.int64] | None = None) -> Candidates:
    """At most this number of the support vectors as candidates; their indices are their positions by default."""
    codes = np.repeat(np.arange(len(expansion.counts)), expansion.counts)
    everything = Candidates(expansion.vectors, codes, np.arange(len(codes)) if indices is None else indices)
    return everything.take(sample(len(codes), size))


def reduction_at_support_vectors(model: LabelledScorer, size: int, build: Build[Model]) -> Reduction[Model]:
    """The reduction to up to ``size`` support vectors, fitted at all support vectors."""
    if model.expansion.kernel.kind == "precomputed":
        raise ParameterError(
            "A model with kernel='precomputed' knows no kernel values between its support vectors. Give X, rows of "
            "kernel values with all training rows."
        )
    candidates = support_candidates(model.expansion, max_candidates(size))
    return _reduction(ReductionRows(model, as_rows(model.expansion.vectors), None), candidates, build)


def reduction_at_rows(
    model: LabelledScorer, rows: Rows, y: Any, sample_weight: Any, size: int, build: Build[Model]
) -> Reduction[Model]:
    """The reduction to up to ``size`` support vectors or rows, fitted at the rows."""
    codes, weights = None, None
    if y is not None:
        batch = Batch.of(rows, y, sample_weight)
        encoded = batch.labels.codes
        codes = np.where(encoded >= 0, np.append(class_indices(batch, model.labels), -1)[encoded], -1)
        weights = batch.weights
    elif sample_weight is not None:
        weights = Batch.of(rows, np.zeros(rows.n_rows, np.int64), sample_weight).weights
    part = ReductionRows(model, rows, codes, weights)
    if not part.total_weight > 0:
        raise DataError("Fitting a smaller model needs at least one row with positive weight.")
    most = max_candidates(size)
    candidates = support_candidates(model.expansion, most // 2)
    if model.expansion.kernel.kind != "precomputed":  # rows of kernel values do not say which rows they are
        chosen = sample(rows.n_rows, most - len(candidates))
        none = np.full(len(chosen), -1, np.int64)
        candidates = candidates.joined(Candidates(rows_at(rows, chosen), part.classes_of(chosen), none))
    return _reduction(part, candidates, build)


def _reduction(part: ReductionRows, candidates: Candidates, build: Build[Model]) -> Reduction[Model]:
    def consult(decide: Callable[[list[Any]], Any], method: str, *arguments: Any) -> Any:
        return decide([getattr(part, method)(*arguments)])

    return Reduction(consult, lambda function: function(), candidates, build)
