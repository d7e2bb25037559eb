"""The engine contract: what learning and training ask of the place where their work runs.

A new engine is one folder in ``mergesvm/engines`` with two modules:

- ``spec.py`` declares ``SPEC``, an :class:`~mergesvm.engines.registry.EngineSpec`: the name, the class, the extra to
  install. It imports nothing but the registry, because it is read to print ``--help``.
- ``engine.py`` defines a subclass of :class:`Engine` with ``workers``, ``_map`` and ``_merge``. All other methods have
  defaults: override ``actors`` if workers can hold state, ``partitioned`` if they can hold tables, ``close`` if the
  engine starts processes, and set ``ranks`` if every worker runs the caller's program.

The registry finds the folder, so that ``--engine NAME``, its help text and ``mergesvm.engines`` know the engine.
``tests/engine_laws.py`` states the contract as tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar

from mergesvm.engines.reduce import Join
from mergesvm.engines.registry import engine_specs
from mergesvm.engines.traffic import Traffic
from mergesvm.engines.work import Progress, Work
from mergesvm.errors import EngineError, ParameterError

Result = TypeVar("Result")
State = TypeVar("State")


class Ranks:
    """The processes that run the caller's program: this one alone, unless the engine overrides it.

    Under MPI, all ranks make the same calls on the engine.

    Attributes
    ----------
    spmd : bool
        Whether every worker runs the caller's program (single program, multiple data).
    rank : int
        The number of this process.
    is_root : bool
        Whether this process talks to the user.
    receives : bool
        Whether :meth:`Engine.merge` returns its result in this process.
    everywhere : bool
        Whether it does so in all processes.
    own_files : bool
        Whether each rank reads the files that it names, instead of a part of the files of all.
    """

    spmd: bool = False
    rank: int = 0
    is_root: bool = True
    receives: bool = True
    everywhere: bool = True
    own_files: bool = False

    def on_root(self, function: Callable[[], Result]) -> Result:
        """Call a function on the root; its result is returned, or its error raised, on all ranks."""
        return function()

    def on_all(self, function: Callable[[], Result]) -> Result:
        """Call a function on every rank and return its result there; an error on one rank is raised on all."""
        return function()


class Engine(ABC):
    """Maps a function over tasks and merges the results; it does not know what they mean.

    Every engine, with any number of workers, returns the same results. Engines other than :class:`Threads` pickle
    functions, tasks and results that travel. An error in a task is raised with its own type and message and the name
    of the task, and nothing is left running.

    Attributes
    ----------
    ranks : Ranks
        The processes that run the caller's program: one, except under MPI.
    traffic : Traffic
        Everything sent between workers so far.
    """

    ranks: Ranks = Ranks()

    def __init__(self) -> None:
        self.traffic = Traffic()

    @property
    @abstractmethod
    def workers(self) -> int:
        """Number of tasks that run at the same time."""

    def map(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Progress | None = None,
    ) -> list[Result]:
        """Apply a function to every task.

        Parameters
        ----------
        function : callable
            Called as ``function(task, *given)``.
        tasks : sequence
        given : tuple
            Further arguments, the same for all tasks; sent to each worker once.
        names : sequence of str, optional
            The names of the tasks in error messages.
        done : callable, optional
            Called from time to time with the number of finished tasks and the number of all tasks.

        Returns
        -------
        list
            The results in the order of the tasks.
        """
        return self._map(Work(function, tasks, given, names, done))

    def merge(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        join: Join[Result],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Progress | None = None,
        own: bool = False,
    ) -> Result | None:
        """Apply a function to every task and merge the results on the workers.

        Parameters are those of :meth:`map`, and

        join : Join
            Merges several results into one.
        own : bool
            Under MPI: ``tasks`` are those of this rank alone, instead of the tasks of all ranks.

        Returns
        -------
        The merged result, or None if there are no tasks, or if results go to another rank.
        """
        return self._merge(Work(function, tasks, given, names, done), join, own=own)

    @abstractmethod
    def _map(self, work: Work[Result]) -> list[Result]:
        """Implement :meth:`map`."""

    @abstractmethod
    def _merge(self, work: Work[Result], join: Join[Result], *, own: bool) -> Result | None:
        """Implement :meth:`merge`."""

    def actors(
        self,
        build: Callable[..., State],  # noqa: ARG002
        tasks: Sequence[Any],  # noqa: ARG002
        *,
        given: tuple[Any, ...] = (),  # noqa: ARG002
    ) -> Actors[State]:
        """Build one stateful object per task, each at a worker, where it stays and can be called repeatedly.

        Parameters
        ----------
        build : callable
            Called on the worker as ``build(task, *given)``; returns the object.
        tasks : sequence
            Partitions of :meth:`partitioned` rows are replaced by their content, and the object is built where that is.
        given : tuple

        Returns
        -------
        Actors
            To be closed, or used in a ``with`` block.
        """
        *others, last = [spec.class_name for spec in engine_specs().values() if spec.actors]
        raise EngineError(
            f"{type(self).__name__} keeps no state between calls. Use the engine {', '.join(others)} or {last} for "
            f"this."
        )

    def partitioned(self, rows: Any) -> PartitionedRows | None:  # noqa: ARG002
        """Return a collection held by this engine's workers as partitions, or None if ``rows`` is anything else."""
        return None

    def close(self) -> None:  # noqa: B027 - not every engine starts something
        """Stop the processes that this engine started. A cluster that it was given goes on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _memo: object) -> Self:
        # scikit-learn's clone copies parameters; workers must not be duplicated.
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # Workers cannot be pickled: a pickled estimator is loaded without its engine.
        return type(None), ()


class Actors(ABC, Generic[State]):
    """Stateful objects that live on the workers."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of every object with the same arguments; results in order.

        With ``each``, the first argument of object i is ``each[i]``, which is sent to no other object. Under MPI, every
        rank supplies the values for the objects that it holds.
        """

    def consult(self, decide: Callable[[list[Any]], Result], method: str, *arguments: Any) -> Result:
        """Call a method of every object, and return ``decide(results)``.

        Under MPI only the root receives the results and decides; all ranks get the decision. An error of an object or
        of the decision is raised on all ranks.
        """
        return decide(self.call(method, *arguments))

    @abstractmethod
    def close(self) -> None:
        """Release the objects. Under MPI, a rank may do so at any time, without the others."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PartitionedRows(ABC):
    """Rows that an engine's workers hold in partitions: a table, or arrays side by side."""

    @abstractmethod
    def partitions(self, columns: Sequence[str] | None = None) -> Sequence[Any]:
        """Return the partitions as tasks: workers are called with their content, or with some columns of a table."""

    def schema(self) -> Any:
        """Return the columns of a table as an Arrow schema."""
        raise ParameterError("Only tables have columns: label= needs a data frame.")
