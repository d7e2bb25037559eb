"""The engine of Spark: work goes to where the partitions of a data frame lie, and only results travel."""

from __future__ import annotations

import atexit
from numbers import Integral
from typing import Any, TypeVar

from mergesvm.engines.base import Engine, PartitionedRows
from mergesvm.engines.reduce import Join
from mergesvm.engines.spark.job import Job
from mergesvm.engines.spark.session import as_session
from mergesvm.engines.spark.tables import Partitions, SparkTable, is_table
from mergesvm.engines.work import Work
from mergesvm.errors import EngineError, ParameterError

Result = TypeVar("Result")

MOST_PARTITIONS = 8
"""Of a table with more partitions than this for each worker, several are read as one: then fewer results travel."""


class Spark(Engine):
    """The engine of Spark. Data frames and files are learned where the workers are; only results travel.

    A task that is lost in the middle, be it with its worker, is done again. Spark 4 needs Java 17 or newer.

    Parameters
    ----------
    session : SparkSession, str or None
        A classic session, which goes on afterwards, or the address of a master, such as ``"spark://host:7077"``. None
        starts a session on this machine, unless one runs in this process already. What is started here ends with
        :meth:`close`, or a ``with`` block, or the program.
    workers : int, optional
        How many tasks run at one time: by default, one a core.

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

    def __init__(self, session: Any = None, *, workers: int | None = None) -> None:
        super().__init__()
        if workers is not None and workers != -1 and (not isinstance(workers, Integral) or workers < 1):
            raise ParameterError(f"The number of workers must be positive, None or -1 (one a core), not {workers!r}.")
        self.session, self._owned = as_session(session, None if workers in (None, -1) else int(workers or 0))
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

    def _map(self, work: Work[Result]) -> list[Result]:
        if not len(work.tasks):
            return []
        with Job(self._context, work.function, work.given, None, work.names) as job:
            results = job.collect(lambda: job.on_tasks(work.tasks), work.done)
            self.traffic += job.traffic()
        return [results[index] for index in range(len(work.tasks))]

    def _merge(self, work: Work[Result], join: Join[Result], *, own: bool) -> Result | None:  # noqa: ARG002
        tasks = work.tasks
        if not isinstance(tasks, Partitions) and not len(tasks):
            return None
        most = MOST_PARTITIONS * self.workers
        with Job(self._context, work.function, work.given, join, work.names) as job:

            def build() -> Any:
                return job.joined(job.on_table(tasks, most) if isinstance(tasks, Partitions) else job.on_tasks(tasks))

            results = job.collect(build, work.done)
            self.traffic += job.traffic()
        return next(iter(results.values()), None)

    def partitioned(self, rows: Any) -> PartitionedRows | None:
        """Return a data frame of this session as partitions; None for anything else."""
        if isinstance(rows, tuple) and any(is_table(each) for each in rows):
            raise ParameterError(
                "A Spark DataFrame is learned by its columns: mergesvm.learn(df, label=..., engine=engine)."
            )
        return SparkTable(rows) if is_table(rows) and rows.sparkSession.sparkContext is self._context else None

    def close(self) -> None:
        """Stop the session, if it was started here. One that was given goes on."""
        if self._owned and self.session is not None:
            atexit.unregister(self.close)
            self.session.stop()
            self.session = None

    def __repr__(self) -> str:
        return f"Spark({self._master!r})"
