"""The engine of Spark: work goes to where the partitions of a data frame lie, and only results travel."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, NoReturn, TypeVar

from mergesvm.engines.base import Done, Engine
from mergesvm.engines.reduce import Join
from mergesvm.engines.spark.files import Runs
from mergesvm.engines.spark.job import Job
from mergesvm.engines.spark.plain import plain_files
from mergesvm.engines.spark.session import as_session
from mergesvm.engines.spark.tables import Partitions, is_table, selected, table_schema
from mergesvm.errors import EngineError, ParameterError

Result = TypeVar("Result")

MOST_PARTITIONS = 8
"""Of a table with more partitions than this for each worker, several are read as one: then fewer results travel."""

FILE_TASKS = 4
"""Files are read in so many tasks for each worker: the smaller they are, the less is lost where one is slow or dies."""


class Spark(Engine):
    """The engine of Spark. Data frames and files are learned where the workers are; only results travel.

    A data frame that is nothing but Parquet files of this machine, or of a disk that all share, and columns of numbers
    and texts as they are there, is read by the workers' Python itself, which is several times as fast. Any other goes
    by ``mapInArrow``: one with a filter, an expression, a join or a cache, of another source, with vectors.

    A task that is lost in the middle, be it with its worker, is done again. Spark 4 needs Java 17 or newer.

    Parameters
    ----------
    session : SparkSession, str or None
        A classic session, which goes on afterwards, or the address of a master, such as ``"spark://host:7077"``. None
        starts a session on this machine, unless one runs in this process already. What is started here ends with
        :meth:`close`, or a ``with`` block, or the program.
    workers : int, optional
        How many tasks run at one time: by default, one a core.
    direct : bool
        Whether workers read Parquet files themselves. Not to, where Spark can read them but its Python cannot.

    Attributes
    ----------
    session : SparkSession

    Examples
    --------
    >>> from mergesvm.engines.spark.engine import Spark
    >>> with Spark(workers=2) as engine:  # doctest: +SKIP
    ...     table = engine.session.read.parquet("days/")
    ...     knowledge = engine.learn(table, label="sold", features=["size", "price"])
    """

    def __init__(self, session: Any = None, *, workers: int | None = None, direct: bool = True) -> None:
        super().__init__()
        if workers is not None and workers != -1 and (not isinstance(workers, Integral) or workers < 1):
            raise ParameterError(f"The number of workers must be positive, None or -1 (one a core), not {workers!r}.")
        self.session, self._owned = as_session(session, None if workers in (None, -1) else int(workers or 0))
        self.direct = direct
        self._master = self.session.sparkContext.master
        if self._owned:
            atexit.register(self.close)

    @property
    def workers(self) -> int:
        """How many tasks run at one time."""
        return int(self._context.defaultParallelism)

    @property
    def _context(self) -> Any:
        if self.session is None or self.session.sparkContext._jsc is None:
            raise EngineError(f"The session of {self!r} has been stopped.")
        return self.session.sparkContext

    def map(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
    ) -> list[Result]:
        """Apply a function to every task; results in the order of the tasks."""
        if not len(tasks):
            return []
        with Job(self._context, function, given, None, names) as job:
            results = job.collect(lambda: job.on_tasks(tasks), done)
            self.traffic += job.traffic()
        return [results[index] for index in range(len(tasks))]

    def merge(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        join: Join[Result],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
        own: bool = False,  # noqa: ARG002
    ) -> Result | None:
        """Apply a function to every task, or partition of a table, and join the results in a tree at the workers."""
        if not isinstance(tasks, Partitions) and not len(tasks):
            return None
        if names is None and isinstance(tasks, Runs):
            names = tasks.names
        most = MOST_PARTITIONS * self.workers
        with Job(self._context, function, given, join, names) as job:

            def build() -> Any:
                return job.joined(job.on_table(tasks, most) if isinstance(tasks, Partitions) else job.on_tasks(tasks))

            results = job.collect(build, done)
            self.traffic += job.traffic()
        return next(iter(results.values()), None)

    def units(
        self,
        build: Callable[..., Any],  # noqa: ARG002
        tasks: Sequence[Any],  # noqa: ARG002
        *,
        given: tuple[Any, ...] = (),  # noqa: ARG002
    ) -> NoReturn:
        """Refused: Spark's workers forget."""
        raise EngineError("Spark keeps no state between calls. Use the engine Threads, MPI or Dask for this.")

    def holds(self, rows: Any) -> bool:
        """Whether rows are a data frame of this session's Spark."""
        return is_table(rows) and rows.sparkSession.sparkContext is self._context

    def narrowed(self, table: Any, columns: Sequence[str]) -> Any:
        """The same table with these columns only: Spark does not read the others."""
        return selected(table, columns)

    def partitions(self, rows: Any) -> Sequence[Any]:
        """The partitions of a data frame, which only Spark can count, or runs of files if it is nothing else."""
        plain = plain_files(rows) if self.direct and is_table(rows) else None
        return Partitions(rows) if plain is None else Runs(*plain, FILE_TASKS * self.workers)

    def schema(self, table: Any) -> Any:
        """The columns of a data frame as an Arrow schema; vectors and arrays are lists of fixed size."""
        return table_schema(table)

    def close(self) -> None:
        """Stop the session, if it was started here. One that was given goes on."""
        if self._owned and self.session is not None:
            atexit.unregister(self.close)
            self.session.stop()
            self.session = None

    def __repr__(self) -> str:
        return f"Spark({self._master!r})"
