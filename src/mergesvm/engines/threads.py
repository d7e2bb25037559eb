"""The engine of one machine: threads, each with a BLAS of one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from numbers import Integral
from typing import Any, TypeVar

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

from mergesvm.errors import ParameterError

Task = TypeVar("Task")
Result = TypeVar("Result")


_lock = threading.Lock()
_limiting = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded BLAS libraries takes milliseconds, and numpy and scipy are loaded before any work starts.
    return ThreadpoolController()


class Threads:
    """Maps a function over tasks on threads of this process.

    While it runs, BLAS is limited to one thread for each task, so that ``workers`` tasks use ``workers`` cores. With
    one worker, or one task, everything runs in the calling thread and BLAS keeps its own threads.

    Parameters
    ----------
    workers : int or None
        How many threads: a positive number, ``None`` or ``-1`` for one a core.

    Examples
    --------
    >>> from mergesvm.engines import Threads
    >>> Threads(2).map(lambda x: x * x, [1, 2, 3])
    [1, 4, 9]
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is None or workers == -1:
            workers = cpu_count()
        if not isinstance(workers, Integral) or workers < 1:
            raise ParameterError(f"The number of workers must be positive, None or -1 (one a core), not {workers!r}.")
        self.workers = int(workers)

    def map(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Apply ``function`` to every task; results in the order of the tasks; the first error surfaces as it is."""
        if self.workers == 1 or len(tasks) <= 1:
            return [function(task) for task in tasks]
        with self.single_threaded_blas(), ThreadPoolExecutor(min(self.workers, len(tasks))) as pool:
            futures = [pool.submit(function, task) for task in tasks]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                # After an error or an interrupt nothing that has not begun is begun.
                for future in futures:
                    future.cancel()
            failed = next((future for future in futures if not future.cancelled() and future.exception()), None)
            return [future.result() for future in ([failed] if failed else futures)]

    @staticmethod
    @contextmanager
    def single_threaded_blas() -> Iterator[None]:
        """Limit BLAS to one thread within a ``with`` block.

        The limit is that of the whole process: the first to come sets it, and the last to go lifts it.
        """
        global _limiting, _limit
        with _lock:
            if _limiting == 0:
                _limit = _controller().limit(limits=1, user_api="blas")
            _limiting += 1
        try:
            yield
        finally:
            with _lock:
                _limiting -= 1
                if _limiting == 0:
                    _limit.restore_original_limits()

    def __repr__(self) -> str:
        return f"Threads({self.workers})"
