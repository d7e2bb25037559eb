"""Merging the results of workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")


class Join(ABC, Generic[Result]):
    """A function that merges several results into one, whatever their order and grouping."""

    @abstractmethod
    def __call__(self, results: Sequence[Result]) -> Result:
        """Merge one or more results."""


@dataclass(frozen=True)
class Block:
    """Numbers that are added across workers in one step: how many, and which workers have any."""

    size: int
    holders: tuple[bool, ...]


class Total(ABC, Generic[Result]):
    """Accumulates the numbers of all workers as they arrive; blocks may arrive in any order.

    Blocks that no other worker holds need not arrive.
    """

    @abstractmethod
    def add(self, index: int, first: int, numbers: NDArray[np.float64], *, last: bool) -> None:
        """Add numbers to block ``index``, starting at ``first``.

        The array is valid only during the call. ``last`` says that no more numbers follow for this block.
        """

    @abstractmethod
    def finish(self) -> Result:
        """Return the merged result. Nothing can be added afterwards."""


class Addition(Join[Result]):
    """A join that is a sum of numbers, once all workers agree on what the numbers mean.

    First the descriptions of all results, which are small, are sent to all workers, and each derives the same plan
    from them. Then plain numbers are sent, one block at a time, by the workers that hold any.
    """

    @abstractmethod
    def describe(self, result: Result) -> Any:
        """Describe a result without its numbers."""

    @abstractmethod
    def agree(self, descriptions: Sequence[Any]) -> Any:
        """Derive the plan from the descriptions of all workers, in worker order; every worker derives the same plan."""

    @abstractmethod
    def blocks(self, plan: Any) -> Sequence[Block]:
        """Return the blocks of numbers to add."""

    @abstractmethod
    def pack(self, result: Result, plan: Any, index: int, out: NDArray[np.float64]) -> None:
        """Write the numbers of a block into ``out``; called only for results that hold any."""

    @abstractmethod
    def total(self, plan: Any, own: Result | None = None) -> Total[Result]:
        """Start a total at zero, or at ``own``, whose memory it may take over: ``own`` is not used again."""
