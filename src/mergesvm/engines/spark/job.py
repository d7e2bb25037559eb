"""One run of tasks on a classic Spark session: send, watch, merge in a tree, and collect."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

from mergesvm.engines.spark.session import quiet_pandas
from mergesvm.engines.spark.tables import Partitions
from mergesvm.engines.spark.work import (
    CHUNKS,
    FAN_IN,
    Parcel,
    Work,
    assembled,
    describe_error,
    packed,
    traffic_of,
    unpacked,
)
from mergesvm.engines.traffic import Traffic
from mergesvm.engines.work import Progress
from mergesvm.errors import EngineError

MAX_COMMAND_BYTES = 2**20
"""Larger tasks are broadcast: Spark does not accept them as part of a command."""

WATCH_SECONDS = 0.05
"""How often to check the progress of the workers."""

STOP_SECONDS = 10
"""How long to wait for a cancelled job."""


class Job:
    """A run of tasks on a Spark context; use it in a ``with`` block, which leaves nothing there.

    ``tasks`` is 0 while their number is unknown, and ``rounds`` the number of steps that results take to the driver.
    """

    def __init__(self, context: Any, function: Any, given: tuple[Any, ...], join: Any, names: Any) -> None:
        self.tasks, self.rounds = 0, 1
        self._context = context
        self._broadcasts: list[Any] = []
        self._reports = context.accumulator({}, _reports())
        self._work = Work(self._broadcast(packed((function, given, join, names))), self._reports)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for broadcast in self._broadcasts:
            broadcast.destroy()

    def _broadcast(self, data: bytes) -> Any:
        broadcast = self._context.broadcast(Parcel(data))
        self._broadcasts.append(broadcast)
        return broadcast

    def on_tasks(self, tasks: Sequence[Any]) -> Any:
        """Run tasks; their results are chunks on the workers."""
        self.tasks, context, work = len(tasks), self._context, self._work
        sent: list[tuple[int, Any]] = [(index, packed(task)) for index, task in enumerate(tasks)]
        if all(len(task) <= MAX_COMMAND_BYTES for _, task in sent):
            return context.parallelize(sent, len(sent)).mapPartitions(work.on_tasks)
        # A broadcast goes only to workers whose command refers to it, in blocks, bypassing the heap of the driver.
        return context.union([self._alone(index, task) for index, task in sent])

    def _alone(self, index: int, task: bytes) -> Any:
        work, large = self._work, self._broadcast(task)
        return self._context.parallelize([index], 1).mapPartitions(lambda part: work.on_tasks([(*part, large)]))

    def on_table(self, parts: Partitions, most: int) -> Any:
        """Run on the partitions of a table, combined to at most ``most``."""
        work, names = self._work, parts.names
        with quiet_pandas():
            rows = parts.table.coalesce(most).mapInArrow(lambda batches: work.on_batches(batches, names), CHUNKS).rdd
        self.tasks = rows.getNumPartitions()
        return rows.map(tuple)

    def joined(self, chunks: Any, most: int) -> Any:  # noqa: ARG002
        """Merge results in a tree on the workers."""
        count, work = self.tasks, self._work
        while count > 1:
            count, level = -(-count // FAN_IN), self.rounds
            chunks = chunks.map(partial(_keyed, count)).partitionBy(count, int)
            chunks = chunks.mapPartitionsWithIndex(partial(work.join, level), preservesPartitioning=True)
            self.rounds += 1
        return chunks

    def collect(self, build: Callable[[], Any], done: Progress | None) -> dict[int, Any]:
        """Fetch the results, by partition, of the chunks that ``build`` returns."""
        found: list[Any] = []
        group = f"mergesvm-{uuid.uuid4()}"

        def run() -> None:
            try:
                self._context.setJobGroup(group, "mergesvm")
                found.append(build().collect())
            except Exception as error:  # noqa: BLE001 - raised by the waiting thread
                found.append(error)

        from pyspark import InheritableThread

        # In another thread, so that this one can watch the progress and cancel the job.
        thread = InheritableThread(target=run, name="mergesvm-spark", daemon=True)
        thread.start()
        try:
            self._watch(thread, group, done)
        except BaseException:
            self._context.cancelJobGroup(group)
            thread.join(STOP_SECONDS)
            raise
        return self._checked(found[0])

    def _watch(self, thread: threading.Thread, group: str, done: Progress | None) -> None:
        told, cancelled = 0, False
        while thread.is_alive():
            thread.join(WATCH_SECONDS)
            reports = list(self._reports.value.items())
            if not cancelled and any(error for _, (_, error) in reports):
                self._context.cancelJobGroup(group)
                cancelled = True
            ready = sum(level == 0 for (level, _), _ in reports)
            if done is not None and told < ready <= self.tasks and not cancelled:
                told = ready
                done(ready, self.tasks)

    def _checked(self, found: Any) -> dict[int, Any]:
        failed = sorted((key, error) for key, (_, error) in self._reports.value.items() if error is not None)
        if failed:
            raise unpacked(failed[0][1])
        if isinstance(found, Exception):
            raise describe_error(found) from found
        pieces = {index: (tasks, data) for index, tasks, data in assembled(found)}
        count = sum(tasks for tasks, _ in pieces.values())
        if count != self.tasks:
            raise EngineError(f"Spark returned {count} of {self.tasks} results; some were lost. Try again.")
        return {index: unpacked(data) for index, (_, data) in pieces.items()}

    def traffic(self) -> Traffic:
        """Bytes sent by each partition."""
        return traffic_of({key: size for key, (size, _) in self._reports.value.items()}, self.rounds)


def _keyed(count: int, chunk: Any) -> tuple[int, Any]:
    """Add the index of the partition, out of ``count``, that merges a chunk."""
    return chunk[0] % count, chunk


def _reports() -> Any:
    from pyspark.accumulators import AccumulatorParam

    class Reports(AccumulatorParam):  # type: ignore[misc]
        """Merges the reports of workers; a repeated report replaces the first."""

        def zero(self, _value: Any) -> dict[Any, Any]:
            return {}

        def addInPlace(self, one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
            return one | other

    return Reports()
