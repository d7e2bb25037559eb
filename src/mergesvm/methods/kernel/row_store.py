"""Rows that are added a few at a time, and taken by their places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.models.kernel_function import Lifted


class RowStore:
    """Rows, dense or sparse, as a few parts, which are joined so seldom that no row is copied often.

    Examples
    --------
    >>> stack = RowStore()
    >>> stack.append(np.array([[1.0], [2.0]]))
    >>> stack.append(np.array([[3.0]]))
    >>> stack.take(np.array([2, 0])).tolist(), len(stack)
    ([[3.0], [1.0]], 3)
    """

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, rows: Any) -> None:
        """Add rows behind the others."""
        if not rows.shape[0]:
            return
        self._parts.append(rows)
        self._length += rows.shape[0]
        # A part is at least twice as large as the next one, so that there are few, and each row is copied seldom.
        while len(self._parts) > 1 and self._parts[-2].shape[0] < 2 * self._parts[-1].shape[0]:
            last = self._parts.pop()
            self._parts[-1] = _joined([self._parts[-1], last])

    def keep(self, stay: NDArray[np.bool_]) -> None:
        """Let all rows go but those that stay, which close up."""
        starts = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        kept = [part[stay[start : start + part.shape[0]]] for part, start in zip(self._parts, starts, strict=False)]
        self._parts, self._length = [part for part in kept if part.shape[0]], int(stay.sum())

    def all(self) -> Any:
        """All rows, of which there are some, as they are held: not to be changed."""
        self._parts = [_joined(self._parts)] if len(self._parts) > 1 else self._parts
        return self._parts[0]

    def take(self, places: NDArray[np.int64]) -> Any:
        """Rows at some places, in the order of the places."""
        starts = np.cumsum([0, *(part.shape[0] for part in self._parts)])
        which = np.searchsorted(starts, places, side="right") - 1
        if len(places) and (which == which[0]).all():
            return self._parts[which[0]][places - starts[which[0]]]
        taken, order = [], []
        for index, part in enumerate(self._parts):
            chosen = np.flatnonzero(which == index)
            taken.append(part[places[chosen] - starts[index]])
            order.append(chosen)
        back = np.empty(len(places), np.int64)
        back[np.concatenate(order)] = np.arange(len(places))
        return _joined(taken)[back]


def _joined(parts: list[Any]) -> Any:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")


class Known:
    """Lifted rows that are added a few at a time."""

    def __init__(self) -> None:
        self._rows, self._squares = RowStore(), RowStore()

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, lifted: Lifted) -> None:
        """Add rows behind the others."""
        self._rows.append(lifted.matrix)
        if lifted.squares is not None:
            self._squares.append(lifted.squares)

    def keep(self, stay: NDArray[np.bool_]) -> None:
        """Let all rows go but those that stay, which close up."""
        self._rows.keep(stay)
        if len(self._squares):
            self._squares.keep(stay)

    def all(self) -> Lifted:
        """All rows, of which there are some, as they are held: not to be changed."""
        return Lifted(self._rows.all(), self._squares.all() if len(self._squares) else None)

    def take(self, places: NDArray[np.int64]) -> Lifted:
        """Rows at some places."""
        squares = self._squares.take(places) if len(self._squares) else None
        return Lifted(self._rows.take(places), squares)
