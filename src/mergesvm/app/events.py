"""News for all open pages: server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

QUEUE_LENGTH = 1000
"""A page that is this many events behind is told to load everything again."""

HEARTBEAT_SECONDS = 15.0
"""Without news, a comment is sent this often, so that lost connections are noticed."""


LOOK_SECONDS = 0.5
"""Subscriptions look this often whether the server is about to stop."""


class Events:
    """Sends events to all subscribers. Events may be published from any thread."""

    until: Callable[[], bool]
    """Whether the server is about to stop."""

    def __init__(self) -> None:
        self.until = lambda: False
        self._queues: set[asyncio.Queue[str]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def publish(self, **event: Any) -> None:
        """Send an event to all subscribers."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._put, f"data: {json.dumps(event)}\n\n")

    async def subscribe(self) -> AsyncIterator[str]:
        """Yield events as lines of ``text/event-stream`` until the subscriber leaves or the server stops."""
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str] = asyncio.Queue(QUEUE_LENGTH)
        self._queues.add(queue)
        try:
            yield 'retry: 1000\ndata: {"kind": "hello"}\n\n'
            quiet = 0.0
            while not self.until():
                try:
                    yield await asyncio.wait_for(queue.get(), LOOK_SECONDS)
                    quiet = 0.0
                except TimeoutError:
                    quiet += LOOK_SECONDS
                if quiet >= HEARTBEAT_SECONDS:
                    yield ": still here\n\n"
                    quiet = 0.0
        finally:
            self._queues.discard(queue)

    def _put(self, text: str) -> None:
        for queue in self._queues:
            try:
                queue.put_nowait(text)
            except asyncio.QueueFull:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait('data: {"kind": "reload"}\n\n')
