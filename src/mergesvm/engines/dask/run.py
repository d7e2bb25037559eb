"""One run of tasks on a Dask cluster, and its cleanup."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Self
from uuid import uuid4
from weakref import WeakSet

from mergesvm.engines.dask.parcel import Packed, run_join, run_task, sent, unpack
from mergesvm.engines.reduce import Join
from mergesvm.engines.work import Progress
from mergesvm.errors import EngineError

RESULTS_PER_JOIN = 4
"""A worker joins its results as soon as it has this many."""

ENDED = ("finished", "error", "cancelled")

CHECK_SECONDS = 1.0
"""How often to check that there are workers, while nothing finishes."""

MAX_SECONDS_WITHOUT_WORKERS = 60.0
"""Some clusters start workers only when there is work."""

MAX_BYTES_WITH_TASKS = 2**26
"""The shared arguments are sent along with each task if all copies together are no larger than this."""


class Run:
    """A run of tasks; use it in a ``with`` block, which leaves nothing on the cluster.

    ``function`` and ``given`` are shared by all tasks; ``join`` is sent with every call that needs it.
    """

    def __init__(
        self, client: Any, function: Callable[..., Any], given: tuple[Any, ...], join: Join[Any] | None = None
    ) -> None:
        self.client, self.token = client, uuid4().hex
        self.sent: dict[str, int] = {}
        self.messages = 0
        self._packed, self._join = Packed((function, given)), Packed(join)
        self._title = getattr(function, "__name__", "task").strip("_<>").replace("-", "_") or "task"
        self._names: Sequence[str] | None = None
        self._steps = 0
        self._shared: Any = None
        self._alive: WeakSet[Any] = WeakSet()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, *_: object) -> None:
        if error is None:
            with watched():  # counts of workers that died are lost
                counts = self._everywhere(_sent, self.token)
            self.sent = {address: count["bytes"] for address, count in counts.items()}
            self.messages = sum(count["messages"] for count in counts.values())
        elif self.client.status == "running":
            # Release instead of cancel: cancelling tasks that others depend on makes the scheduler drop the connection.
            for future in [future for future in self._alive if future.client is self.client]:
                future.release()
            while isinstance(error, Exception) and any(self._everywhere(_busy, self.token).values()):
                time.sleep(0.02)
            self._everywhere(_sent, self.token)
        if self._shared is not None:
            self._shared.release()

    @property
    def shared(self) -> Any:
        """A future of the shared function and arguments, sent to the cluster once and copied to all workers."""
        if self._shared is None:
            with large_graphs(), watched():
                key = f"given-{self.token}"
                self._shared = self.client.submit(unpack, self._packed, self.token, key=key, pure=False)
            self.wait([self._shared])
            # Tasks would queue up at the one worker that has it.
            with watched():
                self.client.replicate([self._shared])
        return self._shared

    def leaves(self, tasks: Sequence[Any], names: Sequence[str] | None, *, few: bool) -> list[Any]:
        """Submit all tasks and return their futures; partitions of collections are computed at the same worker.

        With ``few`` tasks, about one per worker, the shared arguments are sent with each task unless they are large:
        this saves sending them in advance.
        """
        from dask.base import is_dask_collection
        from dask.delayed import delayed
        from distributed import Future

        there = [is_dask_collection(task) or isinstance(task, Future) for task in tasks]
        self._names = names or [f"partition {index}" if there[index] else "" for index in range(len(tasks))]
        work = delayed(run_task, pure=False, traverse=False)
        small = len(self._packed.content) * len(tasks) <= MAX_BYTES_WITH_TASKS
        shared = self._packed if few and small else self.shared
        calls = [
            work(
                shared,
                self.token,
                task if there[index] else Packed(task),
                self._names[index] or None,
                dask_key_name=self._key(index),
            )
            for index, task in enumerate(tasks)
        ]
        return self._compute(calls)

    def computed(self, partitions: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Compute partitions of collections; return futures and the worker that holds each."""
        futures = self._compute(partitions)
        self.wait(futures)
        return futures, self.places(futures)

    def places(self, futures: Sequence[Any]) -> list[str]:
        """Return the address of the worker that holds each future."""
        with watched():
            holders = self.client.who_has(list(futures))
        return [next(iter(holders[future.key]), "") for future in futures]

    def _key(self, index: int) -> str:
        return f"{self._title}-{self.token}-{_backwards(index)}"

    def wait(self, futures: Sequence[Any], done: Progress | None = None) -> None:
        """Wait until all are finished; raise the first error."""
        for count, _ in enumerate(self.finished(futures), start=1):
            if done is not None:
                done(count, len(futures))

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Fetch results to the client."""
        with watched():
            return [parcel.value for parcel in self.client.gather(list(futures))]

    def folded(self, leaves: list[Any], done: Progress | None) -> list[Any]:
        """Join results on the worker that holds them, as they arrive; return one future per worker."""
        total, held = len(leaves), dict[str, list[Any]]()
        for count, index in enumerate(self.finished(leaves), start=1):
            with watched():
                holders = self.client.who_has([leaves[index]])
            place = next((worker for workers in holders.values() for worker in workers), "")
            mine = held.setdefault(place, [])
            mine.append(leaves[index])
            leaves[index] = None  # otherwise its result would be kept after it has been joined
            if len(mine) == RESULTS_PER_JOIN:
                held[place] = self.start([self.call(run_join, mine)], place)
            if done is not None:
                done(count, total)
        return [
            self.start([self.call(run_join, mine)], place)[0] if len(mine) > 1 else mine[0]
            for place, mine in held.items()
        ]

    def tree(self, results: list[Any], function: Callable[..., Any] = run_join) -> tuple[Any, int]:
        """Build a binary tree of calls that joins all results; return its root and the number of levels."""
        depth = 0
        while len(results) > 1:
            pairs = [results[first : first + 2] for first in range(0, len(results), 2)]
            results = [self.call(function, pair) if len(pair) > 1 else pair[0] for pair in pairs]
            depth += 1
        return results[0], depth

    def joined(self, results: list[Any]) -> tuple[Any, int]:
        """Join all results in a tree and fetch the result; also return the number of rounds."""
        root, depth = self.tree(results)
        root = self.start([root])[0] if depth else root
        self.wait([root])
        return self.gather([root])[0], depth + 1

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Build a call ``function(join, *arguments)``; arguments may be futures or other calls."""
        from dask.delayed import delayed

        self._steps += 1
        key = f"{function.__name__.strip('_')}-{self.token}-step-{_backwards(self._steps)}"
        return delayed(function, pure=False, traverse=False)(self._join, *arguments, dask_key_name=key)

    def start(self, calls: Sequence[Any], place: str = "") -> list[Any]:
        """Submit calls in one message and return their futures."""
        # Prior to further tasks, whose results would accumulate.
        return self._compute(calls, priority=1, workers=[place] if place else None, allow_other_workers=bool(place))

    def _compute(self, calls: Sequence[Any], **where: Any) -> list[Any]:
        with large_graphs(), watched():
            futures: list[Any] = self.client.compute(list(calls), **where)
        self._alive.update(futures)
        return futures

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """Yield the index of each future as it finishes."""
        arrived: SimpleQueue[int] = SimpleQueue()

        def watch(index: int) -> None:
            futures[index].add_done_callback(lambda _: arrived.put(index))

        for index in range(len(futures)):
            watch(index)
        left = len(futures)
        while left:
            index = self._next(arrived)
            if futures[index].status not in ENDED:  # its worker has died, and it is run again
                watch(index)
                continue
            if futures[index].status != "finished":
                self._fail(futures[index])
            left -= 1
            yield index

    def _next(self, arrived: SimpleQueue[int]) -> int:
        seen = time.monotonic()
        while True:
            try:
                return arrived.get(timeout=CHECK_SECONDS)
            except Empty:
                with watched():
                    check_connected(self.client)
                    if self.client.nthreads():
                        seen = time.monotonic()
            if time.monotonic() - seen > MAX_SECONDS_WITHOUT_WORKERS:
                raise EngineError(f"The Dask cluster has had no workers for {MAX_SECONDS_WITHOUT_WORKERS:.0f} s.")

    def _fail(self, future: Any) -> None:
        """Raise the error of a future."""
        from distributed import CancelledError, KilledWorker

        with watched():
            error = future.exception()
        if isinstance(error, KilledWorker):
            names = {self._key(index): name for index, name in enumerate(self._names or ()) if name}
            name = names.get(error.task)
            raise EngineError(f"{name}: {error}" if name else str(error)) from error
        if isinstance(error, CancelledError):
            raise EngineError(f"The Dask cluster cancelled the tasks: {error}") from error
        raise error.with_traceback(future.traceback())

    def _everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.client.run(function, *arguments, on_error="ignore")
        return found


def _backwards(index: int) -> int:
    """A number that decreases with the index: Dask starts with the task whose key sorts last."""
    return 10**9 - 1 - index


def _sent(token: str) -> Counter[str]:
    return sent.pop(token, Counter())


def _busy(token: str, dask_worker: Any) -> bool:
    return any(token in str(task.key) for task in dask_worker.state.executing)


@contextmanager
def large_graphs() -> Iterator[None]:
    """Suppress the warning about large graphs: the data is meant to be sent."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
        yield


def check_connected(client: Any) -> None:
    """Raise an error if the scheduler is gone; other calls would try to reach it for a minute."""
    if client.status != "running":
        raise EngineError("The connection to the Dask scheduler is lost. Check that it is running, and connect again.")


@contextmanager
def watched() -> Iterator[None]:
    """Raise an EngineError when the cluster cannot be reached."""
    from distributed.comm import CommClosedError

    try:
        yield
    except (CommClosedError, OSError, TimeoutError) as error:
        raise EngineError(f"The Dask cluster does not answer: {error or type(error).__name__}") from error
