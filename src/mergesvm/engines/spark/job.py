"""One piece of work on Spark: sent out, watched, joined in a tree, and brought in."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Self

from mergesvm.engines.spark.session import quiet_pandas
from mergesvm.engines.spark.tables import Partitions
from mergesvm.engines.spark.work import CHUNKS, Parcel, Work, assembled, packed, unpacked
from mergesvm.engines.traffic import Traffic
from mergesvm.engines.work import Progress
from mergesvm.errors import EngineError

FAN_IN = 16
"""So many results are joined by one worker, one after another, before theirs go on."""

LARGE = 2**20
"""A task of more bytes than this goes by a way of its own: Spark does not take large ones along with its commands."""

WATCH_SECONDS = 0.05
"""How often it is looked how far the workers are."""

LAST_SECONDS = 10
"""How long work that is to be stopped is waited for."""


class Job:
    """Work on a Spark context; used in a ``with`` block, after which nothing of it is left there.

    Parameters
    ----------
    context : SparkContext
    function, given, join, names : as in :meth:`Engine.merge`

    Attributes
    ----------
    tasks : int
        How many tasks, or partitions of a table, there are; 0 while that is not known.
    rounds : int
        How many steps one after another the results take to the driver.
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
        """The results of tasks, as chunks at the workers."""
        self.tasks, context, work = len(tasks), self._context, self._work
        sent: list[tuple[int, Any]] = [(index, packed(task)) for index, task in enumerate(tasks)]
        if all(len(task) <= LARGE for _, task in sent):
            return context.parallelize(sent, len(sent)).mapPartitions(work.on_tasks)
        # What a command refers to goes to the worker of this command only, block by block and past the driver's heap.
        return context.union([self._alone(index, task) for index, task in sent])

    def _alone(self, index: int, task: bytes) -> Any:
        work, large = self._work, self._broadcast(task)
        return self._context.parallelize([index], 1).mapPartitions(lambda part: work.on_tasks([(*part, large)]))

    def on_table(self, parts: Partitions, most: int) -> Any:
        """The results of the partitions of a table, of which there are to be at most so many, as chunks there."""
        work, names = self._work, parts.names
        with quiet_pandas():
            rows = parts.table.coalesce(most).mapInArrow(lambda batches: work.on_batches(batches, names), CHUNKS).rdd
        self.tasks = rows.getNumPartitions()
        return rows.map(tuple)

    def joined(self, chunks: Any) -> Any:
        """The chunks of one result, joined in a tree at the workers."""
        count, work = self.tasks, self._work
        while count > 1:
            count, level = -(-count // FAN_IN), self.rounds
            chunks = chunks.map(_Keyed(count)).partitionBy(count, int)
            chunks = chunks.mapPartitionsWithIndex(_Joined(work, level), preservesPartitioning=True)
            self.rounds += 1
        return chunks

    def collect(self, build: Callable[[], Any], done: Progress | None) -> dict[int, Any]:
        """Results at the driver, by partition, of chunks that ``build`` says how to get."""
        found: list[Any] = []
        group = f"mergesvm-{uuid.uuid4()}"

        def run() -> None:
            try:
                self._context.setJobGroup(group, "mergesvm")
                found.append(build().collect())
            except Exception as error:  # noqa: BLE001 - raised by the thread that waits
                found.append(error)

        from pyspark import InheritableThread

        # In a thread of its own, so that this one can see how far it is, and stop it.
        thread = InheritableThread(target=run, name="mergesvm-spark", daemon=True)
        thread.start()
        try:
            self._watch(thread, group, done)
        except BaseException:
            self._context.cancelJobGroup(group)
            thread.join(LAST_SECONDS)
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
            raise _told(found) from found
        pieces = {index: (tasks, data) for index, tasks, data in assembled(found)}
        count = sum(tasks for tasks, _ in pieces.values())
        if count != self.tasks:
            raise EngineError(f"Spark has brought in {count} results of {self.tasks} tasks: some are lost. Try again.")
        return {index: unpacked(data) for index, (_, data) in pieces.items()}

    def traffic(self) -> Traffic:
        """What the partitions have sent."""
        sent: dict[str, int] = {}
        for (_, index), (size, _) in sorted(self._reports.value.items()):
            name = f"partition {index}"
            sent[name] = sent.get(name, 0) + size
        return Traffic(sent, len(self._reports.value), self.rounds)


class _Keyed:
    """Chunks with the number of the worker that is to join them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, chunk: Any) -> tuple[int, Any]:
        return chunk[0] % self.count, chunk


class _Joined:
    """What one worker of a level does."""

    def __init__(self, work: Work, level: int) -> None:
        self.work, self.level = work, level

    def __call__(self, index: int, sent: Any) -> Any:
        return self.work.join(self.level, index, sent)


def _reports() -> Any:
    from pyspark.accumulators import AccumulatorParam

    class Reports(AccumulatorParam):  # type: ignore[misc]
        """What workers report is put together; what is reported again replaces what was."""

        def zero(self, _value: Any) -> dict[Any, Any]:
            return {}

        def addInPlace(self, one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802
            return one | other

    return Reports()


def _told(error: Exception) -> EngineError:
    """What Spark says of work that it has given up, without its stack."""
    java = getattr(error, "java_exception", None)
    said = str(error if java is None else java.getMessage()).strip() or type(error).__name__
    first, *lines = said.splitlines()
    if "Python worker" in first and lines:  # then what is wrong is the end of a stack of Python
        first = next((line for line in reversed(lines) if line[:1].strip() and not line.startswith("SQLSTATE")), first)
    lacking = "No module named" in first
    cure = " The workers' Python is another: set PYSPARK_PYTHON to one that has it, and then start the session."
    return EngineError(f"Spark has not finished: {first}{'.' + cure if lacking else ''}")
