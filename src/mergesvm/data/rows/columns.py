"""Rows of columns that lie apart, as tables in files have them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import Rows


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
        """The same rows, column by column in memory: as they lie there, or else copied whole, which is still fast."""
        if self._step is not None:
            return np.asarray(_Lines(self.columns, start, stop, self._step))
        strip = np.empty((self.width, stop - start), dtype=self.dtype)
        with np.errstate(all="ignore"):
            for index, column in enumerate(self.columns):
                strip[index] = column[start:stop]
        return strip.T

    @cached_property
    def _step(self) -> int | None:
        """By how many bytes one column lies behind the other, where that is the same for all: lines of one matrix."""
        dense = (self.dtype.itemsize,)
        if any(column.dtype != self.dtype or column.strides != dense for column in self.columns):
            return None
        steps = {there - here for here, there in pairwise(map(_place, self.columns))}
        step = steps.pop() if len(steps) == 1 else 0
        return step if step > 0 else None

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Row, column and value of the first NaN or infinity."""
        found = []
        for index, column in enumerate(self.columns):
            part = column[start:stop]
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                row = int(np.argmin(np.isfinite(part)))
                found.append((start + row, index, float(part[row])))
        return min(found, default=None)


class _Lines:
    """Some rows of columns that lie at equal distances, as an array that keeps all of the columns, to be read only."""

    def __init__(self, columns: list[NDArray[Any]], start: int, stop: int, step: int) -> None:
        self.columns, kind = columns, columns[0].dtype
        self.__array_interface__ = {
            "data": (_place(columns[0]) + start * kind.itemsize, True),
            "shape": (stop - start, len(columns)),
            "strides": (kind.itemsize, step),
            "typestr": kind.str,
            "version": 3,
        }


def _place(column: NDArray[Any]) -> int:
    """The address of an array."""
    address: int = column.__array_interface__["data"][0]
    return address
