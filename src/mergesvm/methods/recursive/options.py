"""Options of a live model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mergesvm.checks import check_flag
from mergesvm.data.batch import Batch
from mergesvm.data.labels import Label
from mergesvm.errors import DataError, ParameterError
from mergesvm.files.header import MAX_NUMBER
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.multiclass.class_weights import given_weights

NUMBERS = (int, float, np.integer, np.floating)

MIN_WEIGHT, MAX_WEIGHT = 1e-90, 1e80
"""Limits of positive weights, so that sums of many rows can be saved, and their squares are finite."""


@dataclass(frozen=True)
class RecursiveOptions:
    """Options of a live model; see :class:`~mergesvm.RecursiveSVC`."""

    C: float = 1.0
    class_weight: Mapping[Label, float] | None = None
    penalize_intercept: bool = True
    forgetting: float = 1.0
    window: int | None = None
    check_every: int = 10_000
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        SolveOptions(self.C, self.class_weight, penalize_intercept=self.penalize_intercept).check()
        check_flag("fit_intercept", self.fit_intercept)
        if not 1 / MAX_NUMBER <= self.C <= MAX_NUMBER:
            raise ParameterError(f"C of a stream must be from {1 / MAX_NUMBER:g} to {MAX_NUMBER:g}, not {self.C!r}.")
        if self.class_weight is not None:
            if not isinstance(self.class_weight, Mapping):
                raise ParameterError(
                    f"class_weight {self.class_weight!r} depends on the number of rows of each class, which is not "
                    f"known in a stream. Give a mapping of class to weight."
                )
            for weight in given_weights(self.class_weight, tuple(self.class_weight)).tolist():
                check_weight("a class", weight)
        if (
            not isinstance(self.forgetting, NUMBERS)
            or isinstance(self.forgetting, bool)
            or not 0 < self.forgetting <= 1
        ):
            raise ParameterError(
                f"forgetting must be greater than 0 and at most 1 (no forgetting), not {self.forgetting!r}."
            )
        window = 1 if self.window is None else self.window
        for name, value in (("window", window), ("check_every", self.check_every)):
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                raise ParameterError(f"{name} must be a positive integer, not {value!r}.")

    @property
    def intercept_penalty(self) -> float:
        """C over the factor of the penalty on the intercept: infinite for a free intercept, 0 for none at all."""
        if not self.fit_intercept:
            return 0.0
        return float(self.C) if self.penalize_intercept else np.inf


def check_weight(whose: str, weight: Any) -> None:
    """Raise an error if a weight, or a sum of many such weights, could not be saved."""
    if not isinstance(weight, NUMBERS) or not (weight == 0 or MIN_WEIGHT <= weight <= MAX_WEIGHT):
        raise DataError(
            f"The weight of {whose} must be a number from 0 to {MAX_WEIGHT:g}, and 0 if it is below {MIN_WEIGHT:g}. "
            f"Got {weight!r}."
        )


def balanced_weights(batch: Batch) -> dict[Label, float]:
    """Class weights n / (n_classes n_c) for the rows of a batch.

    >>> balanced_weights(Batch.of([[0.0], [1.0], [2.0]], ["a", "b", "b"]))
    {'a': 1.5, 'b': 0.75}
    """
    counts = np.bincount(batch.labels.codes + 1, batch.weights)[1:]
    weights = counts.sum() / (len(counts) * counts)
    return dict(zip(batch.labels.classes, weights.tolist(), strict=True))
