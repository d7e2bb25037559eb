"""On what terms a live model follows its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mergesvm.data.labels import Label
from mergesvm.errors import ParameterError
from mergesvm.methods.proximal.options import SolveOptions
from mergesvm.multiclass.class_weights import given_weights

NUMBERS = (int, float, np.integer, np.floating)


@dataclass(frozen=True)
class RecursiveOptions:
    """On what terms a live model follows its rows; see :class:`~mergesvm.RecursiveSVC`."""

    C: float = 1.0
    class_weight: Mapping[Label, float] | None = None
    penalize_intercept: bool = True
    forgetting: float = 1.0
    window: int | None = None
    check_every: int = 10_000

    def __post_init__(self) -> None:
        SolveOptions(self.C, self.class_weight).check()
        if self.class_weight is not None:
            if not isinstance(self.class_weight, Mapping):
                raise ParameterError(
                    f"class_weight {self.class_weight!r} depends on how many rows each class has, which in a stream is "
                    f"never known. Give a mapping of class to weight."
                )
            given_weights(self.class_weight, tuple(self.class_weight))
        if not isinstance(self.forgetting, NUMBERS) or not 0 < self.forgetting <= 1:
            raise ParameterError(
                f"forgetting has to be above 0 and at most 1 (forget nothing), not {self.forgetting!r}."
            )
        for name in ("window", "check_every"):
            value = getattr(self, name)
            if not (name == "window" and value is None) and not (
                isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 1
            ):
                raise ParameterError(f"{name} has to be a positive whole number, not {value!r}.")
