"""What Spark's workers do: they call a function, send what it gives in chunks, and join what others have sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from mergesvm.engines.work import naming
from mergesvm.errors import EngineError

CHUNK = 2**20
"""Results travel in chunks of so many bytes: Spark holds many records in one array, of at most 2 GB."""

Chunk = tuple[int, int, int, int, bytes]
"""Which partition's result, which chunk of how many, of how many tasks it is the result, and the bytes."""

CHUNKS = "part long, place long, chunks long, tasks long, content binary"
"""The same as a table of Spark."""


class Parcel:
    """What has been packed, and is its content once it has been pickled and unpickled; also functions travel so.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(Parcel(packed(lambda x: x + 1))))(1)
    2
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return unpacked, (self.data,)


def packed(content: Any) -> bytes:
    """Anything as bytes."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(content, protocol=5)
    return data


def unpacked(data: bytes) -> Any:
    """What the bytes stand for."""
    from pyspark import cloudpickle

    return cloudpickle.loads(data)


class Work:
    """A function for tasks and how their results are joined, as it travels to the workers.

    Parameters
    ----------
    parcel : Broadcast
        Of the function, what it is given, the join, and the names of the tasks.
    reports : Accumulator
        Of a dict: how many bytes each partition has sent at each level, and which error it has met. What is reported
        twice, because a worker was lost, counts once.
    """

    def __init__(self, parcel: Any, reports: Any) -> None:
        self.parcel, self.reports = parcel, reports

    def on_tasks(self, tasks: Iterable[tuple[int, Any]]) -> Iterator[Chunk]:
        """Results of tasks that were sent: as bytes, or as a broadcast of its own if it is large."""
        for index, task in tasks:
            yield from self._called(index, partial(_content, task))

    def on_batches(self, batches: Iterator[Any], names: list[str]) -> Iterator[Any]:
        """The result of a partition of a table whose columns have these names, as record batches."""
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for chunk in self._called(context.partitionId(), lambda: (batch.rename_columns(names) for batch in batches)):
            yield pa.record_batch([pa.array([value]) for value in chunk], CHUNK_NAMES)

    def _called(self, index: int, content: Callable[[], Any]) -> Iterator[Chunk]:
        function, given, _, names = self.parcel.value
        with self._reporting(0, index) as report:
            with naming(names[index] if names else f"partition {index}"):
                data = packed(function(content(), *given))
            report(len(data))
            yield from chunks(index, 1, data)

    def join(self, level: int, index: int, sent: Iterable[tuple[int, Chunk]]) -> Iterator[Chunk]:
        """The results of several partitions joined, one after another as they come."""
        join, total, count = self.parcel.value[2], None, 0
        with self._reporting(level, index) as report:
            for _, tasks, data in assembled(chunk for _, chunk in sent):
                result = unpacked(data)
                total = result if count == 0 else join([total, result])
                count += tasks
            if count:
                data = packed(total)
                report(len(data))
                yield from chunks(index, count, data)

    def _reporting(self, level: int, index: int) -> _Reporting:
        return _Reporting(self.reports, level, index)


CHUNK_NAMES = [field.split()[0] for field in CHUNKS.split(", ")]


class _Reporting:
    """Errors are reported, and not raised: Spark would try the task again and again, and then tell of its own stack."""

    def __init__(self, reports: Any, level: int, index: int) -> None:
        self._reports, self._key = reports, (level, index)

    def __enter__(self) -> Callable[[int], None]:
        return self._report

    def _report(self, size: int, error: bytes | None = None) -> None:
        self._reports.add({self._key: (size, error)})

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._report(0, _packed_error(error))
        return True


def _content(task: Any) -> Any:
    return unpacked(task) if isinstance(task, bytes) else task.value


def _packed_error(error: Exception) -> bytes:
    """An error as bytes; one that cannot travel is told of by another that can."""
    try:
        data = packed(error)
        unpacked(data)
    except Exception:  # noqa: BLE001 - whatever an odd error does when it is pickled
        return packed(EngineError(f"{type(error).__name__}: {error}"))
    return data


def chunks(index: int, tasks: int, data: bytes) -> Iterator[Chunk]:
    """Bytes cut into chunks.

    >>> [(place, total, len(part)) for _, place, total, _, part in chunks(0, 1, bytes(CHUNK + 1))]
    [(0, 2, 1048576), (1, 2, 1)]
    """
    starts = range(0, len(data), CHUNK)
    for place, start in enumerate(starts):
        yield index, place, len(starts), tasks, data[start : start + CHUNK]


def assembled(sent: Iterable[Chunk]) -> Iterator[tuple[int, int, bytes]]:
    """Partition, number of tasks and bytes of each result, as soon as all its chunks are there.

    >>> mixed = [(1, 1, 2, 1, b"d"), (0, 0, 1, 3, b"x"), (1, 0, 2, 1, b"c")]
    >>> list(assembled(mixed))
    [(0, 3, b'x'), (1, 1, b'cd')]
    """
    waiting: dict[int, dict[int, bytes]] = {}
    for index, place, total, tasks, data in sent:
        parts = waiting.setdefault(index, {})
        parts[place] = data
        if len(parts) == total:
            del waiting[index]
            yield index, tasks, b"".join(parts[place] for place in range(total))
