"""Objects that live at the ranks of an MPI job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mergesvm.engines.base import Actors

if TYPE_CHECKING:
    from mergesvm.engines.mpi.engine import MPI

Result = TypeVar("Result")
State = TypeVar("State")


class RankActors(Actors[State]):
    """The objects of this rank by index, and the number of objects at all ranks."""

    def __init__(self, engine: MPI, objects: dict[int, State], count: int) -> None:
        self._engine, self._objects, self._count = engine, objects, count

    def __len__(self) -> int:
        return self._count

    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of every object; all ranks get all results."""

        def call(index: int) -> Any:
            return getattr(self._objects[index], method)(*(() if each is None else (each[index],)), *arguments)

        return self._engine.map(call, range(self._count))

    def consult(self, decide: Callable[[list[Any]], Result], method: str, *arguments: Any) -> Result:
        """Send results to the root alone, and its decision to all ranks."""
        ranks = self._engine.ranks
        with ranks.attempt() as attempt:
            for index in ranks.share(self._count):
                attempt.index = index
                attempt.results.append(getattr(self._objects[index], method)(*arguments))
        return ranks.decide(attempt, decide)

    def close(self) -> None:
        """Release the objects of this rank; this may happen at any time, when their owner is deleted."""
        self._objects, self._count = {}, 0
