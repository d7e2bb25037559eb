"""How the results of workers become one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")


class Join(ABC, Generic[Result]):
    """A function of several results that gives one, whatever their order and grouping."""

    @abstractmethod
    def __call__(self, results: Sequence[Result]) -> Result:
        """One result of at least one."""


@dataclass(frozen=True)
class Block:
    """Numbers that are added across workers at one time.

    Attributes
    ----------
    size : int
        How many.
    holders : tuple of bool
        Which workers have any that are not zero.
    """

    size: int
    holders: tuple[bool, ...]


class Total(ABC, Generic[Result]):
    """What the numbers of all workers are added up in, as they come; different blocks perhaps at the same time.

    Of blocks that nobody holds, or only oneself, none need come.
    """

    @abstractmethod
    def add(self, index: int, first: int, numbers: NDArray[np.float64], *, last: bool) -> None:
        """Add some numbers of a block, from this one on, which are valid only now; after the ``last`` no more come."""

    @abstractmethod
    def finish(self) -> Result:
        """The result of all. Nothing can be added afterwards."""


class Addition(Join[Result]):
    """A join that comes down to a sum of numbers, once all workers agree on what the numbers stand for.

    First the descriptions of all results, which are small, go to everyone, and everyone makes the same plan of them.
    Then only plain numbers travel, a block at a time, and none from workers that have none.
    """

    @abstractmethod
    def describe(self, result: Result) -> Any:
        """What others need to know of a result before they can agree."""

    @abstractmethod
    def agree(self, descriptions: Sequence[Any]) -> Any:
        """The plan that follows from the descriptions of all workers, in order: the same at all of them."""

    def alike(self, descriptions: Sequence[Any]) -> bool:  # noqa: ARG002
        """Whether each result can be packed by a plan of its own, and the numbers of all be added as they are.

        It need not be said: then all wait for the plan of all.
        """
        return False

    @abstractmethod
    def blocks(self, plan: Any) -> Sequence[Block]:
        """The blocks of numbers to be added."""

    @abstractmethod
    def pack(self, result: Result, plan: Any, index: int, out: NDArray[np.float64]) -> None:
        """Write the numbers of a block of a result; only of results that hold any."""

    @abstractmethod
    def total(self, plan: Any, own: Result | None = None) -> Total[Result]:
        """A total of nothing, or of one's own result, whose memory may be used for it: the result is not used again."""
