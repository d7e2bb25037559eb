"""Coordinator, the base of all methods, and ProblemStatus, the state of each binary problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.history import TrainingHistory
from mergesvm.methods.kernel.messages import Exchange, Reply, Request
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.methods.kernel.setup import TrainingSetup
from mergesvm.methods.kernel.stats import SUPPORT, ProblemStats


@dataclass
class ProblemStatus:
    """The state of one binary problem.

    ``stopped`` is why it is no longer worked on: "converged", "max_iter", "stalled" or "max_support_vectors".
    """

    objective: float = 0.0
    total: float = 0.0  # y'alpha
    stopped: str = ""


@dataclass(eq=False)
class Coordinator(ABC):
    """Decides in each iteration of training which dual variables change, and tells all units.

    ``violation`` is the largest of all problems, or the largest relative duality gap if that stops training.
    """

    unit_method: ClassVar[str]
    """The method of a unit that takes the arguments which the coordinator returns."""

    setup: TrainingSetup
    options: KernelOptions
    registry: RowRegistry
    statuses: list[ProblemStatus]  # of all problems; they are updated

    def __post_init__(self) -> None:
        self.exchange, self.n_iter, self.violation = Exchange(), 0, np.inf
        self.history = TrainingHistory()
        self._active = np.arange(len(self.statuses))
        self._n_support = np.zeros(len(self.statuses))

    @abstractmethod
    def first(self) -> tuple[Any, ...]:
        """Arguments of the units' method to start with; the first is the request."""

    @abstractmethod
    def next(self, replies: list[Reply]) -> tuple[Any, ...]:
        """The next arguments, from the replies of the units; without active problems when all have stopped."""

    @property
    def _objective(self) -> float:
        """The dual objective, summed over all problems."""
        return float(sum(status.objective for status in self.statuses))

    def _record(
        self,
        objective: float,
        stats: ProblemStats,
        active: NDArray[np.int64],
        replies: list[Reply],
        request: Request,
    ) -> None:
        """Record the state that units reported for the active problems, and the request that follows on it."""
        self._n_support[active] = stats.sums[:, SUPPORT]
        assert request.steps.values is not None
        self.history.record(
            objective=objective,
            violation=self.violation,
            n_support=float(self._n_support.sum()),
            step=float(np.linalg.norm(request.steps.values)),
            n_bytes=self.exchange.record(replies, request),
        )
