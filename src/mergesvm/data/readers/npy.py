"""Read ``.npy`` files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.paths import File
from mergesvm.data.readers.arrays import ArrayReader, ArrayStream
from mergesvm.data.readers.npy_header import read_npy_header


class NpyReader(ArrayReader):
    """Reads ``.npy``; labels are a column, by number, or another ``.npy`` file."""

    suffixes = (".npy",)
    paired = True
    seekable = True

    def rows(self) -> AbstractContextManager[ArrayStream]:
        """Open the array of the file."""
        return _opened(self.file)

    def labels(self) -> AbstractContextManager[ArrayStream] | None:
        """Open the array of the label file."""
        return _opened(self.options.label) if isinstance(self.options.label, File) else None


@contextmanager
def _opened(file: File) -> Iterator[ArrayStream]:
    with file.open() as stream:
        dtype, shape, fortran = read_npy_header(stream)
        if fortran and len(shape) == 2:
            yield _ColumnStream(stream, dtype, shape, stream.tell())
        elif fortran and len(shape) > 2:
            raise ValueError("an array of more than two dimensions is stored in Fortran order")
        else:
            yield ArrayStream(stream, dtype, shape)


@dataclass(frozen=True)
class _ColumnStream(ArrayStream):
    """An array in Fortran order: the rows are collected from each column."""

    begin: int = 0

    def skip(self, rows: int) -> None:
        """Do nothing, because reading seeks each column."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        size = self.dtype.itemsize
        rows = np.empty((stop - start, self.width), dtype=self.dtype.newbyteorder("="))
        for column in range(self.width):
            self.stream.seek(self.begin + (column * self.shape[0] + start) * size)
            data = self.stream.read((stop - start) * size)
            if len(data) < (stop - start) * size:
                raise EOFError(f"the array ends in column {column}")
            rows[:, column] = np.frombuffer(data, dtype=self.dtype)
        return rows
