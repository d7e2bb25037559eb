"""Memory that is used again."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np
from numpy.typing import NDArray

MOST_PIECES = 8
"""So many pieces of memory are kept for later at the most."""

SPARE = 1 / 16
"""Pieces are larger than asked for by this share, so that they do for a little more the next time."""


class BufferPool:
    """Arrays of float64 in memory that is used again once nobody looks at it any more.

    Memory touched for the first time is cleared by the system, page by page, which takes about as long as filling it
    with numbers read from text. An array, and all views of it, keep their memory as long as they live.

    >>> recycled = BufferPool()
    >>> first = recycled.empty((2, 3))
    >>> place = first.ctypes.data
    >>> row = first[0]
    >>> del first
    >>> recycled.empty((2, 3)).ctypes.data == place  # the row is still there
    False
    >>> del row
    >>> recycled.empty((1, 4)).ctypes.data == place
    True
    """

    def __init__(self) -> None:
        self._pieces: deque[NDArray[np.float64]] = deque(maxlen=MOST_PIECES)

    def empty(self, shape: tuple[int, int]) -> NDArray[np.float64]:
        """An array of this shape, filled with anything."""
        size = shape[0] * shape[1]
        # No lock: an array may come to its end, and give back its piece, at any place, also here.
        try:
            piece = self._pieces.pop()
        except IndexError:
            piece = np.empty(0)
        if piece.size <= size:
            piece = np.empty(1 + int(size * (1 + SPARE)))
        # Over its memory, so that views refer to this array, and not to the piece behind it.
        array = np.frombuffer(piece.data, count=size)
        weakref.finalize(array, _give_back, weakref.ref(self), piece).atexit = False
        return array.reshape(shape)


def _give_back(owner: weakref.ref[BufferPool], piece: NDArray[np.float64]) -> None:
    """Give memory back to where it came from, if that is still there."""
    recycled = owner()
    if recycled is not None:
        recycled._pieces.append(piece)
