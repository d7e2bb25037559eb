"""The base class of the reproductions, which the command line runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from mergesvm.reproduce.paper_data import Source
from mergesvm.reproduce.tables import ResultTable, Status


class Reproduction(ABC):
    """The experiments of one paper.

    ``tables`` runs the experiments; ``figures``, ``remarks`` and ``draw`` are called when it has ended.
    """

    name: ClassVar[str]
    """Its name on the command line."""
    size: ClassVar[tuple[float, float]] = (13, 5)
    """Width and height of the picture in inches."""
    n_axes: ClassVar[int] = 2
    """Number of plots side by side in the picture."""

    source: Source
    seed: int

    @abstractmethod
    def tables(self, status: Status) -> Iterator[ResultTable]:
        """Run the experiments; each table is yielded as soon as its numbers are known."""

    @abstractmethod
    def figures(self) -> dict[str, Any]:
        """The numbers of the tables, not rounded, for JSON."""

    @abstractmethod
    def remarks(self) -> list[str]:
        """What differs from the paper and why, in sentences that are printed below the tables."""

    @abstractmethod
    def draw(self, *axes: Any) -> None:
        """Draw the picture into ``n_axes`` axes of matplotlib."""
