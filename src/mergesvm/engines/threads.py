"""The engine of one machine: threads, each with a single-threaded BLAS."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from mergesvm.engines.base import Actors, Engine
from mergesvm.engines.cores import cores
from mergesvm.engines.reduce import Join
from mergesvm.engines.work import Work
from mergesvm.errors import ParameterError

Result = TypeVar("Result")
State = TypeVar("State")


_lock = threading.Lock()
_limiting = 0
_limit: Any = None


@cache
def _controller(with_scipy: bool) -> ThreadpoolController:  # noqa: ARG001
    # Finding the loaded BLAS libraries takes milliseconds. It is repeated once scipy has loaded its own BLAS.
    return ThreadpoolController()


def worker_count(workers: Any) -> int:
    """Check a number of workers; None or -1 is one per core.

    >>> worker_count(3)
    3
    """
    count = cores() if workers is None or workers == -1 else workers
    if not isinstance(count, Integral) or count < 1:
        raise ParameterError(f"workers has to be a positive integer, None or -1 (one per core), not {workers!r}.")
    return int(count)


class Threads(Engine):
    """Threads of this process. Nothing is pickled or sent.

    While several tasks run, BLAS is limited to one thread per task, so that ``workers`` tasks use ``workers`` cores.
    With one worker or one task, everything runs in the calling thread and BLAS keeps its own threads.

    Parameters
    ----------
    workers : int or None
        Number of threads; ``None`` or ``-1`` for one per core.

    Examples
    --------
    >>> from mergesvm.engines.threads import Threads
    >>> Threads(2).map(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__()
        self._workers = worker_count(workers)

    @property
    def workers(self) -> int:
        """Number of threads."""
        return self._workers

    def _map(self, work: Work[Result]) -> list[Result]:
        counter, count = _Counter(work), len(work.tasks)

        def run(index: int) -> Result:
            result = work.run(index)
            counter.count()
            return result

        if self.workers == 1 or count <= 1:
            return [run(index) for index in range(count)]
        with self.single_threaded_blas(), ThreadPoolExecutor(min(self.workers, count)) as pool:
            futures = [pool.submit(run, index) for index in range(count)]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # After an error or an interrupt, start no further tasks.
                for future in futures:
                    future.cancel()
            failed = next((future for future in futures if not future.cancelled() and future.exception()), None)
            return [future.result() for future in ([failed] if failed else futures)]

    def _merge(self, work: Work[Result], join: Join[Result], *, own: bool) -> Result | None:  # noqa: ARG002
        counter, count = _Counter(work), min(self.workers, len(work.tasks))

        def fold(indices: range) -> Result:
            # Each thread merges its results as they come, so that few are held at the same time.
            total = work.run(indices[0])
            counter.count()
            for index in indices[1:]:
                total = join([total, work.run(index)])
                counter.count()
            return total

        folded = self.map(fold, [range(first, len(work.tasks), count) for first in range(count)])
        return join(folded) if folded else None

    def actors(
        self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()
    ) -> Actors[State]:
        """Build one object per task in this process; their methods run in threads."""
        return _LocalActors(self, self.map(build, tasks, given=given))

    @staticmethod
    @contextmanager
    def single_threaded_blas() -> Iterator[None]:
        """Limit BLAS to one thread within a ``with`` block.

        The limit is process-wide: the first block that is entered sets it, the last one that is left removes it.
        """
        global _limiting, _limit
        with _lock:
            if _limiting == 0:
                _limit = _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")
            _limiting += 1
        try:
            yield
        finally:
            with _lock:
                _limiting -= 1
                if _limiting == 0:
                    _limit.restore_original_limits()

    def __reduce__(self) -> tuple[type[Threads], tuple[int]]:
        return Threads, (self.workers,)

    def __repr__(self) -> str:
        return f"Threads({self.workers})"


class _Counter:
    """Counts finished tasks of several threads."""

    def __init__(self, work: Work[Any]) -> None:
        self._work, self._count, self._lock = work, 0, threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._count += 1
            self._work.report(self._count)


class _LocalActors(Actors[State]):
    def __init__(self, engine: Threads, objects: list[State]) -> None:
        self._engine, self._objects = engine, objects

    def __len__(self) -> int:
        return len(self._objects)

    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        def call(index: int) -> Any:
            return getattr(self._objects[index], method)(*(() if each is None else (each[index],)), *arguments)

        return self._engine.map(call, range(len(self._objects)))

    def close(self) -> None:
        self._objects = []
