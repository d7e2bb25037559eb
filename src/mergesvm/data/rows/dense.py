"""Rows of a numpy array of any numeric type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import Rows
from mergesvm.errors import DataError


class CellTypeError(DataError, TypeError):
    """A cell of a type that cannot be converted to a number."""


class DenseRows(Rows):
    """Rows of a two-dimensional numeric array; blocks are views where the array is C-contiguous.

    >>> import numpy as np
    >>> rows = DenseRows(np.array([[1, 2], [3, 4]], dtype=np.uint8))
    >>> rows.block(1, 2)
    array([[3, 4]], dtype=uint8)
    """

    def __init__(self, array: NDArray[Any], names: tuple[str, ...] | None = None) -> None:
        self.array = array
        self.n_rows, self.width = array.shape
        self.names = names

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Return rows as a C-contiguous array of their own numeric type."""
        part = self.array[start:stop]
        if part.dtype == object:
            part = self._numbers(part, start)
        return np.ascontiguousarray(part)

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Return the row, column and value of the first NaN or infinity, or None if there is none."""
        block = self.block(start, stop)
        if block.dtype.kind != "f":
            return None
        bad = ~np.isfinite(block)
        if not bad.any():
            return None
        row, column = np.argwhere(bad)[0]
        return start + int(row), int(column), float(block[row, column])

    def _numbers(self, part: NDArray[Any], start: int) -> NDArray[np.float64]:
        try:
            return part.astype(np.float64)
        except (TypeError, ValueError, OverflowError):  # find the value that is not a number
            for (row, column), value in np.ndenumerate(part):
                try:
                    float(value)
                except (TypeError, ValueError, OverflowError) as error:
                    kind = CellTypeError if isinstance(error, TypeError) else DataError
                    raise kind(
                        f"Input X is not numeric: row {start + row}, {self.column(column)} holds {value!r} ({error}). "
                        f"Encode text and categories as numbers, and remove or impute missing values."
                    ) from None
            raise
