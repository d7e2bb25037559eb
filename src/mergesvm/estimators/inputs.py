"""What all faces do with their inputs: names and width by scikit-learn's rules, and the map that a name stands for."""

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
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.engines.registry import placed
from mergesvm.errors import ParameterError
from mergesvm.features.base import FeatureMap
from mergesvm.features.spec import as_map
from mergesvm.knowledge.learning.learn import agreed

INPUT_ATTRIBUTES = ("n_features_in_", "feature_names_in_")


@contextmanager
def restore_input_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """Restore ``n_features_in_`` and ``feature_names_in_`` if the block raises, or is interrupted."""
    before = {name: getattr(estimator, name) for name in INPUT_ATTRIBUTES if hasattr(estimator, name)}
    try:
        yield
    except BaseException:
        for name in INPUT_ATTRIBUTES:
            estimator.__dict__.pop(name, None)
        estimator.__dict__.update(before)
        raise


def rows_to_learn(
    estimator: BaseEstimator, X: Any, y: Any, reset: bool, engine: Any = None, *, own: bool = False
) -> tuple[Any, Any]:
    """Rows and labels to learn from; only names and width are checked, values where they are learned.

    Collections that lie on the workers of the engine stay what they are. Where many ranks run the same program, what is
    wrong at one of them is said by all; where each has its ``own`` rows, one may have none.
    """
    spread = placed(engine)[1]
    if spread is None:
        return _rows_to_learn(estimator, X, y, reset)
    if own and spread.holds(X):
        # Of a table only its columns are looked at, which an empty table of the same kind tells.
        validate_data(
            estimator, getattr(X, "_meta", X) if hasattr(X, "columns") else X, reset=reset, skip_check_array=True
        )
        return X, y
    return spread.together(lambda: _rows_to_learn(estimator, X, y, reset, empty=own and spread.collective))


def _rows_to_learn(estimator: BaseEstimator, X: Any, y: Any, reset: bool, empty: bool = False) -> tuple[Any, Any]:
    rows = as_rows(X, empty=empty)
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    rows.names = None if names is None else tuple(names)  # what scikit-learn takes for names counts
    labels = column_or_1d(y, warn=True, dtype=None) if getattr(y, "ndim", 1) == 2 else y
    return rows, labels


def check_classes(labels: Iterable[Label], classes: Any) -> None:
    """Raise an error for a label that is not among ``classes``, unless that is None."""
    allowed = list(labels if classes is None else classes)
    unknown = [label for label in labels if label not in allowed]
    if unknown:
        raise ParameterError(f"Class {unknown[0]!r} in y is not among the classes given: {allowed!r}.")


def frozen_map_of(mapping: FeatureMap, rows: Any, labels: Any, engine: Any) -> FeatureMap:
    """The map frozen on these rows, by one rank for all; collections leave it as it is."""
    if not isinstance(rows, Rows):
        return mapping
    return agreed(placed(engine)[1], partial(mapping.freeze, rows, labels), rows)


def rows_to_predict(estimator: BaseEstimator, X: Any) -> Rows:
    """Rows to predict, of a fitted estimator."""
    check_is_fitted(estimator)
    rows = as_rows(X)
    validate_data(estimator, X, reset=False, skip_check_array=True)
    return rows


def map_of(features: FeatureMap | str | None, n_features: int | None, random_state: Any) -> FeatureMap:
    """The map that is meant by the parameters ``features``, ``n_features`` and ``random_state``."""
    seed = random_state
    if isinstance(features, str) and not isinstance(seed, (int, np.integer)):
        seed = int(check_random_state(seed).randint(2**31 - 1))
    return as_map(features, n_features, seed)
