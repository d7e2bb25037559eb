"""Arrays of numpy, one a file."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.dense import DenseRows
from mergesvm.data.labels import Label
from mergesvm.data.paths import File
from mergesvm.data.reader import Layout, Reader, Slice, Terms
from mergesvm.data.rows import spans
from mergesvm.errors import FileError, ParameterError


class NpyReader(Reader):
    """``.npy``, mapped into memory; labels are a column by its number, or another ``.npy`` file."""

    suffixes = (".npy",)
    paired = True

    def __init__(self, file: File, terms: Terms) -> None:
        super().__init__(file, terms)
        self.refuse_columns("a .npy file")

    def _mapped(self, file: File) -> NDArray[Any]:
        if file.local is None:
            raise FileError(f"{file.name}: .npy files can only be read from this machine. Copy it here first.")
        with self.reading():
            array: NDArray[Any] = np.load(file.local, mmap_mode="r", allow_pickle=False)
            if not isinstance(array, np.memmap):
                raise self.malformed("it is not a .npy file")
            return array

    def _rows(self) -> tuple[NDArray[Any], int | None]:
        """The array as rows of numbers, and which column holds the labels, if one does."""
        array = self._mapped(self.file)
        if array.dtype.kind not in "biuf" or array.ndim < 2 or not array.size:
            raise self.malformed(f"an array of type {array.dtype} and shape {array.shape} is not rows of numbers")
        if array.ndim > 2:
            array = array.reshape(len(array), -1)
        column = self.terms.label if isinstance(self.terms.label, int) else None
        if column is not None and not -array.shape[1] <= column < array.shape[1]:
            raise ParameterError(f"{self.file.name}: there is no column {column} among {array.shape[1]}.")
        return array, column

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:  # noqa: ARG002
        """As many features as the array has columns, without that of the labels."""
        array, column = self._rows()
        return Layout(array.shape[1] - (column is not None))

    def n_rows(self) -> int:
        """The length of the array."""
        return len(self._rows()[0])

    def row_bytes(self, layout: Layout) -> int:
        """As many as the array has."""
        return layout.width * self._rows()[0].dtype.itemsize

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:  # noqa: ARG002
        """The rows of the array; pages that have been read are given back."""
        array, column = self._rows()
        answers = self._mapped(self.terms.label) if isinstance(self.terms.label, File) else None
        if answers is not None and answers.shape != (len(array),):
            raise self.malformed(f"{len(array):,} rows, but labels of shape {answers.shape} in {self.terms.label.name}")
        for start, stop in spans(len(array), rows):
            part = array[start:stop]
            labels = None if answers is None else np.asarray(answers[start:stop])
            if column is not None:
                labels, part = np.asarray(part[:, column]), np.delete(part, column, axis=1)
            block = DenseRows(part)
            block.source, block.first = self.file.name, start
            yield Slice(block, labels, None, stop - start, stop / len(array))
            _give_back(array)


def _give_back(array: NDArray[Any]) -> None:
    mapping = getattr(array, "_mmap", None)
    if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)
