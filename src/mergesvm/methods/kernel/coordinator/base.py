"""Coordinator, the base of all methods, and ProblemStatus, the state of each binary problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.messages import Exchange, Reply
from mergesvm.methods.kernel.options import KernelOptions
from mergesvm.methods.kernel.setup import TrainingSetup


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
    ``history`` has the objective after each iteration, for the gradient method only.
    """

    unit_method: ClassVar[str]
    """The method of a unit that takes the arguments which the coordinator returns."""

    setup: TrainingSetup
    options: KernelOptions
    registry: RowRegistry
    statuses: list[ProblemStatus]  # of all problems; they are updated

    def __post_init__(self) -> None:
        self.exchange, self.n_iter, self.violation = Exchange(), 0, np.inf
        self.history: list[float] = []
        self._active = np.arange(len(self.statuses))

    @abstractmethod
    def first(self) -> tuple[Any, ...]:
        """Arguments of the units' method to start with; the first is the request."""

    @abstractmethod
    def next(self, replies: list[Reply]) -> tuple[Any, ...]:
        """The next arguments, from the replies of the units; without active problems when all have stopped."""

    def _register(self, replies: list[Reply]) -> None:
        """Add the rows that units sent to the registry."""
        for reply in replies:
            packet = reply.new_rows
            if packet is not None:
                self.registry.add(packet, self.setup.numerics.lift(packet.rows, packet.indices))
