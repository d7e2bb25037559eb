"""Rows of columns that lie apart, as tables in files have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows import Rows


class ColumnRows(Rows):
    """Rows over one-dimensional arrays, one a column; put together block by block.

    >>> import numpy as np
    >>> rows = ColumnRows([np.array([1, 2], dtype=np.uint8), np.array([0.5, 1.5], dtype=np.float32)], ("a", "b"))
    >>> rows.block(1, 2)
    array([[2. , 1.5]], dtype=float32)
    """

    def __init__(self, columns: Sequence[NDArray[Any]], names: tuple[str, ...] | None = None) -> None:
        self.columns = list(columns)
        self.n_rows, self.width = len(self.columns[0]), len(self.columns)
        self.names = names
        common = np.result_type(*{column.dtype for column in self.columns})
        self.dtype = np.dtype(np.float32) if common == np.float16 else common

    def block(self, start: int, stop: int) -> NDArray[Any]:
        """Rows as a C-contiguous array of the narrowest type that holds all columns."""
        block = np.empty((stop - start, self.width), dtype=self.dtype)
        with np.errstate(all="ignore"):  # a NaN of an odd kind is one all the same
            for index, column in enumerate(self.columns):
                block[:, index] = column[start:stop]
        return block

    def strip(self, start: int, stop: int) -> NDArray[Any]:
        """The same rows as a Fortran-contiguous array: columns are copied whole, which is much faster."""
        strip = np.empty((self.width, stop - start), dtype=self.dtype)
        with np.errstate(all="ignore"):
            for index, column in enumerate(self.columns):
                strip[index] = column[start:stop]
        return strip.T

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Row, column and value of the first NaN or infinity."""
        found = []
        for index, column in enumerate(self.columns):
            part = column[start:stop]
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                row = int(np.argmin(np.isfinite(part)))
                found.append((start + row, index, float(part[row])))
        return min(found, default=None)
