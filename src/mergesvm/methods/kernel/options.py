"""KernelOptions: the parameters of a kernel support vector machine and of its training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mergesvm.errors import ParameterError
from mergesvm.models.kernel_function import Kernel

STOPPING_RULES = ("violation", "gap")
"""What ``tol`` bounds: the violation of the optimality (KKT) conditions, or the relative duality gap."""

MIN_MAX_ITER, MAX_VISITS_PER_ROW, MAX_GRADIENT_ITER = 1000, 100, 100_000
"""The default limit of iterations, which ordinary problems do not reach: this minimum, and the iterations in which each
row is in the working set this often on average; for method "gradient" the last number."""

MODEL_OPTIONS = ("kernel", "C", "class_weight", "beta", "method", "accelerated", "precision")
"""The options that must stay the same when the same units are trained again."""


@dataclass(frozen=True)
class KernelOptions:
    """Parameters of a kernel support vector machine and of its training, as in ``ParallelKernelSVC``."""

    kernel: Kernel  # its gamma may be "scale" or "auto"
    C: float
    class_weight: Mapping[Any, float] | str | None
    beta: float | None  # times the number of units, the penalty on (y'alpha)^2 / 2; None for y'alpha = 0
    method: str
    tol: float
    stop: str
    max_iter: int | None  # None for a limit that ordinary problems do not reach, -1 for none
    max_support_vectors: int | None  # of each pair for "active-set", else of the model that is fitted in the end
    accelerated: bool
    working_set: int
    cache_bytes: int  # of all units together
    precision: str | None

    def __post_init__(self) -> None:
        if self.method == "gradient" and self.beta is None:
            raise ParameterError(
                "method='gradient' needs beta, a penalty in place of the constraint y'alpha = 0. Set beta, for example "
                "to 1.0, or use method='working-set'."
            )
        if self.method == "gradient" and self.kernel.kind == "sigmoid":
            raise ParameterError(
                "method='gradient' needs a positive semi-definite kernel, which kernel='sigmoid' is not. Use "
                "method='working-set'."
            )

    @property
    def active_set_limit(self) -> int | None:
        """The number of support vectors of a pair at which method "active-set" stops."""
        return self.max_support_vectors if self.method == "active-set" else None

    @property
    def reduced_size(self) -> int | None:
        """The number of vectors to which the model is reduced after training by the other methods."""
        return None if self.method == "active-set" else self.max_support_vectors

    def iteration_limit(self, n_rows: int) -> float:
        """The number of iterations after which training of this number of rows stops."""
        if self.max_iter is not None:
            return np.inf if self.max_iter == -1 else self.max_iter
        if self.method == "gradient":
            return MAX_GRADIENT_ITER
        rows_per_iteration = self.working_set if self.method == "working-set" else 4
        return MIN_MAX_ITER + MAX_VISITS_PER_ROW * n_rows // rows_per_iteration

    @property
    def stops_on_gap(self) -> bool:
        """Whether ``tol`` bounds the duality gap, relative to the dual objective."""
        return self.stop == "gap"

    def check_continues(self, before: KernelOptions) -> None:
        """Raise an error if training with these options cannot continue from a run that used the options ``before``."""
        for name in MODEL_OPTIONS:
            was, wanted = getattr(before, name), getattr(self, name)
            if was != wanted:
                raise ParameterError(f"{name} was {was!r} in fit and cannot change to {wanted!r}. Call fit again.")
