"""The engine of one machine: threads, each with a single-threaded BLAS."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, reduce
from itertools import count
from numbers import Integral
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from mergesvm.engines.base import Actors, Engine
from mergesvm.engines.machine import cores
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


def worker_count(workers: Any, name: str = "workers") -> int:
    """Check a number of workers and return it; as in joblib, -1 is one per core, -2 one fewer, and so on.

    >>> worker_count(3), worker_count(-1) == worker_count(None) == cores(), worker_count(-10_000)
    (3, True, 1)
    """
    if workers is None:
        return cores()
    if not isinstance(workers, Integral) or isinstance(workers, bool) or workers == 0:
        raise ParameterError(
            f"{name} must be a positive integer, a negative one (-1: one per core, -2: one fewer, ...) or None, not "
            f"{workers!r}."
        )
    number = int(workers)
    return number if number > 0 else max(1, cores() + 1 + number)


class Threads(Engine):
    """Threads of this process. Nothing is pickled or sent.

    While several tasks run, BLAS is limited to one thread per task, so that ``workers`` tasks use ``workers`` cores.
    With one worker or one task, everything runs in the calling thread and BLAS keeps its own threads.

    Parameters
    ----------
    workers : int or None
        Number of threads; ``None`` or ``-1`` for one per core, ``-2`` for one fewer, as in joblib.

    Examples
    --------
    >>> from mergesvm.engines.threads import Threads
    >>> Threads(2).map(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """

    def __init__(self, workers: int | None = None) -> None:
        super().__init__()
        self._workers = worker_count(workers)

    @classmethod
    def of_jobs(cls, n_jobs: int | None) -> Threads:
        """Return the threads that an argument ``n_jobs`` asks for."""
        return cls(worker_count(n_jobs, "n_jobs"))

    @property
    def workers(self) -> int:
        """Number of threads."""
        return self._workers

    def _map(self, work: Work[Result]) -> list[Result]:
        run, tasks = _counted(work), range(len(work.tasks))
        if self.workers == 1 or len(tasks) <= 1:
            return [run(index) for index in tasks]
        with self.single_threaded_blas(), ThreadPoolExecutor(min(self.workers, len(tasks))) as pool:
            futures = [pool.submit(run, index) for index in tasks]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # After an error or an interrupt, start no further tasks.
                for future in futures:
                    future.cancel()
            failed = next((future for future in futures if not future.cancelled() and future.exception()), None)
            return [future.result() for future in ([failed] if failed else futures)]

    def _merge(self, work: Work[Result], join: Join[Result], *, own: bool) -> Result | None:  # noqa: ARG002
        run, step = _counted(work), min(self.workers, len(work.tasks))

        def fold(indices: range) -> Result:
            # Each thread merges its results as they come, so that few are held at the same time.
            return reduce(lambda total, index: join([total, run(index)]), indices[1:], run(indices[0]))

        folded = self.map(fold, [range(first, len(work.tasks), step) for first in range(step)])
        return join(folded) if folded else None

    def actors(
        self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()
    ) -> Actors[State]:
        """Build one object per task in this process; their methods run in threads."""
        return LocalActors(self, dict(enumerate(self.map(build, tasks, given=given))), len(tasks))

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


def _counted(work: Work[Result]) -> Callable[[int], Result]:
    """Return a function that runs a task and reports the number of tasks that all threads have finished."""
    lock, numbers = threading.Lock(), count(1)

    def run(index: int) -> Result:
        result = work.run(index)
        with lock:
            work.report(next(numbers))
        return result

    return run


class LocalActors(Actors[State]):
    """Objects of this process by index, out of ``count``; a method is called by mapping over the indices."""

    def __init__(self, engine: Engine, objects: dict[int, State], count: int) -> None:
        self._engine, self._objects, self._count = engine, objects, count

    def __len__(self) -> int:
        return self._count

    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method of every object; under MPI, all ranks get all results."""

        def call(index: int) -> Any:
            return getattr(self._objects[index], method)(*(() if each is None else (each[index],)), *arguments)

        return self._engine.map(call, range(self._count))

    def close(self) -> None:
        """Release the objects of this process."""
        self._objects, self._count = {}, 0


def resolve_engine(engine: Any, n_jobs: int | None = None) -> tuple[Threads, Engine | None]:
    """Return the threads to use within a process, and the engine if it is not this process.

    >>> resolve_engine(None, 2), resolve_engine(Threads(3))
    ((Threads(2), None), (Threads(3), None))
    >>> resolve_engine("dask")
    Traceback (most recent call last):
    ...
    mergesvm.errors.ParameterError: engine must be an engine from mergesvm.engines, ... or None, not 'dask'.
    """
    if engine is None:
        return Threads.of_jobs(n_jobs), None
    if not isinstance(engine, Engine):
        raise ParameterError(
            f"engine must be an engine from mergesvm.engines, such as Dask(...), or None, not {engine!r}."
        )
    if isinstance(engine, Threads):
        return engine if n_jobs is None else Threads.of_jobs(n_jobs), None
    return Threads.of_jobs(1 if n_jobs is None else n_jobs), engine
