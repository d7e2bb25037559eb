"""Archives of numpy arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from mergesvm.data.dense import DenseRows
from mergesvm.data.labels import Label
from mergesvm.data.paths import File
from mergesvm.data.reader import UNREADABLE, Layout, Reader, Slice, Terms
from mergesvm.data.rows import spans
from mergesvm.errors import DataError

LARGEST_ROW = 2**28
"""No row has more bytes than this."""


class NpzReader(Reader):
    """``.npz``, decompressed row by row: the array X, or the only one beside the labels, and labels by their name."""

    suffixes = (".npz",)

    def __init__(self, file: File, terms: Terms) -> None:
        super().__init__(file, terms)
        self.refuse_columns("a .npz file")

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        with self.reading(), self.file.open() as raw, zipfile.ZipFile(raw) as archive:
            yield archive

    def _name_of_rows(self, archive: zipfile.ZipFile) -> str:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        label = self.terms.label
        if label is not None and label not in names:
            raise DataError(f"{self.file.name}: there is no array {label!r} of labels. There are: {', '.join(names)}.")
        others = [name for name in names if name != label]
        if len(others) != 1 and "X" not in others:
            raise DataError(
                f"{self.file.name}: which array holds the rows? There are: {', '.join(names)}. Name it X, and name the "
                f"array of labels with label=."
            )
        return others[0] if len(others) == 1 else "X"

    @contextmanager
    def _member(self, archive: zipfile.ZipFile, name: str) -> Iterator[tuple[Any, np.dtype[Any], tuple[int, ...]]]:
        with archive.open(f"{name}.npy") as stream:
            version = npy.read_magic(stream)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran, dtype = read(stream)
            if fortran and sum(size > 1 for size in shape) > 1:
                raise self.malformed(f"array {name!r} is stored by columns, and cannot be read row by row")
            yield stream, dtype, shape

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:  # noqa: ARG002
        """As many features as the array has columns."""
        with self._archive() as archive, self._member(archive, self._name_of_rows(archive)) as (_, dtype, shape):
            width = int(np.prod(shape[1:], dtype=object))
            if dtype.kind not in "biuf" or len(shape) < 2 or not 0 < width * dtype.itemsize <= LARGEST_ROW:
                raise self.malformed(f"an array of type {dtype} and shape {shape} is not rows of numbers")
            return Layout(width)

    def n_rows(self) -> int:
        """The length of the array, as its header tells."""
        with self._archive() as archive, self._member(archive, self._name_of_rows(archive)) as (_, _, shape):
            return int(shape[0])

    def row_bytes(self, layout: Layout) -> int:
        """As many as the array has."""
        with self._archive() as archive, self._member(archive, self._name_of_rows(archive)) as (_, dtype, _):
            return layout.width * dtype.itemsize

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """The rows of the array, with their labels."""
        with self._archive() as archive, self._member(archive, self._name_of_rows(archive)) as (stream, dtype, shape):
            answers = self._labels(archive, shape[0])
            for start, stop in spans(shape[0], rows):
                block = DenseRows(self._read(stream, dtype, start, stop, layout.width))
                block.source, block.first = self.file.name, start
                labels = None if answers is None else answers[start:stop]
                yield Slice(block, labels, None, stop - start, stop / shape[0])
            if stream.read(1):  # the archive checks its sum only once all has been read
                raise self.malformed(f"there is more in it than the {shape[0]:,} rows of its header")

    def _labels(self, archive: zipfile.ZipFile, rows: int) -> NDArray[Any] | None:
        if self.terms.label is None:
            return None
        with self._member(archive, self.terms.label) as (stream, dtype, shape):
            if shape != (rows,) or dtype.kind not in "biufU" or dtype.itemsize > 2**16:
                raise self.malformed(f"{rows:,} rows, but labels of type {dtype} and shape {shape}")
            parts = [self._read(stream, dtype, *span, 1) for span in spans(rows, 1 << 16)]
            stream.read(1)
            return np.concatenate(parts).ravel() if parts else np.zeros(0, dtype=dtype)

    def _read(self, stream: Any, dtype: np.dtype[Any], start: int, stop: int, width: int) -> NDArray[Any]:
        wanted = (stop - start) * width * dtype.itemsize
        try:
            data = stream.read(wanted)
        except UNREADABLE as error:
            raise self.malformed(error, start) from error
        if len(data) < wanted:
            raise self.malformed("the array ends", start + len(data) // (width * dtype.itemsize))
        return np.frombuffer(data, dtype=dtype).reshape(stop - start, width)
