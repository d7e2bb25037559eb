"""Per-thread arrays that are reused from block to block."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Scratch(threading.local):
    """Arrays by name, separate for each thread; taking a name again overwrites its array.

    Fresh memory costs a page fault per 4 KiB, which is slow compared with a product that fits the cache.

    >>> Scratch().take("products", (2, 3), "f4").shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.uint8]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """Return an uninitialized array of this shape."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        buffer = self._buffers.get(name)
        if buffer is None or not size <= buffer.nbytes <= 4 * max(size, 2**20):
            self._buffers[name] = buffer = np.empty(size, dtype=np.uint8)
        array: NDArray[Any] = buffer[:size].view(dtype).reshape(shape)
        return array
