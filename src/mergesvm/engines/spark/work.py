"""What Spark's workers do: call a function, send the result in chunks, and merge the results of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from mergesvm.engines.traffic import Traffic
from mergesvm.engines.version import installed_version
from mergesvm.engines.work import naming
from mergesvm.errors import EngineError

CHUNK_BYTES = 2**20
"""Results are sent in chunks of this size: Spark puts many records into one array, which is limited to 2 GB."""

FAN_IN = 16
"""Number of results that one worker merges at each level of the tree."""

Chunk = tuple[int, int, int, int, bytes]
"""Partition, index of the chunk, number of chunks, number of tasks merged into the result, and the bytes."""

CHUNKS = "part long, place long, chunks long, tasks long, content binary"
"""The schema of a DataFrame of chunks."""

CHUNK_NAMES = [field.split()[0] for field in CHUNKS.split(", ")]


class Parcel:
    """A pickled object that is unpickled together with its container; functions can be sent this way.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(Parcel(packed(lambda x: x + 1))))(1)
    2
    """

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return unpacked, (self.data,)


def packed(content: Any) -> bytes:
    """Pickle an object, functions included."""
    from pyspark import cloudpickle

    data: bytes = cloudpickle.dumps(content, protocol=5)
    return data


def unpacked(data: bytes) -> Any:
    """Unpickle an object."""
    from pyspark import cloudpickle

    return cloudpickle.loads(data)


class Work:
    """The function, its shared arguments, the join and the names, as broadcast to the workers of a classic session.

    ``reports`` accumulates a dict of the bytes sent and the error, by level of the tree and partition: a report that is
    repeated because a worker was lost counts once.
    """

    def __init__(self, parcel: Any, reports: Any) -> None:
        self.parcel, self.reports = parcel, reports

    def on_tasks(self, tasks: Iterable[tuple[int, Any]]) -> Iterator[Chunk]:
        """Run tasks that were sent as bytes or, if large, as broadcasts."""
        for index, task in tasks:
            content = partial(unpacked, task) if isinstance(task, bytes) else partial(getattr, task, "value")
            yield from self._called(index, content)

    def on_batches(self, batches: Iterator[Any], names: list[str]) -> Iterator[Any]:
        """Run on a partition of a table with these column names; yields chunks as record batches."""
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
        """Merge the results of several partitions as they arrive."""
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

    @contextmanager
    def _reporting(self, level: int, index: int) -> Iterator[Callable[[int], None]]:
        """Report errors instead of raising them: Spark would retry the task, and then show its own stack trace."""

        def report(size: int, error: bytes | None = None) -> None:
            self.reports.add({(level, index): (size, error)})

        try:
            yield report
        except Exception as error:  # noqa: BLE001 - raised by the driver
            report(0, packed_error(error))


class SameVersion:
    """A function that workers call only if they have this version of the package.

    >>> SameVersion(abs, "0.0.1")(-1)
    Traceback (most recent call last):
    ...
    mergesvm.errors.EngineError: A Spark worker has mergesvm ..., but the driver has 0.0.1. ...
    """

    def __init__(self, function: Callable[..., Any], version: str) -> None:
        self.function, self.version = function, version

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        if installed_version() != self.version:
            raise EngineError(
                f"A Spark worker has mergesvm {installed_version()}, but the driver has {self.version}. Install the "
                f"same version everywhere."
            )
        return self.function(*arguments)


@contextmanager
def watched() -> Iterator[None]:
    """Raise an EngineError if the Java process of the session does not answer."""
    from py4j.protocol import Py4JError

    try:
        yield
    except (Py4JError, ConnectionError) as error:
        raise describe_error(error) from error


def packed_error(error: Exception) -> bytes:
    """Pickle an error; one that cannot be pickled is replaced by one that can."""
    try:
        data = packed(error)
        unpacked(data)
    except Exception:  # noqa: BLE001 - whatever goes wrong in pickling
        return packed(EngineError(f"{type(error).__name__}: {error}"))
    return data


def chunks(index: int, tasks: int, data: bytes, size: int = CHUNK_BYTES) -> Iterator[Chunk]:
    """Split bytes into chunks.

    >>> [(place, total, len(part)) for _, place, total, _, part in chunks(0, 1, bytes(CHUNK_BYTES + 1))]
    [(0, 2, 1048576), (1, 2, 1)]
    """
    starts = range(0, len(data), size)
    for place, start in enumerate(starts):
        yield index, place, len(starts), tasks, data[start : start + size]


def assembled(sent: Iterable[Chunk]) -> Iterator[tuple[int, int, bytes]]:
    """Yield the partition, the number of tasks and the content of each result, once all its chunks have arrived.

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


def traffic_of(sent: Mapping[tuple[int, int], int], rounds: int) -> Traffic:
    """Return the bytes sent by each partition, from those by level of the tree and partition."""
    total = Counter[str]()
    for (_, index), size in sorted(sent.items()):
        total[f"partition {index}"] += size
    return Traffic(dict(total), len(sent), rounds)


def describe_error(error: Exception) -> EngineError:
    """Return an error with Spark's message, without its stack trace."""
    java = getattr(error, "java_exception", None)
    lost = isinstance(error, ConnectionError) or type(error).__module__.startswith("py4j")
    if java is None and lost:  # no message came back from Java
        return EngineError("The Java process of the Spark session has ended or does not answer. Start another session.")
    message = str(error if java is None else java.getMessage()).strip() or type(error).__name__
    first, *lines = message.splitlines()
    if "Python worker" in first and lines:  # then the cause is the end of a Python traceback
        first = next((line for line in reversed(lines) if line[:1].strip() and not line.startswith("SQLSTATE")), first)
    cure = ""
    if "No module named" in first:
        cure = ". The workers run another Python: set PYSPARK_PYTHON to one that has it before starting the session."
    return EngineError(f"Spark failed: {first}{cure}")
