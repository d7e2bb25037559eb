"""Memory that a thread takes once and uses for all its blocks."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Scratch(threading.local):
    """Arrays by name, each thread its own; what they hold is lost when the name is taken again.

    Fresh memory costs a page fault for every 4 KiB, which is dear beside a product that fits the cache.

    >>> Scratch().take("kernel", (2, 3), "f4").shape
    (2, 3)
    """

    def __init__(self) -> None:
        self._held: dict[str, NDArray[np.uint8]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        """An array of this shape, with anything in it."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        held = self._held.get(name)
        if held is None or not size <= held.nbytes <= 4 * max(size, 2**20):
            self._held[name] = held = np.empty(size, dtype=np.uint8)
        array: NDArray[Any] = held[:size].view(dtype).reshape(shape)
        return array
