"""The base class of readers of arrays: rows in one stream of numbers, labels in another."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.paths import File
from mergesvm.data.read_options import ReadOptions
from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.splittable import SplittableReader
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.dense import DenseRows
from mergesvm.data.slice import Slice
from mergesvm.errors import ParameterError

MAX_ROW_BYTES = 2**28
MAX_LABEL_BYTES = 2**14


@dataclass(frozen=True)
class ArrayStream:
    """An array that is read in order: a stream positioned at its first number, the type and the shape.

    Files are not memory-mapped, because truncating a mapped file would crash the process.
    """

    stream: Any
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """Numbers per row, over all dimensions."""
        return math.prod(self.shape[1:])

    def skip(self, rows: int) -> None:
        """Skip rows of a seekable stream."""
        if rows:
            self.stream.seek(self.stream.tell() + rows * self.width * self.dtype.itemsize)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the next rows, which are ``start`` to ``stop``, in native byte order."""
        row_bytes = self.width * self.dtype.itemsize
        data = self.stream.read((stop - start) * row_bytes)
        if len(data) < (stop - start) * row_bytes:
            raise EOFError(f"the array ends in row {start + len(data) // row_bytes}")
        rows = np.frombuffer(data, dtype=self.dtype).reshape(stop - start, self.width)
        return rows.astype(self.dtype.newbyteorder("="), copy=False)

    def finish(self) -> None:
        """Raise an error if more data follows; archives verify their checksum when they are read to the end."""
        if self.stream.read(1):
            raise ValueError(f"data follows after the {self.shape[0]:,} rows of its header")


class ArrayReader(SplittableReader):
    """Reads an array of rows, with labels in another array or in one of its columns."""

    unit = "row"

    def __init__(self, file: File, options: ReadOptions) -> None:
        super().__init__(file, options)
        self.refuse_columns("an array")

    @abstractmethod
    def rows(self) -> AbstractContextManager[ArrayStream]:
        """Open the array of rows."""

    @abstractmethod
    def labels(self) -> AbstractContextManager[ArrayStream] | None:
        """Open the array of labels, if there is one."""

    @property
    @abstractmethod
    def seekable(self) -> bool:
        """Whether both arrays can be read starting at any row."""

    def split(self, size: int) -> list[Reader]:
        """Split into ranges of rows, if the arrays are seekable."""
        with self.reading(), self.rows() as array:
            return self.split_span(self._chosen(array), size) if self.seekable else [self]

    def with_span(self, span: range, size: int, first_row: int = 0) -> Self:  # noqa: ARG002 - given by the span
        """Return a reader of a range of rows."""
        return super().with_span(span, size, span.start)

    def _chosen(self, array: ArrayStream) -> range:
        return range(array.shape[0]) if self.span is None else self.span

    @property
    def _column(self) -> int | None:
        return self.options.label if isinstance(self.options.label, int) else None

    def _check(self, array: ArrayStream) -> None:
        if array.dtype.kind not in "biuf" or len(array.shape) < 2 or not array.width:
            raise self.malformed(f"an array of type {array.dtype} and shape {array.shape} is not rows of numbers")
        if array.width * array.dtype.itemsize > MAX_ROW_BYTES:
            raise self.malformed(f"rows of shape {array.shape[1:]} are too large")
        if self._column is not None and not -array.width <= self._column < array.width:
            raise ParameterError(f"{self.file.name}: there is no column {self._column}, only {array.width} columns.")

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:  # noqa: ARG002
        """Return one feature per number of a row, without the label."""
        with self.reading(), self.rows() as array:
            self._check(array)
            return Layout(array.width - (self._column is not None))

    def n_rows(self) -> int:
        """Return the number of rows of the array, from its header, or of the part that is read."""
        with self.reading(), self.rows() as array:
            return len(self._chosen(array))

    def row_bytes(self, layout: Layout) -> int:
        """Return the size of a row in the file, with the label."""
        with self.reading(), self.rows() as array, self.labels() or nullcontext() as targets:
            return layout.width * array.dtype.itemsize + (targets.dtype.itemsize if targets else 0)

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:  # noqa: ARG002
        """Yield the rows of the array, with their labels."""
        with self.reading(), self.rows() as array, self.labels() or nullcontext() as targets:
            self._check(array)
            if targets and (targets.shape != array.shape[:1] or targets.dtype.itemsize > MAX_LABEL_BYTES):
                raise self.malformed(
                    f"{array.shape[0]:,} rows, but labels of type {targets.dtype} and shape {targets.shape}"
                )
            chosen = self._chosen(array)
            array.skip(chosen.start)
            if targets:
                targets.skip(chosen.start)
            for begin, end in spans(len(chosen), rows):
                start, stop = chosen.start + begin, chosen.start + end
                block, labels = array.read(start, stop), None
                if self._column is not None:
                    labels, block = block[:, self._column], np.delete(block, self._column, axis=1)
                elif targets:
                    labels = _valid_text(targets.read(start, stop)[:, 0])
                dense = DenseRows(block)
                dense.source, dense.first = self.file.name, start
                yield Slice(dense, labels, None, end - begin, end / len(chosen))
            if chosen.stop == array.shape[0]:
                array.finish()
                if targets:
                    targets.finish()


def _valid_text(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels; raise an error if they are text with invalid code points."""
    if labels.dtype.kind == "U" and labels.size:
        points = np.ascontiguousarray(labels).view(np.uint32)
        if (points > 0x10FFFF).any() or ((points >= 0xD800) & (points < 0xE000)).any():
            raise ValueError("a label is not valid text")
    return labels
