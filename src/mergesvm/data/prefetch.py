"""Iterate ahead in background threads, so that reading, parsing and learning overlap."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

POLL_SECONDS = 0.1
"""How often a waiting background thread checks whether the consumer has stopped."""


def prefetched(items: Iterator[Item], depth: int = 2) -> Generator[Item, None, None]:
    """Yield the items of an iterator, which a background thread reads at most ``depth`` items ahead.

    An error is raised at the position of its item. When the consumer stops early, the thread stops and ``items`` is
    closed before the generator returns.

    >>> list(prefetched(iter("abc")))
    ['a', 'b', 'c']
    """
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: tuple[bool, Any]) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        end: BaseException | None = None
        try:
            for item in items:
                if not put((True, item)):
                    break
        except BaseException as error:  # noqa: BLE001 - raised in the thread of the consumer
            end = error
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        put((False, end))

    thread = threading.Thread(target=read, name="mergesvm-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            more, item = ready.get()
            if not more:
                if item is not None:
                    raise item
                return
            yield item
            del item  # to free its memory while waiting for the next one
    finally:
        stopped.set()
        thread.join()


def map_ahead(function: Callable[[Item], Result], items: Iterator[Item], workers: int) -> Generator[Result, None, None]:
    """Yield the result of a function for each item, in order, computed ahead by background threads.

    At most ``workers + 1`` items are held at a time. An error of the function or of the iterator is raised at the
    position of its item. When the consumer stops early, the threads end before the generator returns.

    >>> list(map_ahead(str.upper, iter("abc"), 2))
    ['A', 'B', 'C']
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, "mergesvm-ahead") as pool:
        end: Exception | None = None
        try:
            while end is None:
                try:
                    pending.append(pool.submit(function, next(items)))
                except Exception as error:  # noqa: BLE001 - raised after the results of earlier items
                    end = error
                while len(pending) > (workers if end is None else 0):
                    yield pending.popleft().result()
            if not isinstance(end, StopIteration):
                raise end
        finally:
            for future in pending:
                future.cancel()
