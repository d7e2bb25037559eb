"""A sliding window: the most recent rows, in a ring buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import SubtractionError
from mergesvm.methods.recursive.row_encoder import EncodedRows
from mergesvm.methods.recursive.state_layout import N_HELD, OLDEST, WritableArrays


class Window(WritableArrays):
    """A ring buffer of rows: when it is full, the next row replaces the oldest. Size 0 means no window.

    >>> window = Window(2, 1)
    >>> window.push(EncodedRows(np.array([[1.0], [2.0], [3.0]]), np.array([0, 1, 0]), np.ones(3)))
    >>> window.held().rows.ravel()
    array([2., 3.])
    """

    def __init__(self, size: int, width: int) -> None:
        self.rows, self.codes, self.weights = np.zeros((size, width)), np.zeros(size, dtype=np.int64), np.zeros(size)
        self.state = np.zeros(2, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The buffer as the compiled loop takes it."""
        return self.rows, self.codes, self.weights, self.state

    def held(self) -> EncodedRows:
        """The rows, oldest first, with their original weights."""
        order = (int(self.state[OLDEST]) + np.arange(int(self.state[N_HELD]))) % max(1, len(self))
        return EncodedRows(self.rows[order], self.codes[order], self.weights[order])

    def push(self, new: EncodedRows) -> None:
        """Append rows; the oldest leave."""
        self.replace(EncodedRows(*(np.concatenate(pair)[-len(self) :] for pair in zip(self.held(), new, strict=True))))

    def replace(self, held: EncodedRows) -> None:
        """Hold these rows, oldest first, instead of the present ones."""
        number = len(held.rows)
        self.rows[:number], self.codes[:number], self.weights[:number] = held
        self.state[OLDEST], self.state[N_HELD] = 0, number


class WindowRemoval:
    """Finds rows in a window and removes them all at once.

    Two rows are the same up to a difference of ``tolerance``, relative to the largest value of a row.
    """

    def __init__(self, window: Window, tolerance: float) -> None:
        self._window, self._tolerance = window, tolerance
        self._held = window.held()
        self._kept = np.ones(len(self._held.rows), dtype=bool)

    def mark(self, part: EncodedRows, numbers: NDArray[np.intp], labels: list[Any]) -> None:
        """Mark rows for removal; ``numbers`` are their places in the input, for the error if one is not found."""
        rows, codes, weights = self._held
        for row, code, weight, number in zip(*part, numbers, strict=True):
            distance = np.abs(rows - row).max(axis=1, initial=0.0)
            near = distance <= self._tolerance * np.abs(row).max()
            found = np.flatnonzero(self._kept & (codes == code) & (weights == weight) & near)
            if not len(found):
                raise SubtractionError(
                    f"Row {number}, of class {labels[code]!r} and weight {weight:g}, is not among the {len(rows):,} "
                    f"rows in the window. Nothing was removed."
                )
            self._kept[found[distance[found].argmin()]] = False

    def apply(self) -> None:
        """Remove the marked rows."""
        rows, codes, weights = self._held
        self._window.replace(EncodedRows(rows[self._kept], codes[self._kept], weights[self._kept]))
