"""One run of tasks over Spark Connect, which has no RDDs, broadcasts or accumulators: everything is a DataFrame."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, Self

from mergesvm.engines.spark.session import quiet_pandas
from mergesvm.engines.spark.tables import Partitions
from mergesvm.engines.spark.work import (
    CHUNK_NAMES,
    CHUNKS,
    FAN_IN,
    Chunk,
    Parcel,
    assembled,
    chunks,
    describe_error,
    packed,
    packed_error,
    traffic_of,
    unpacked,
)
from mergesvm.engines.traffic import Traffic
from mergesvm.engines.work import Progress, naming
from mergesvm.errors import EngineError

CHUNK_BYTES = 2**17
"""Results are sent in chunks of this size: Spark puts up to 10,000 rows into an Arrow batch of at most 2 GB."""

MAX_CLOSURE_BYTES = 2**20
"""Larger tasks are sent as DataFrames instead of with the function."""

WAIT_SECONDS = 0.1
"""How often to check for an interrupt."""


class Outcome(NamedTuple):
    """The pickled result of some tasks, as it is sent.

    Bytes sent and the first error, a pickled exception, are by level of the tree and index.
    """

    tasks: int
    sent: dict[tuple[int, int], int]
    error: tuple[tuple[int, int], bytes] | None
    data: bytes


class ConnectJob:
    """A run of tasks on a session of Spark Connect; the same interface as :class:`~mergesvm.engines.spark.job.Job`.

    Errors and counts of bytes are sent along with the results. An error does not stop the tasks that have begun.
    """

    def __init__(self, session: Any, function: Any, given: tuple[Any, ...], join: Any, names: Any) -> None:
        self.tasks: int | None = None
        self.rounds = 1
        self._session, self._sent = session, dict[tuple[int, int], int]()
        self._call, self._join = Parcel(packed((function, given, names))), Parcel(packed(join))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to clean up."""

    def on_tasks(self, tasks: Sequence[Any]) -> Any:
        """Run tasks; returns the DataFrame of their outcomes in chunks."""
        self.tasks, call = len(tasks), self._call
        sent = [packed(task) for task in tasks]
        with quiet_pandas():
            if sum(map(len, sent)) <= MAX_CLOSURE_BYTES:
                numbers = self._session.range(0, len(sent), 1, len(sent))
                return numbers.mapInArrow(lambda batches: _on_numbers(call, sent, batches), CHUNKS)
            return reduce(lambda one, other: one.unionAll(other), map(self._alone, range(len(sent)), sent))

    def _alone(self, index: int, task: bytes) -> Any:
        call = self._call
        frame = self._session.createDataFrame(_batch(chunks(index, 1, task, CHUNK_BYTES), table=True)).coalesce(1)
        return frame.mapInArrow(lambda batches: _on_chunks(call, index, batches), CHUNKS)

    def on_table(self, parts: Partitions, most: int) -> Any:
        """Run on the partitions of a table, combined to at most ``most``."""
        call, names = self._call, parts.names
        with quiet_pandas():
            return parts.table.coalesce(most).mapInArrow(lambda batches: _on_batches(call, names, batches), CHUNKS)

    def joined(self, frame: Any, most: int) -> Any:
        """Merge outcomes, at most ``most``, in a tree on the workers."""
        from pyspark.sql import functions as sql

        count, join = most if self.tasks is None else self.tasks, self._join
        while count > 1:
            count, level = -(-count // FAN_IN), self.rounds
            frame = frame.repartition(count, sql.col("part") % count).mapInArrow(_Merge(join, level, count), CHUNKS)
            self.rounds += 1
        return frame

    def collect(self, build: Callable[[], Any], done: Progress | None) -> dict[int, Any]:
        """Fetch the results, by index, of the DataFrame that ``build`` returns."""
        found: list[Any] = []
        tag = f"mergesvm-{uuid.uuid4()}"

        def run() -> None:
            try:
                self._session.addTag(tag)
                with quiet_pandas():
                    found.append(build().toArrow())
            except Exception as error:  # noqa: BLE001 - raised by the waiting thread
                found.append(error)

        # In another thread, so that this one can be interrupted.
        thread = threading.Thread(target=run, name="mergesvm-spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(WAIT_SECONDS)
        except BaseException:
            self._session.interruptTag(tag)
            raise
        if isinstance(found[0], Exception):
            raise describe_error(found[0]) from found[0]
        outcomes = {index: unpacked(data) for index, _, data in assembled(_rows(found[0].to_batches()))}
        results = self._checked(outcomes)
        if done is not None and self.tasks:
            done(self.tasks, self.tasks)
        return results

    def _checked(self, outcomes: dict[int, Outcome]) -> dict[int, Any]:
        for outcome in outcomes.values():
            self._sent |= outcome.sent
        failed = [outcome.error for outcome in outcomes.values() if outcome.error is not None]
        if failed:
            raise unpacked(min(failed)[1])
        count = sum(outcome.tasks for outcome in outcomes.values())
        if self.tasks not in (None, count):
            raise EngineError(f"Spark returned {count} of {self.tasks} results; some were lost. Try again.")
        return {index: unpacked(outcome.data) for index, outcome in outcomes.items()}

    def traffic(self) -> Traffic:
        """Bytes sent by each partition."""
        return traffic_of(self._sent, self.rounds)


class _Merge:
    """Merges the outcomes of each group, at a worker."""

    def __init__(self, join: Any, level: int, count: int) -> None:
        self.join, self.level, self.count = join, level, count
        self.__name__ = "merge"

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        merged: dict[int, Outcome] = {}
        totals: dict[int, Any] = {}
        for part, _, data in assembled(_rows(batches)):
            outcome, group = unpacked(data), part % self.count
            merged[group] = self._merge(merged.get(group), totals, outcome, group)
        for group, outcome in merged.items():
            if outcome.error is None:
                data = packed(totals.pop(group))
                outcome = outcome._replace(sent=outcome.sent | {(self.level, group): len(data)}, data=data)
            yield _batch(chunks(group, outcome.tasks, packed(outcome), CHUNK_BYTES))

    def _merge(self, one: Outcome | None, totals: dict[int, Any], other: Outcome, group: int) -> Outcome:
        errors = [each.error for each in (one, other) if each is not None and each.error is not None]
        if not errors:
            try:
                result = unpacked(other.data)
                totals[group] = result if one is None else self.join([totals[group], result])
            except Exception as error:  # noqa: BLE001 - raised by the driver
                errors = [((self.level, group), packed_error(error))]
        count, sent = (0, {}) if one is None else (one.tasks, one.sent)
        return Outcome(count + other.tasks, sent | other.sent, min(errors) if errors else None, b"")


def _run(call: Any, index: int, content: Callable[[], Any]) -> Iterator[Any]:
    """Run one task at a worker; its outcome in chunks."""
    function, given, names = call
    try:
        with naming(names[index] if names else f"partition {index}"):
            data = packed(function(content(), *given))
        outcome = Outcome(1, {(0, index): len(data)}, None, data)
    except Exception as error:  # noqa: BLE001 - raised by the driver
        outcome = Outcome(1, {}, ((0, index), packed_error(error)), b"")
    yield _batch(chunks(index, 1, packed(outcome), CHUNK_BYTES))


def _on_numbers(call: Any, tasks: list[bytes], batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield from _run(call, index, lambda index=index: unpacked(tasks[index]))  # type: ignore[misc]


def _on_chunks(call: Any, index: int, batches: Iterator[Any]) -> Iterator[Any]:
    for _, _, data in assembled(_rows(batches)):
        yield from _run(call, index, lambda data=data: unpacked(data))  # type: ignore[misc]


def _on_batches(call: Any, names: list[str], batches: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    yield from _run(call, context.partitionId(), lambda: (batch.rename_columns(names) for batch in batches))


def _rows(batches: Iterable[Any]) -> Iterator[Chunk]:
    """Yield the chunks stored in record batches, one per row."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batch(rows: Iterable[Chunk], *, table: bool = False) -> Any:
    """Chunks as a record batch, or as a table."""
    import pyarrow as pa

    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return pa.table(columns, CHUNK_NAMES) if table else pa.record_batch(columns, CHUNK_NAMES)
