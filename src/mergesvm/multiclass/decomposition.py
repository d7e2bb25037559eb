"""Decomposition of a multi-class problem into binary problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.machine import check_memory
from mergesvm.errors import FormError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.multiclass.class_weights import given_weights, side_weights


@dataclass(frozen=True)
class Problems:
    """Binary problems over the same classes.

    Attributes
    ----------
    signs : array of {-1, 0, +1}, shape (problems, classes)
        The side of each class; 0 if it takes no part.
    sides : array of shape (problems, 2)
        Weights of the negative and the positive side.
    classes : array of shape (classes,)
        Factor of each class in all problems.
    """

    signs: NDArray[np.int8]
    sides: NDArray[np.float64]
    classes: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.signs)

    def weights(self, problem: int) -> NDArray[np.float64]:
        """The weight of each class in one problem; 0 if it takes no part."""
        negative, positive = self.sides[problem]
        sign = self.signs[problem]
        return self.classes * np.where(sign > 0, positive, np.where(sign < 0, negative, 0.0))

    def groups(self) -> list[list[int]]:
        """Problems grouped by equal class weights: those of a group share one matrix.

        >>> import mergesvm as ms
        >>> k = ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "c"])
        >>> one_vs_rest(k).groups(), one_vs_one(k).groups()
        ([[0, 1, 2]], [[0], [1], [2]])
        """
        groups: dict[bytes, list[int]] = {}
        for problem in range(len(self)):
            groups.setdefault(self.weights(problem).tobytes(), []).append(problem)
        return list(groups.values())


def one_vs_rest(knowledge: Knowledge, class_weight: Mapping[Any, float] | str | None = None) -> Problems:
    """One-vs-rest: each class against all others; for two classes one problem, the second against the first.

    >>> import mergesvm as ms
    >>> k = ms.learn([[1.0], [2.0], [3.0], [4.0]], ["a", "b", "c", "c"])
    >>> one_vs_rest(k, "balanced").weights(0)
    array([2.        , 0.66666667, 0.66666667])
    """
    n_classes = len(knowledge.labels)
    _check_fits(n_classes, n_classes, knowledge.width, "Join some of them: knowledge.join.")
    positive = range(n_classes) if n_classes > 2 else range(n_classes - 1, n_classes)
    signs = np.full((len(positive), n_classes), -1, dtype=np.int8)
    signs[np.arange(len(positive)), positive] = 1
    return _weighted(knowledge, signs, class_weight)


def one_vs_one(knowledge: Knowledge, class_weight: Mapping[Any, float] | str | None = None) -> Problems:
    """One-vs-one: each pair of classes in the order (0, 1), (0, 2), ..., (1, 2), ...; the second class is positive.

    >>> import mergesvm as ms
    >>> one_vs_one(ms.learn([[1.0], [2.0], [3.0]], ["a", "b", "c"])).signs
    array([[-1,  1,  0],
           [-1,  0,  1],
           [ 0, -1,  1]], dtype=int8)
    """
    if not knowledge.per_class:
        raise FormError(
            "One-vs-one needs the Gram matrix of every class, but this knowledge has one pooled matrix. "
            "Use multiclass='ovr', or learn with per_class=True."
        )
    n_classes = len(knowledge.labels)
    cure = "Solve with multiclass='ovr', or join some classes: knowledge.join."
    _check_fits(n_classes * (n_classes - 1) // 2, n_classes, knowledge.width, cure)
    pairs = list(combinations(range(n_classes), 2))
    signs = np.zeros((len(pairs), n_classes), dtype=np.int8)
    for problem, (negative, positive) in enumerate(pairs):
        signs[problem, negative], signs[problem, positive] = -1, 1
    return _weighted(knowledge, signs, class_weight)


def _check_fits(n_problems: int, n_classes: int, width: int, cure: str) -> None:
    """Raise an error if the problems and their solutions would not fit into memory."""
    # Signs as bytes and as numbers, moments of the scores within the classes, and coefficients.
    needed = n_problems * ((1 + 8 * MATRICES_PER_SOLUTION) * n_classes + 8 * width)
    check_memory(needed, f"A model of {n_problems:,} binary problems between {n_classes:,} classes", cure)


MATRICES_PER_SOLUTION = 6
"""The number of float64 matrices of problems x classes that are in memory while solving."""


def _weighted(knowledge: Knowledge, signs: NDArray[np.int8], class_weight: Any) -> Problems:
    if not knowledge.per_class and class_weight is not None:
        raise FormError(
            "Class weights of pooled knowledge are fixed when learning. Solve with class_weight=None, or learn with "
            "per_class=True."
        )
    sides = np.ones((len(signs), 2))
    if isinstance(class_weight, Mapping):
        return Problems(signs, sides, given_weights(class_weight, knowledge.labels))
    if class_weight is not None:
        for problem, sign in enumerate(signs):
            counts = float(knowledge.counts[sign > 0].sum()), float(knowledge.counts[sign < 0].sum())
            sides[problem] = side_weights(class_weight, *counts)[::-1]
    return Problems(signs, sides, np.ones(len(knowledge.labels)))


def in_pairs(multiclass: str, n_classes: int) -> bool:
    """Whether each pair of classes gets a binary problem; two classes are one problem under any scheme."""
    return multiclass == "ovo" and n_classes > 2


def decompose(knowledge: Knowledge, multiclass: str, class_weight: Mapping[Any, float] | str | None = None) -> Problems:
    """The binary problems of knowledge under a scheme."""
    scheme = one_vs_one if in_pairs(multiclass, len(knowledge.labels)) else one_vs_rest
    return scheme(knowledge, class_weight)
