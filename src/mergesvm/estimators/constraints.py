"""Parameter constraints that several estimators declare."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, Options, StrOptions

from mergesvm.engines.base import Engine
from mergesvm.features.base import FeatureMap
from mergesvm.methods.proximal.options import MAX_C, MIN_C
from mergesvm.multiclass.class_weights import CLASS_WEIGHT_SCHEMES
from mergesvm.multiclass.decomposition import MULTICLASS_SCHEMES
from mergesvm.multiclass.votes import TIE_RULES


class Number(Interval):
    """An interval that excludes booleans, which ``Interval`` accepts as 0 and 1.

    >>> whole = Number(Integral, 1, None, closed="left")
    >>> whole.is_satisfied_by(3), whole.is_satisfied_by(True)
    (True, False)
    """

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether the value is a number within the interval."""
        return not isinstance(val, (bool, np.bool_)) and bool(super().is_satisfied_by(val))


POSITIVE_INTEGER = Number(Integral, 1, None, closed="left")
POSITIVE_NUMBER = Number(Real, 0, None, closed="neither")

SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "C": [Interval(Real, MIN_C, MAX_C, closed="both")],
    "class_weight": [StrOptions(set(CLASS_WEIGHT_SCHEMES)), Mapping, None],
    "multiclass": [StrOptions(set(MULTICLASS_SCHEMES))],
    "ties": [StrOptions(set(TIE_RULES))],
    "standardize": ["boolean"],
    "penalize_intercept": ["boolean"],
    "per_class": ["boolean"],
    "features": [FeatureMap, str, None],
    "n_features": [POSITIVE_NUMBER, None],  # the map "pca" takes a fraction of the variance
    "random_state": [Number(Integral, 0, None, closed="left"), np.random.RandomState, None],
    "precision": [StrOptions({"float32", "float64"}), None],
    "engine": [Engine, None],
    "n_jobs": [POSITIVE_INTEGER, Options(Integral, {-1}), None],
}
"""Constraints of the parameters that mean the same in every estimator."""
