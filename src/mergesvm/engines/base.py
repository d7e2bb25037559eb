"""What every engine can do.

A new engine is one new file, exported by :mod:`mergesvm.engines`: the laws of all engines find it and test it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, Self, TypeVar

from mergesvm.engines.reduce import Join
from mergesvm.engines.traffic import Traffic
from mergesvm.errors import EngineError, MergeSVMError

Task = TypeVar("Task")
Result = TypeVar("Result")
State = TypeVar("State")

Done = Callable[[int, int], None]
"""Called with how many of how many tasks are done."""


class Engine(ABC):
    """Where work runs. An engine maps a function over tasks and joins the results, and knows nothing of what they mean.

    Functions, tasks and results of engines other than :class:`Threads` are pickled, if they travel. The same call on
    any engine, with any number of workers, gives the same result. What goes wrong in a task surfaces as the error that
    it was, with the name of the task; then nothing is left running.

    Attributes
    ----------
    embedded : bool
        Whether tasks run in this process, so that they can share its memory.
    collective : bool
        Whether every worker runs the caller's program, too, as under ``mpiexec``: then all of them make the same calls,
        with the same tasks, and all get the results.
    local : bool
        Whether files that are named are each worker's own, and not dealt out; only where the engine is collective.
    root : int or None
        The only worker that gets what is merged; None for all. Only where the engine is collective.
    """

    embedded: ClassVar[bool] = False
    collective: ClassVar[bool] = False
    local: bool = False
    root: int | None = None

    def __init__(self) -> None:
        self.traffic = Traffic()

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks run at one time."""

    @abstractmethod
    def map(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
    ) -> list[Result]:
        """Apply a function to every task; results in the order of the tasks.

        Parameters
        ----------
        function : function of a task, and of what is given
        tasks : sequence
        given : tuple
            Further arguments, the same for all tasks; sent to each worker once.
        names : sequence of str, optional
            How errors name the tasks.
        done : function, optional
            Told now and then how many of how many tasks are done.
        """

    @abstractmethod
    def merge(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        join: Join[Result],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
        own: bool = False,
    ) -> Result | None:
        """Apply a function to every task, and join the results in a tree, at the workers; None if there are no tasks.

        Parameters are those of :meth:`map`, and

        join : Join
            How results become one.
        own : bool
            Where all workers run the same program: tasks are this worker's own, which no other knows of, and not those
            of all that are to be dealt out.
        """

    @abstractmethod
    def units(self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()) -> Units[State]:
        """Objects that stay where they are built, one for each task, and are called again and again.

        Parameters
        ----------
        build : function of a task, and of what is given
            Builds the object, at the worker.
        tasks : sequence
            Partitions of a collection become their content, and the object is built where that lies.
        given : tuple

        Returns
        -------
        Units
            To be closed, or used in a ``with`` block.
        """

    def once(self, function: Callable[[], Result]) -> Result:
        """Call a function once, and not at every worker where all run the same program; all get what it gives."""
        return function()

    def together(self, function: Callable[[], Result]) -> Result:
        """Call a function at every worker that runs the caller's program; where it fails at one, it fails at all."""
        return function()

    @property
    def is_root(self) -> bool:
        """Whether it is this process that talks to the user, where there are many that run the same program."""
        return True

    @property
    def rank(self) -> int:
        """The number of this process, where there are many that run the same program."""
        return 0

    @property
    def receives(self) -> bool:
        """Whether this process gets the results, where there are many that run the same program."""
        return True

    def holds(self, rows: Any) -> bool:  # noqa: ARG002
        """Whether rows are a collection that lies on this engine's workers."""
        return False

    def narrowed(self, table: Any, columns: Sequence[str]) -> Any:  # noqa: ARG002
        """A table on this engine's workers with no more columns than needed, if those left out need not be read."""
        return table

    def partitions(self, rows: Any) -> Sequence[Any]:
        """The tasks that a collection on this engine's workers consists of; each becomes its content there."""
        raise EngineError(f"{self!r} holds no {type(rows).__module__.split('.')[0]} collections.")

    def schema(self, table: Any) -> Any:
        """The columns of a table on this engine's workers, as an Arrow schema."""
        raise EngineError(f"{self!r} holds no {type(table).__module__.split('.')[0]} tables.")

    def learn(self, rows: Any, y: Any = None, sample_weight: Any = None, **terms: Any) -> Any:
        """Learn with this engine: :func:`mergesvm.learn`, or, with ``label=``, from the columns of a table."""
        return _teacher[0](self, rows, y, sample_weight, **terms)

    def close(self) -> None:  # noqa: B027 - not every engine starts something
        """Stop what this engine has started. What it was given goes on."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, _memo: object) -> Self:
        # scikit-learn's clone copies parameters, but workers are not to be doubled.
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # Workers do not travel: an estimator that is pickled with its engine comes back without one.
        return _no_engine, ()


class Units(ABC, Generic[State]):
    """Objects that live at the workers."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of every object with the same arguments; results in order.

        With ``each``, the first argument of object i is ``each[i]``, which goes to no other. Where every worker runs
        the caller's program, each gives those of the objects that it holds.
        """

    def consult(self, decide: Callable[[list[Any]], Result], method: str, *arguments: Any) -> Result:
        """Call a method of every object, and decide on the results; all workers get the decision, but not the results.

        It is one process that decides, where many run the same program. An error of an object, or of the decision,
        is raised by all.
        """
        return decide(self.call(method, *arguments))

    @abstractmethod
    def close(self) -> None:
        """Let go of the objects, without a word to other processes that run the same program."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _no_engine() -> None:
    return None


_teacher: list[Callable[..., Any]] = []


def taught(learn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the function that :meth:`Engine.learn` calls. Engines themselves do not know what learning is."""
    _teacher[:] = [learn]
    return learn


def is_collection(rows: Any) -> bool:
    """Whether rows are a collection of Dask or Spark, of which only the engine that holds it has the content."""
    return type(rows).__module__.split(".")[0] in ("dask", "dask_expr", "pyspark")


@contextmanager
def naming(name: str | None) -> Iterator[None]:
    """Errors of a task name it."""
    try:
        yield
    except Exception as error:
        named = named_error(error, name)
        if named is error:
            raise
        raise named from error.__cause__


def named_error(error: BaseException, name: str | None) -> BaseException:
    """The same error, with the name of the task in which it occurred.

    >>> named_error(EngineError("no rows"), "day1.csv")
    EngineError('day1.csv: no rows')
    >>> named_error(KeyError("x"), "day1.csv").__notes__
    ['in day1.csv']
    """
    if name is None or name in str(error) or f"in {name}" in getattr(error, "__notes__", ()):
        return error
    if isinstance(error, MergeSVMError):
        return type(error)(f"{name}: {error}").with_traceback(error.__traceback__)
    error.add_note(f"in {name}")
    return error
