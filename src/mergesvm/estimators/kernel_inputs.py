"""Input handling of ParallelKernelSVC: rows in memory, rows of MPI ranks, and partitions of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.engines.threads import resolve_engine
from mergesvm.errors import DataError, ParameterError
from mergesvm.estimators.base import BaseClassifier
from mergesvm.estimators.inputs import declare_classes, rows_to_learn
from mergesvm.methods.kernel.identity.row_ids import HASHED, as_row_ids, is_hashed
from mergesvm.methods.kernel.training import check_rows
from mergesvm.methods.kernel.units import Collection, RowIds


def rows_to_fit(
    estimator: BaseClassifier, X: Any, y: Any, sample_weight: Any, classes: Any, row_ids: Any
) -> tuple[Batch | Collection, RowIds]:
    """Rows for ``fit``, in memory or as a collection on the engine's workers, and the ids of those in memory."""
    if not is_collection(estimator, X):
        return rows_in_memory(estimator, X, y, sample_weight, classes, row_ids, reset=True)
    rows = _collection(estimator, X, y, sample_weight, row_ids, reset=True)
    declare_classes(estimator, (), classes)
    return rows, HASHED if is_hashed(row_ids) else None


def rows_to_forget(estimator: BaseClassifier, X: Any, y: Any, sample_weight: Any) -> Batch | Collection:
    """Rows for ``forget``, in memory or as a collection on the engine's workers."""
    if is_collection(estimator, X):
        return _collection(estimator, X, y, sample_weight, None, reset=False)
    return rows_in_memory(estimator, X, y, sample_weight, None, None, reset=False)[0]


def rows_in_memory(
    estimator: BaseClassifier, X: Any, y: Any, sample_weight: Any, classes: Any, row_ids: Any, *, reset: bool
) -> tuple[Batch, RowIds]:
    """Rows in memory and their ids; under MPI an error on one rank is raised on all."""
    if is_collection(estimator, X):
        raise ParameterError(
            "X is a collection, which fit and forget accept. Pass rows in memory, X.compute() and y.compute(), or call "
            "fit with all rows."
        )
    spread = resolve_engine(estimator.engine)[1]
    rows, labels = rows_to_learn(estimator, X, y, reset, estimator.engine, own=True)
    may_be_empty = spread is not None and spread.ranks.spmd

    def checked() -> tuple[Batch, RowIds]:
        batch = Batch.of(rows, labels, sample_weight, empty=may_be_empty)
        declare_classes(estimator, batch.labels.classes, classes)
        ids = row_ids if row_ids is None or is_hashed(row_ids) else as_row_ids(row_ids, batch.rows.n_rows)
        return batch if may_be_empty else check_rows(batch), ids

    return checked() if spread is None else spread.ranks.on_all(checked)


def ids_to_forget(estimator: BaseClassifier, row_ids: Any) -> Any:
    """The ids of rows to forget; under MPI an error on one rank is raised on all."""
    spread = resolve_engine(estimator.engine)[1]
    return as_row_ids(row_ids) if spread is None else spread.ranks.on_all(lambda: as_row_ids(row_ids))


def where_to_start(
    estimator: BaseClassifier, initial: Any, active_set: Any
) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
    """Dual variables and indices to start from; under MPI an error on one rank is raised on all."""

    def checked() -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
        alpha = None if initial is None else np.asarray(initial, dtype=np.float64)
        if alpha is not None and (alpha.ndim != 1 or not (alpha >= 0).all()):
            raise DataError(f"initial must contain one number per row, none below 0 or missing, got {initial!r}.")
        indices = None if active_set is None else np.asarray(active_set)
        if indices is not None and (indices.ndim != 1 or (len(indices) and indices.dtype.kind not in "iu")):
            raise ParameterError(f"initial_active_set must contain indices of rows, got {active_set!r}.")
        return alpha, None if indices is None else indices.astype(np.int64)

    spread = resolve_engine(estimator.engine)[1]
    return checked() if spread is None else spread.ranks.on_all(checked)


def is_collection(estimator: BaseClassifier, X: Any) -> bool:
    """Whether rows are a collection of the estimator's engine."""
    spread = resolve_engine(estimator.engine)[1]
    return spread is not None and spread.partitioned(X) is not None


def _collection(
    estimator: BaseClassifier, X: Any, y: Any, sample_weight: Any, row_ids: Any, *, reset: bool
) -> Collection:
    if y is None:
        raise DataError("Labels are missing: this requires y to be passed, but the target y is None.")
    rows_to_learn(estimator, X, y, reset, estimator.engine, own=True)
    names = getattr(estimator, "feature_names_in_", None)
    ids = None if is_hashed(row_ids) else row_ids
    return Collection(X, y, sample_weight, ids, estimator.n_features_in_, None if names is None else tuple(names))
