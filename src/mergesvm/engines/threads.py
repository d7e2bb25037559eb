"""The engine of one machine: threads, each with a BLAS of one thread."""

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

from mergesvm.engines.base import Done, Engine, Units, naming
from mergesvm.engines.cores import cores
from mergesvm.engines.reduce import Join
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


class Threads(Engine):
    """The engine of one machine: threads of this process. Nothing is pickled, and nothing travels.

    While it runs, BLAS is limited to one thread for each task, so that ``workers`` tasks use ``workers`` cores. With
    one worker, or one task, everything runs in the calling thread and BLAS keeps its own threads.

    Parameters
    ----------
    workers : int or None
        How many threads: a positive number, ``None`` or ``-1`` for one a core.

    Examples
    --------
    >>> from mergesvm.engines.threads import Threads
    >>> Threads(2).map(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """

    embedded = True

    def __init__(self, workers: int | None = None) -> None:
        super().__init__()
        count: Any = cores() if workers is None or workers == -1 else workers
        if not isinstance(count, Integral) or count < 1:
            raise ParameterError(f"The number of workers must be positive, None or -1 (one a core), not {workers!r}.")
        self._workers = int(count)

    @property
    def workers(self) -> int:
        """How many threads there are."""
        return self._workers

    def map(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
    ) -> list[Result]:
        """Apply a function to every task; results in the order of the tasks."""
        counter = _Counter(len(tasks), done)

        def run(index: int) -> Result:
            with naming(names[index] if names else None):
                result = function(tasks[index], *given)
            counter.count()
            return result

        indices = range(len(tasks))
        if self.workers == 1 or len(tasks) <= 1:
            return [run(index) for index in indices]
        with self.single_threaded_blas(), ThreadPoolExecutor(min(self.workers, len(tasks))) as pool:
            futures = [pool.submit(run, index) for index in indices]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # After an error or an interrupt nothing that has not begun is begun.
                for future in futures:
                    future.cancel()
            failed = next((future for future in futures if not future.cancelled() and future.exception()), None)
            return [future.result() for future in ([failed] if failed else futures)]

    def merge(
        self,
        function: Callable[..., Result],
        tasks: Sequence[Any],
        join: Join[Result],
        *,
        given: tuple[Any, ...] = (),
        names: Sequence[str] | None = None,
        done: Done | None = None,
        own: bool = False,  # noqa: ARG002
    ) -> Result | None:
        """Apply a function to every task, and join the results; each thread joins its own as they come."""
        counter = _Counter(len(tasks), done)

        def fold(mine: range) -> Result:
            held: list[Result] = []
            for index in mine:
                held += self._alone.map(function, [tasks[index]], given=given, names=names and [names[index]])
                held = [join(held)] if len(held) > 1 else held
                counter.count()
            return held[0]

        count = min(self.workers, len(tasks))
        folded = self.map(fold, [range(first, len(tasks), count) for first in range(count)])
        return join(folded) if folded else None

    def units(self, build: Callable[..., State], tasks: Sequence[Any], *, given: tuple[Any, ...] = ()) -> Units[State]:
        """Objects in the memory of this process, called by as many threads as there are workers."""
        return _LocalUnits(self, self.map(build, tasks, given=given))

    @property
    def _alone(self) -> Threads:
        return self if self.workers == 1 else Threads(1)

    @staticmethod
    @contextmanager
    def single_threaded_blas() -> Iterator[None]:
        """Limit BLAS to one thread within a ``with`` block.

        The limit is that of the whole process: the first to come sets it, and the last to go lifts it.
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
    """Tells how many tasks are done; threads take turns."""

    def __init__(self, total: int, done: Done | None) -> None:
        self._total, self._done, self._count, self._turn = total, done, 0, threading.Lock()

    def count(self) -> None:
        if self._done is not None:
            with self._turn:
                self._count += 1
                self._done(self._count, self._total)


class _LocalUnits(Units[State]):
    def __init__(self, engine: Threads, objects: list[State]) -> None:
        self._engine, self._objects = engine, objects

    def __len__(self) -> int:
        return len(self._objects)

    def call(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        def ask(index: int) -> Any:
            return getattr(self._objects[index], method)(*(() if each is None else (each[index],)), *arguments)

        return self._engine.map(ask, range(len(self._objects)))

    def close(self) -> None:
        self._objects = []
