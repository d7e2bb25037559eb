"""Input handling of all estimators: rows, labels, feature names and feature maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.data.scan import Scan
from mergesvm.engines.threads import resolve_engine
from mergesvm.errors import ParameterError
from mergesvm.estimators.classes import LabelType, all_labels, declared_labels
from mergesvm.features.base import FeatureMap
from mergesvm.knowledge.learning.learner import freeze_on_root

INPUT_ATTRIBUTES = ("n_features_in_", "feature_names_in_", "_categories", "_label_type", "_declared")
"""What an estimator keeps of its input beside the result."""


def input_of(estimator: BaseEstimator) -> dict[str, Any]:
    """What an estimator keeps of its input, such as ``n_features_in_``."""
    return {name: getattr(estimator, name) for name in INPUT_ATTRIBUTES if hasattr(estimator, name)}


def set_input(estimator: BaseEstimator, kept: dict[str, Any]) -> None:
    """Replace what an estimator keeps of its input by that of another time, or of another rank."""
    for name in INPUT_ATTRIBUTES:
        vars(estimator).pop(name, None)
    vars(estimator).update(kept)


@contextmanager
def restore_input_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """Restore what is kept of the input, such as ``n_features_in_``, if the block raises, or is interrupted."""
    before = input_of(estimator)
    try:
        yield
    except BaseException:
        set_input(estimator, before)
        raise


def rows_to_learn(
    estimator: BaseEstimator, X: Any, y: Any, reset: bool, engine: Any = None, *, own: bool = False
) -> tuple[Any, Any]:
    """Convert rows and labels to learn from; feature names and their number are checked, values only when learned.

    Collections of the engine are returned unchanged. If several ranks run the same program, an error on one rank is
    raised on all. If each rank has its ``own`` rows, a rank may have none. With ``reset``, classes declared earlier are
    no longer declared.
    """
    _keep_label_type(estimator, y, reset)
    spread = resolve_engine(engine)[1]
    if spread is None:
        return _rows_to_learn(estimator, X, y, reset)
    if own and spread.partitioned(X) is not None:
        # Only the columns are checked, and for those the empty metadata table of Dask is enough.
        validate_data(
            estimator, getattr(X, "_meta", X) if hasattr(X, "columns") else X, reset=reset, skip_check_array=True
        )
        return X, y
    return spread.ranks.on_all(lambda: _rows_to_learn(estimator, X, y, reset, empty=own and spread.ranks.spmd))


def _rows_to_learn(estimator: BaseEstimator, X: Any, y: Any, reset: bool, empty: bool = False) -> tuple[Any, Any]:
    rows = as_rows(X, empty=empty)
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    rows.names = None if names is None else tuple(names)  # only names that scikit-learn accepts
    rows.categories = getattr(estimator, "_categories", ())
    labels = column_or_1d(y, warn=True, dtype=None) if getattr(y, "ndim", 1) == 2 else y
    return rows, labels


def keep_columns_of_scan(estimator: BaseEstimator, scan: Scan, y: Any, sample_weight: Any, reset: bool) -> None:
    """Keep the columns of a scan as those of the input, and raise an error for labels or weights beside it."""
    if y is not None or sample_weight is not None:
        raise ParameterError("A scan has labels and weights of its own: leave out y and sample_weight.")
    _keep_label_type(estimator, None, reset)
    if reset:
        set_input_columns(estimator, scan.layout)


def _keep_label_type(estimator: BaseEstimator, y: Any, reset: bool) -> None:
    kind = LabelType() if y is None else LabelType.of(y)
    if reset:
        vars(estimator).pop("_declared", None)
        vars(estimator).pop("_categories", None)
    else:
        kind = kind.joined(getattr(estimator, "_label_type", kind))
    estimator._label_type = kind


def declare_classes(estimator: BaseEstimator, labels: Iterable[Label], classes: Any) -> None:
    """Declare the ``classes`` given to ``partial_fit``, and raise an error for a label in y that is not among them.

    Classes stay declared until the next ``fit``. Without ``classes``, those of earlier calls hold; if there are none,
    any label is allowed.
    """
    before, declared = getattr(estimator, "_declared", ()), declared_labels(classes)
    allowed = declared or before
    unknown = [label for label in labels if label not in allowed] if allowed else []
    if unknown:
        raise ParameterError(
            f"Class {unknown[0]!r} in y is not among the classes given: {list(allowed)!r}. Give all as classes=."
        )
    if declared:
        estimator._declared = all_labels(before, declared)


def join_classes(estimator: BaseEstimator, other: BaseEstimator, reset: bool) -> None:
    """Take over the declared classes and the type of the labels of another estimator."""
    declared, kind = other._declared, other._label_type
    if not reset:
        declared, kind = all_labels(estimator._declared, declared), kind.joined(estimator._label_type)
    estimator._declared, estimator._label_type = declared, kind


def frozen_map_of(mapping: FeatureMap, rows: Any, labels: Any, engine: Any) -> FeatureMap:
    """Freeze the map on these rows or files, on one rank for all; with collections it stays as it is."""
    if not isinstance(rows, (Rows, Scan)):
        return mapping
    return freeze_on_root(resolve_engine(engine)[1], partial(mapping.freeze, rows, labels), rows)


def rows_to_predict(estimator: BaseEstimator, X: Any) -> Rows:
    """Convert rows to predict; raises an error if the estimator is not fitted."""
    check_is_fitted(estimator)
    rows = as_rows(X)
    validate_data(estimator, X, reset=False, skip_check_array=True)
    return rows


def seed_of(random_state: Any) -> int:
    """A seed from ``random_state``, drawn if it is None or a generator."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def set_input_columns(estimator: BaseEstimator, layout: Layout) -> None:
    """Set ``n_features_in_`` and ``feature_names_in_`` as scikit-learn does for a table."""
    estimator.n_features_in_, estimator._categories = layout.width, layout.categories
    vars(estimator).pop("feature_names_in_", None)
    if layout.names is not None:
        estimator.feature_names_in_ = np.array(layout.names, dtype=object)
