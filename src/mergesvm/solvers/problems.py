"""The binary problems that a problem of many classes falls into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import FormError
from mergesvm.knowledge import Knowledge
from mergesvm.solvers.weighting import check_scheme, given_weights, side_weights


@dataclass(frozen=True)
class Problems:
    """Binary problems as two tables, problems x classes.

    Attributes
    ----------
    signs : array of {-1, 0, +1}
        Which side each class takes; 0 where it takes no part.
    weights : array
        The weight of each class; 0 where it takes no part.
    """

    signs: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.signs)


def one_vs_rest(knowledge: Knowledge, class_weight: Mapping[Any, float] | str | None = None) -> Problems:
    """Each class against all others; for two classes one problem, the second class against the first.

    >>> import mergesvm as ms
    >>> k = ms.learn([[1.0], [2.0], [3.0], [4.0]], ["a", "b", "c", "c"])
    >>> one_vs_rest(k, "balanced").weights
    array([[2.        , 0.66666667, 0.66666667],
           [0.66666667, 2.        , 0.66666667],
           [1.        , 1.        , 1.        ]])
    """
    n_classes = len(knowledge.labels)
    positive = range(n_classes) if n_classes > 2 else range(n_classes - 1, n_classes)
    signs = np.full((len(positive), n_classes), -1.0)
    signs[np.arange(len(positive)), positive] = 1.0
    return _weighted(knowledge, signs, class_weight)


def one_vs_one(knowledge: Knowledge, class_weight: Mapping[Any, float] | str | None = None) -> Problems:
    """Each pair of classes by itself, in the order (0, 1), (0, 2), ..., (1, 2), ...; the second is the positive one.

    >>> import mergesvm as ms
    >>> one_vs_one(ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "c"])).signs
    array([[-1.,  1.,  0.],
           [-1.,  0.,  1.],
           [ 0., -1.,  1.]])
    """
    if not knowledge.per_class:
        raise FormError(
            "One-vs-one needs the Gram matrix of every class, and this knowledge holds one pooled matrix. "
            "Use multiclass='ovr', or learn with per_class=True."
        )
    n_classes = len(knowledge.labels)
    pairs = list(combinations(range(n_classes), 2))
    signs = np.zeros((len(pairs), n_classes))
    for problem, (negative, positive) in enumerate(pairs):
        signs[problem, negative], signs[problem, positive] = -1.0, 1.0
    return _weighted(knowledge, signs, class_weight)


def _weighted(knowledge: Knowledge, signs: NDArray[np.float64], class_weight: Any) -> Problems:
    check_scheme(class_weight)
    if not knowledge.per_class and class_weight is not None:
        raise FormError(
            "In the pooled form class weights are fixed when learning. Solve with class_weight=None, or learn with "
            "per_class=True."
        )
    if isinstance(class_weight, Mapping):
        return Problems(signs, given_weights(class_weight, knowledge.labels) * np.abs(signs))
    weights = np.zeros_like(signs)
    for problem, sides in enumerate(signs):
        positive, negative = side_weights(
            class_weight, float(knowledge.counts[sides > 0].sum()), float(knowledge.counts[sides < 0].sum())
        )
        weights[problem] = np.where(sides > 0, positive, np.where(sides < 0, negative, 0.0))
    return Problems(signs, weights)
