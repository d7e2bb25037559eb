"""What all faces do with their inputs: names and width by scikit-learn's rules, and the map that a name stands for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from mergesvm.data import Rows, as_rows
from mergesvm.engines.engine import Engine, is_collection
from mergesvm.features import FeatureMap, as_map

INPUT_ATTRIBUTES = ("n_features_in_", "feature_names_in_")


@contextmanager
def input_kept_on_failure(estimator: BaseEstimator) -> Iterator[None]:
    """What fails, or is interrupted, teaches nothing, not even how many features there are."""
    before = {name: getattr(estimator, name) for name in INPUT_ATTRIBUTES if hasattr(estimator, name)}
    try:
        yield
    except BaseException:
        for name in INPUT_ATTRIBUTES:
            estimator.__dict__.pop(name, None)
        estimator.__dict__.update(before)
        raise


def rows_to_learn(estimator: BaseEstimator, X: Any, y: Any, reset: bool, engine: Any = None) -> tuple[Any, Any]:
    """Rows and labels to learn from; only names and width are checked, values where they are learned.

    Collections that lie on the workers of an engine stay what they are. Where each rank has its own rows, one may have
    none, and what is wrong at one of them is said by all.
    """
    if isinstance(engine, Engine) and engine.collective:
        return engine.together(lambda: _rows_to_learn(estimator, X, y, reset, empty=True))
    return _rows_to_learn(estimator, X, y, reset)


def _rows_to_learn(estimator: BaseEstimator, X: Any, y: Any, reset: bool, empty: bool = False) -> tuple[Any, Any]:
    if is_collection(X):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        if reset and hasattr(X, "columns"):
            estimator.feature_names_in_ = np.array(list(X.columns), dtype=object)
        return X, y
    rows = as_rows(X, empty=empty)
    validate_data(estimator, X, y, reset=reset, skip_check_array=True)
    names = getattr(estimator, "feature_names_in_", None)
    rows.names = None if names is None else tuple(names)  # what scikit-learn takes for names counts
    labels = column_or_1d(y, warn=True, dtype=None) if getattr(y, "ndim", 1) == 2 else y
    return rows, labels


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
