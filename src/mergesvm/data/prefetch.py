"""Reading and working ahead in threads, so that reading, parsing and learning overlap."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WAIT_SECONDS = 0.1
"""How often a reader that waits looks whether anyone still wants what it reads."""


def prefetched(items: Iterator[Item], depth: int = 2) -> Generator[Item, None, None]:
    """The same items, read by a thread of their own, at most ``depth`` ahead.

    An error of the reader surfaces where its item would have come. When the consumer stops early, the reader stops and
    ``items`` is closed before the generator returns.

    >>> list(prefetched(iter("abc")))
    ['a', 'b', 'c']
    """
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: tuple[bool, Any]) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=WAIT_SECONDS)
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
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the consumer
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
            del item  # or it would be held while the next one is waited for
    finally:
        stopped.set()
        thread.join()


def worked_ahead(
    function: Callable[[Item], Result], items: Iterator[Item], workers: int
) -> Generator[Result, None, None]:
    """What a function makes of each item, in their order, by so many threads that work ahead.

    At most ``workers + 1`` items are held at a time. An error, of the function or of the items, surfaces where its
    result would have come. When the consumer stops early, the threads are done before the generator returns.

    >>> list(worked_ahead(str.upper, iter("abc"), 2))
    ['A', 'B', 'C']
    """
    under_way: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers, "mergesvm-ahead") as pool:
        end: Exception | None = None
        try:
            while end is None:
                try:
                    under_way.append(pool.submit(function, next(items)))
                except Exception as error:  # noqa: BLE001 - what came before it comes first
                    end = error
                while len(under_way) > (workers if end is None else 0):
                    yield under_way.popleft().result()
            if not isinstance(end, StopIteration):
                raise end
        finally:
            for future in under_way:
                future.cancel()
