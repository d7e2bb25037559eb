"""The engine of Spark."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mergesvm.engines.base import Engine, PartitionedRows
from mergesvm.engines.reduce import Join
from mergesvm.engines.spark.connect import ConnectJob
from mergesvm.engines.spark.job import Job
from mergesvm.engines.spark.session import as_session, is_connect
from mergesvm.engines.spark.tables import Partitions, SparkTable, is_table
from mergesvm.engines.spark.work import SameVersion, watched
from mergesvm.engines.threads import worker_count
from mergesvm.engines.version import installed_version
from mergesvm.engines.work import Work
from mergesvm.errors import EngineError, ParameterError

Result = TypeVar("Result")

MAX_PARTITIONS_PER_WORKER = 8
"""Partitions of a table beyond this number are combined, so that fewer results are sent."""


class Spark(Engine):
    """A Spark session, classic or Spark Connect. Workers read DataFrames and files; only results are sent.

    DataFrames of any source are read by ``mapInArrow``. Parquet files that workers can open themselves are read several
    times faster from ``mergesvm.scan(...)``. Lost tasks are run again. Spark 4 needs Java 17 or newer.

    Parameters
    ----------
    session : SparkSession, str or None
        A running session, which is not stopped, or the address of a master such as ``"spark://host:7077"``, or of a
        Spark Connect server such as ``"sc://host:15002"``. None uses the session of this process, or starts one on this
        machine, which ends with :meth:`close`, a ``with`` block, or the program.
    workers : int, optional
        Number of tasks to run at the same time (default: one per core).

    Attributes
    ----------
    session : SparkSession

    Examples
    --------
    >>> import mergesvm as ms
    >>> with ms.engines.Spark(workers=2) as engine:  # doctest: +SKIP
    ...     table = engine.session.read.parquet("days/")
    ...     knowledge = ms.learn(table, label="sold", columns=["size", "price"], engine=engine)
    """

    def __init__(self, session: Any = None, *, workers: int | None = None) -> None:
        super().__init__()
        self.session, self._owned = as_session(session, None if workers in (None, -1) else worker_count(workers))
        self._connect = is_connect(self.session)
        self._workers: int | None = None
        self._address = session if isinstance(session, str) else self.session.conf.get("spark.master", "sc://")
        if self._owned:
            atexit.register(self.close)

    @property
    def workers(self) -> int:
        """Number of tasks that run at the same time."""
        if not self._connect:
            with watched():
                return int(self._running.sparkContext.defaultParallelism)
        if self._workers is None:
            from pyspark.sql.functions import spark_partition_id

            self._workers = int(self._running.range(1 << 16).select(spark_partition_id()).distinct().count())
        return self._workers

    @property
    def _running(self) -> Any:
        """The session, unless it has been stopped."""
        if self.session is not None:
            stopped = self.session.is_stopped if self._connect else self.session.sparkContext._jsc is None
            if not stopped:
                return self.session
        raise EngineError(f"The session of {self!r} has been stopped.")

    @contextmanager
    def _job(self, work: Work[Result], join: Join[Result] | None) -> Iterator[Job | ConnectJob]:
        function = SameVersion(work.function, installed_version())
        if self._connect:
            with ConnectJob(self._running, function, work.given, join, work.names) as connected:
                yield connected
            return
        with watched(), Job(self._running.sparkContext, function, work.given, join, work.names) as job:
            yield job

    def _map(self, work: Work[Result]) -> list[Result]:
        if not len(work.tasks):
            return []
        with self._job(work, None) as job:
            results = job.collect(lambda: job.on_tasks(work.tasks), work.done)
            self.traffic += job.traffic()
        return [results[index] for index in range(len(work.tasks))]

    def _merge(self, work: Work[Result], join: Join[Result], *, own: bool) -> Result | None:  # noqa: ARG002
        tasks = work.tasks
        if not isinstance(tasks, Partitions) and not len(tasks):
            return None
        most = MAX_PARTITIONS_PER_WORKER * self.workers
        with self._job(work, join) as job:

            def build() -> Any:
                leaves = job.on_table(tasks, most) if isinstance(tasks, Partitions) else job.on_tasks(tasks)
                return job.joined(leaves, most)

            results = job.collect(build, work.done)
            self.traffic += job.traffic()
        return next(iter(results.values()), None)

    def partitioned(self, rows: Any) -> PartitionedRows | None:
        """Return a DataFrame of this session as partitions; None for anything else."""
        if isinstance(rows, tuple) and any(is_table(each) for each in rows):
            raise ParameterError(
                "A Spark DataFrame is learned by its columns: mergesvm.learn(df, label=..., engine=engine)."
            )
        return SparkTable(rows) if is_table(rows) and self._holds(rows) else None

    def _holds(self, table: Any) -> bool:
        if self._connect != is_connect(table.sparkSession):
            return False
        if self._connect:
            return bool(table.sparkSession.session_id == self._running.session_id)
        return table.sparkSession.sparkContext is self._running.sparkContext

    def close(self) -> None:
        """Stop the session, if it was started here."""
        if self._owned and self.session is not None:
            atexit.unregister(self.close)
            self.session.stop()
            self.session = None

    def __repr__(self) -> str:
        return f"Spark({self._address!r})"
