"""A pool of reusable memory."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
from numpy.typing import NDArray

MAX_POOLED_BUFFERS = 8

SPARE_FRACTION = 1 / 16
"""Buffers are larger than requested by this fraction, so that they also fit slightly larger requests."""


class BufferPool:
    """Float64 arrays in memory that is reused once no array or view refers to it.

    The system clears fresh memory page by page, which takes about as long as filling it with numbers parsed from text.

    >>> pool = BufferPool()
    >>> first = pool.empty((2, 3))
    >>> address = first.ctypes.data
    >>> row = first[0]
    >>> del first
    >>> pool.empty((2, 3)).ctypes.data == address  # the row still refers to the memory
    False
    >>> del row
    >>> pool.empty((1, 4)).ctypes.data == address
    True
    """

    def __init__(self) -> None:
        self._free: deque[NDArray[np.float64]] = deque(maxlen=MAX_POOLED_BUFFERS)

    def empty(self, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Return an uninitialised array of this shape."""
        size = shape[0] * shape[1]
        # No lock: an array may be collected, and return its buffer, at any point, including here.
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = np.empty(0)
        if buffer.size <= size:
            buffer = np.empty(1 + int(size * (1 + SPARE_FRACTION)))
        # A new array over its memory, so that views refer to it and not to the buffer.
        array = np.frombuffer(buffer.data, count=size)
        weakref.finalize(array, _give_back, weakref.ref(self), buffer).atexit = False
        return array.reshape(shape)


def _give_back(owner: weakref.ref[BufferPool], buffer: NDArray[np.float64]) -> None:
    pool = owner()
    if pool is not None:
        pool._free.append(buffer)
