"""Coordinator: what the coordinators of all methods have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from mergesvm.methods.kernel.coordinator.exchange import Exchange
from mergesvm.methods.kernel.coordinator.policy import Policy, ProblemStatus
from mergesvm.methods.kernel.coordinator.row_registry import RowRegistry
from mergesvm.methods.kernel.messages import Reply
from mergesvm.methods.kernel.setup import TrainingSetup


class Coordinator(ABC):
    """Decides in each iteration of a training which dual variables change, and tells all units.

    Parameters
    ----------
    setup : TrainingSetup
    policy : Policy
    registry : RowRegistry
    statuses : list of ProblemStatus
        The state of each problem, which is updated.

    Attributes
    ----------
    n_iter : int
    violation : float
        The largest of all problems, or the largest relative duality gap if that is what stops the training.
    exchange : Exchange
    history : list of float
        The objective after each iteration, for the gradient method only.
    """

    unit_method: ClassVar[str]
    """The method of a unit that takes the arguments which the coordinator returns."""

    def __init__(
        self, setup: TrainingSetup, policy: Policy, registry: RowRegistry, statuses: list[ProblemStatus]
    ) -> None:
        self._setup, self._policy = setup, policy
        self.registry, self.statuses = registry, statuses
        self.exchange, self.n_iter, self.violation = Exchange(), 0, np.inf
        self.history: list[float] = []
        self._active = np.arange(len(statuses))

    @abstractmethod
    def first(self) -> tuple[Any, ...]:
        """Arguments of the units' method to start with; the first is the request."""

    @abstractmethod
    def next(self, replies: list[Reply]) -> tuple[Any, ...]:
        """The next arguments, from the replies of the units; without active problems when all have stopped."""

    def _register(self, replies: list[Reply]) -> None:
        """Add the rows that units sent to the registry."""
        for reply in replies:
            if reply.new_rows is not None:
                self.registry.add(reply.new_rows, self._setup.numerics.lift(reply.new_rows.rows))
