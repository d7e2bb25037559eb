"""One piece of work on a Dask cluster, from the first task to the last trace that it leaves there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Self
from uuid import uuid4
from weakref import WeakSet

from mergesvm.engines.base import Done
from mergesvm.engines.dask.parcel import Last, Packed, run_join, run_task, sent, unpack
from mergesvm.errors import EngineError

HELD = 4
"""So many results of a worker are joined there as soon as it has them."""

ENDED = ("finished", "error", "cancelled")

CHECK_SECONDS = 1.0
"""How often to look whether there are workers at all, while nothing happens."""

PATIENCE_SECONDS = 60.0
"""For so long a cluster may have no workers: some start them only when there is work."""


DEALT_BYTES = 2**26
"""What all tasks share goes along with them through the scheduler if that is no more than so much in all."""


class Run:
    """Work on a cluster: within a ``with`` block, after which nothing of it is left there.

    Parameters
    ----------
    client : distributed.Client
    function, given : what all tasks share
    join : Join, optional
        How results become one. It goes with every call that needs it, so that it has to be small.
    """

    def __init__(self, client: Any, function: Callable[..., Any], given: tuple[Any, ...], join: Any = None) -> None:
        self.client, self.token = client, uuid4().hex
        self.sent: dict[str, int] | None = None
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
            self.count()
        elif self.client.status == "running":
            # Not by cancelling: of tasks that nobody holds but others need, the scheduler then drops the connection.
            for future in [future for future in self._alive if future.client is self.client]:
                future.release()
            while isinstance(error, Exception) and any(self._everywhere(_busy, self.token).values()):
                time.sleep(0.02)
            self._everywhere(_sent, self.token)
        if self._shared is not None:
            self._shared.release()

    @property
    def shared(self) -> Any:
        """What all tasks share, as a future: it goes to the cluster once, as a task of its own, and to all workers."""
        if self._shared is None:
            with large_graphs(), watched():
                key = f"given-{self.token}"
                self._shared = self.client.submit(unpack, self._packed, self.token, key=key, pure=False)
            self.wait([self._shared])
            # At all workers, or tasks would queue up where it is.
            with watched():
                self.client.replicate([self._shared])
        return self._shared

    def leaves(
        self, tasks: Sequence[Any], names: Sequence[str] | None, *, dealt: bool, last: Last | None = None
    ) -> list[Any]:
        """Futures of all tasks; those that are collections' partitions are computed where they are worked on.

        If they are dealt out, about one to a worker, each takes along what all share, which then need not be there
        before; unless it is large. ``last`` is done with each result, in the same task.
        """
        from dask.base import is_dask_collection
        from dask.delayed import delayed
        from distributed import Future

        there = [is_dask_collection(task) or isinstance(task, Future) for task in tasks]
        self._names = names or [f"partition {index}" if there[index] else "" for index in range(len(tasks))]
        work = delayed(run_task, pure=False, traverse=False)
        small = len(self._packed.content) * len(tasks) <= DEALT_BYTES
        shared = self._packed if dealt and small else self.shared
        calls = [
            work(
                shared,
                self.token,
                task if there[index] else Packed(task),
                self._names[index] or None,
                *((last, self._join) if last else ()),
                dask_key_name=self._key(index),
            )
            for index, task in enumerate(tasks)
        ]
        return self._compute(calls)

    def computed(self, partitions: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """The contents of collections' partitions as futures, and the worker at which each lies."""
        futures = self._compute(partitions)
        self.wait(futures)
        return futures, self.places(futures)

    def places(self, futures: Sequence[Any]) -> list[str]:
        """The worker at which each lies."""
        with watched():
            holders = self.client.who_has(list(futures))
        return [next(iter(holders[future.key]), "") for future in futures]

    def _key(self, index: int) -> str:
        return f"{self._title}-{self.token}-{_backwards(index)}"

    def wait(self, futures: Sequence[Any], done: Done | None = None) -> None:
        """Until all are finished; the first error of any is raised."""
        for count, _ in enumerate(self.finished(futures), start=1):
            if done is not None:
                done(count, len(futures))

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Results, at the client."""
        with watched():
            return [parcel.value for parcel in self.client.gather(list(futures))]

    def folded(self, leaves: list[Any], done: Done | None) -> list[Any]:
        """What is left when results that lie at the same worker have been joined there, as they came."""
        total, held = len(leaves), dict[str, list[Any]]()
        for count, index in enumerate(self.finished(leaves), start=1):
            with watched():
                holders = self.client.who_has([leaves[index]])
            place = next((worker for workers in holders.values() for worker in workers), "")
            mine = held.setdefault(place, [])
            mine.append(leaves[index])
            leaves[index] = None  # or its result would be kept for us when it has been joined
            if len(mine) == HELD:
                held[place] = self.start([self.call(run_join, mine)], place)
            if done is not None:
                done(count, total)
        return [
            self.start([self.call(run_join, mine)], place)[0] if len(mine) > 1 else mine[0]
            for place, mine in held.items()
        ]

    def tree(self, results: list[Any], function: Callable[..., Any] = run_join) -> tuple[Any, int]:
        """The join of all, two by two, as a call if there is more than one; and how many levels that takes."""
        depth = 0
        while len(results) > 1:
            pairs = [results[first : first + 2] for first in range(0, len(results), 2)]
            results = [self.call(function, pair) if len(pair) > 1 else pair[0] for pair in pairs]
            depth += 1
        return results[0], depth

    def joined(self, results: list[Any]) -> tuple[Any, int]:
        """The join of all, at the client, and how many rounds it takes."""
        root, depth = self.tree(results)
        root = self.start([root])[0] if depth else root
        self.wait([root])
        return self.gather([root])[0], depth + 1

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A function of the join, and of futures or of other calls, to be called where those lie."""
        from dask.delayed import delayed

        self._steps += 1
        key = f"{function.__name__.strip('_')}-{self.token}-step-{_backwards(self._steps)}"
        return delayed(function, pure=False, traverse=False)(self._join, *arguments, dask_key_name=key)

    def start(self, calls: Sequence[Any], place: str = "") -> list[Any]:
        """Futures of calls, which go to the cluster in one message: a second one would have to wait."""
        # Before further tasks, whose results would pile up.
        return self._compute(calls, priority=1, workers=[place] if place else None, allow_other_workers=bool(place))

    def _compute(self, calls: Sequence[Any], **where: Any) -> list[Any]:
        with large_graphs(), watched():
            futures: list[Any] = self.client.compute(list(calls), **where)
        self._alive.update(futures)
        return futures

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """Which of the futures has come to its end, one after another."""
        arrived: SimpleQueue[int] = SimpleQueue()

        def watch(index: int) -> None:
            futures[index].add_done_callback(lambda _: arrived.put(index))

        for index in range(len(futures)):
            watch(index)
        left = len(futures)
        while left:
            index = self._next(arrived)
            if futures[index].status not in ENDED:  # its worker has died meanwhile, and it is done again
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
                    if self.client.status != "running":
                        raise EngineError("The connection to the Dask scheduler is lost.") from None
                    if self.client.nthreads():
                        seen = time.monotonic()
            if time.monotonic() - seen > PATIENCE_SECONDS:
                raise EngineError(
                    f"All workers of the Dask cluster are gone, and for {PATIENCE_SECONDS:.0f} s no new one has come."
                )

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
            raise EngineError(f"The Dask cluster has dropped the work: {error}") from error
        raise error.with_traceback(future.traceback())

    def count(self) -> None:
        """Ask what workers have sent, once; of one that has died it is not known."""
        if self.sent is None:
            with watched():
                counts = self._everywhere(_sent, self.token)
            self.sent = {address: count["bytes"] for address, count in counts.items()}
            self.messages = sum(count["messages"] for count in counts.values())

    def _everywhere(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.client.run(function, *arguments, on_error="ignore")
        return found


def _backwards(index: int) -> int:
    """The end of a key: of tasks that are alike, Dask begins with the one whose key is last."""
    return 10**9 - 1 - index


def _sent(token: str) -> Counter[str]:
    return sent.pop(token, Counter())


def _busy(token: str, dask_worker: Any) -> bool:
    return any(token in str(task.key) for task in dask_worker.state.executing)


@contextmanager
def large_graphs() -> Iterator[None]:
    """What is sent is meant to be sent: no warning is due."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
        yield


@contextmanager
def watched() -> Iterator[None]:
    """A cluster that cannot be reached is said to be so."""
    from distributed.comm import CommClosedError

    try:
        yield
    except (CommClosedError, OSError, TimeoutError) as error:
        raise EngineError(f"The Dask cluster does not answer: {error or type(error).__name__}") from error
