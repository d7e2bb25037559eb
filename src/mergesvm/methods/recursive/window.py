"""The rows in a sliding window: the last so many, in a ring."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WindowRow = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]
"""Rows, the places of their classes, and their weights."""

OLDEST, COUNT = range(2)
"""The places of ``state``."""


class Window:
    """Rows in a ring: when it is full, the oldest makes room for the next.

    Parameters
    ----------
    size, width : int
        How many rows it holds at most, and of how many features; a size of 0 is no window.

    Examples
    --------
    >>> window = Window(2, 1)
    >>> window.push(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1, 0]), np.ones(3))
    >>> window.held()[0].ravel()
    array([2., 3.])
    """

    def __init__(self, size: int, width: int) -> None:
        self.rows, self.codes, self.weights = np.zeros((size, width)), np.zeros(size, dtype=np.int64), np.zeros(size)
        self.state = np.zeros(2, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: value.copy() for name, value in state.items()})

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The ring as the compiled loop takes it."""
        return self.rows, self.codes, self.weights, self.state

    def held(self) -> WindowRow:
        """The rows, the oldest first, with the weights with which they came."""
        order = (int(self.state[OLDEST]) + np.arange(int(self.state[COUNT]))) % max(1, len(self))
        return self.rows[order], self.codes[order], self.weights[order]

    def push(self, rows: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Put rows in."""
        both = (np.concatenate(pair)[-len(self) :] for pair in zip(self.held(), (rows, codes, weights), strict=True))
        self.put(*both)

    def put(self, rows: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Let these be the rows in the window."""
        number = len(rows)
        self.rows[:number], self.codes[:number], self.weights[:number] = rows, codes, weights
        self.state[OLDEST], self.state[COUNT] = 0, number
