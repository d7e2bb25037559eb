"""Rows stored as separate columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import Rows


class ColumnRows(Rows):
    """Rows over one-dimensional arrays, one per column, which are assembled block by block.

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
        """Return rows as a C-contiguous array of the narrowest type that holds all columns."""
        block = np.empty((stop - start, self.width), dtype=self.dtype)
        with np.errstate(all="ignore"):  # converting a signalling NaN warns
            for index, column in enumerate(self.columns):
                block[:, index] = column[start:stop]
        return block

    def strip(self, start: int, stop: int) -> NDArray[Any]:
        """Return the same rows as a Fortran-contiguous array: a view if the columns are equally spaced, else a copy."""
        if self._step is not None:
            return np.asarray(_EquallySpaced(self.columns, start, stop, self._step))
        strip = np.empty((self.width, stop - start), dtype=self.dtype)
        with np.errstate(all="ignore"):
            for index, column in enumerate(self.columns):
                strip[index] = column[start:stop]
        return strip.T

    @cached_property
    def _step(self) -> int | None:
        """The distance in bytes from each column to the next, if all are equal, as in the rows of one matrix."""
        dense = (self.dtype.itemsize,)
        if any(column.dtype != self.dtype or column.strides != dense for column in self.columns):
            return None
        steps = {there - here for here, there in pairwise(map(_address, self.columns))}
        step = steps.pop() if len(steps) == 1 else 0
        return step if step > 0 else None

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Return the row, column and value of the first NaN or infinity, or None if there is none."""
        found = []
        for index, column in enumerate(self.columns):
            part = column[start:stop]
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                row = int(np.argmin(np.isfinite(part)))
                found.append((start + row, index, float(part[row])))
        return min(found, default=None)


class _EquallySpaced:
    """Some rows of equally spaced columns as a read-only array, which keeps all of the columns alive."""

    def __init__(self, columns: list[NDArray[Any]], start: int, stop: int, step: int) -> None:
        self.columns, kind = columns, columns[0].dtype
        self.__array_interface__ = {
            "data": (_address(columns[0]) + start * kind.itemsize, True),
            "shape": (stop - start, len(columns)),
            "strides": (kind.itemsize, step),
            "typestr": kind.str,
            "version": 3,
        }


def _address(column: NDArray[Any]) -> int:
    address: int = column.__array_interface__["data"][0]
    return address
