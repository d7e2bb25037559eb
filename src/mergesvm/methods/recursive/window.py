"""A sliding window: the most recent rows, in a ring buffer."""

from __future__ import annotations

from collections.abc import Iterable
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

    def remove(
        self, parts: Iterable[tuple[EncodedRows, NDArray[np.intp]]], tolerance: float, labels: list[Any]
    ) -> None:
        """Remove rows, which are given with their indices in the input, for the error if one is not found.

        Two rows are the same up to a difference of ``tolerance``, relative to the largest value of a row.
        """
        held = self.held()
        kept = np.ones(len(held.rows), dtype=bool)
        for part, numbers in parts:
            for row, code, weight, number in zip(*part, numbers, strict=True):
                distance = np.abs(held.rows - row).max(axis=1, initial=0.0)
                same = (held.codes == code) & (held.weights == weight) & (distance <= tolerance * np.abs(row).max())
                found = np.flatnonzero(kept & same)
                if not len(found):
                    raise SubtractionError(
                        f"Row {number}, of class {labels[code]!r} and weight {weight:g}, is not among the "
                        f"{len(kept):,} rows in the window. Nothing was removed."
                    )
                kept[found[distance[found].argmin()]] = False
        self.replace(EncodedRows(held.rows[kept], held.codes[kept], held.weights[kept]))
