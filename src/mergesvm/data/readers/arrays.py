"""What all readers of arrays have in common: rows in one stream of numbers, labels in another, read side by side."""

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
from mergesvm.data.paths import File
from mergesvm.data.readers.base import Layout, Reader, ReadOptions, Slice
from mergesvm.data.readers.splittable import SplittableReader
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.dense import DenseRows
from mergesvm.errors import ParameterError

LARGEST_ROW = 2**28
"""No row has more bytes than this, and no label more than the square root of it."""


@dataclass(frozen=True)
class ArrayStream:
    """An array that is read from its beginning: a stream at its first number, the type and the shape.

    Files are read and not mapped into memory: one that is cut short meanwhile would end the process.
    """

    stream: Any
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many numbers a row has, in all its dimensions."""
        return math.prod(self.shape[1:])

    def skip(self, rows: int) -> None:
        """Go on to a row behind the first ones, if the stream can be sought."""
        if rows:
            self.stream.seek(self.stream.tell() + rows * self.width * self.dtype.itemsize)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The next rows, which are these, in the order of bytes of this machine."""
        row_bytes = self.width * self.dtype.itemsize
        data = self.stream.read((stop - start) * row_bytes)
        if len(data) < (stop - start) * row_bytes:
            raise EOFError(f"the array ends in row {start + len(data) // row_bytes}")
        rows = np.frombuffer(data, dtype=self.dtype).reshape(stop - start, self.width)
        return rows.astype(self.dtype.newbyteorder("="), copy=False)

    def finish(self) -> None:
        """Raise an error if there is more than the rows; archives check their sums when they are read to the end."""
        if self.stream.read(1):
            raise ValueError(f"there is more in it than the {self.shape[0]:,} rows of its header")


class ArrayReader(SplittableReader):
    """A file with an array of rows, whose labels are another array or one of its columns."""

    unit = "row"

    def __init__(self, file: File, terms: ReadOptions) -> None:
        super().__init__(file, terms)
        self.refuse_columns("an array")

    @abstractmethod
    def rows(self) -> AbstractContextManager[ArrayStream]:
        """The array of rows."""

    @abstractmethod
    def labels(self) -> AbstractContextManager[ArrayStream] | None:
        """The array of labels, if there is one."""

    @property
    @abstractmethod
    def sought(self) -> bool:
        """Whether both can be read from any row on."""

    def cut(self, size: int) -> list[Reader]:
        """Spans of rows, where they can be sought."""
        with self.reading(), self.rows() as array:
            return self.evenly(self._chosen(array), size) if self.sought else [self]

    def run(self, span: range, size: int, first_row: int = 0) -> Self:  # noqa: ARG002 - it is that of the span
        """A reader of some rows only."""
        return super().run(span, size, span.start)

    def _chosen(self, array: ArrayStream) -> range:
        return range(array.shape[0]) if self.span is None else self.span

    @property
    def _column(self) -> int | None:
        return self.terms.label if isinstance(self.terms.label, int) else None

    def _check(self, array: ArrayStream) -> None:
        if array.dtype.kind not in "biuf" or len(array.shape) < 2 or not array.width:
            raise self.malformed(f"an array of type {array.dtype} and shape {array.shape} is not rows of numbers")
        if array.width * array.dtype.itemsize > LARGEST_ROW:
            raise self.malformed(f"rows of shape {array.shape[1:]} are too large")
        if self._column is not None and not -array.width <= self._column < array.width:
            raise ParameterError(f"{self.file.name}: there is no column {self._column} among {array.width}.")

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:  # noqa: ARG002
        """As many features as a row has numbers, without that of the label."""
        with self.reading(), self.rows() as array:
            self._check(array)
            return Layout(array.width - (self._column is not None))

    def n_rows(self) -> int:
        """The length of the array, as its header tells, or of the part that is read."""
        with self.reading(), self.rows() as array:
            return len(self._chosen(array))

    def row_bytes(self, layout: Layout) -> int:
        """As many as the file has, with those of the label."""
        with self.reading(), self.rows() as array, self.labels() or nullcontext() as answers:
            return layout.width * array.dtype.itemsize + (answers.dtype.itemsize if answers else 0)

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:  # noqa: ARG002
        """The rows of the array, with their labels."""
        with self.reading(), self.rows() as array, self.labels() or nullcontext() as answers:
            self._check(array)
            if answers and (answers.shape != array.shape[:1] or answers.dtype.itemsize**2 > LARGEST_ROW):
                raise self.malformed(
                    f"{array.shape[0]:,} rows, but labels of type {answers.dtype} and shape {answers.shape}"
                )
            chosen = self._chosen(array)
            array.skip(chosen.start)
            if answers:
                answers.skip(chosen.start)
            for begin, end in spans(len(chosen), rows):
                start, stop = chosen.start + begin, chosen.start + end
                block, labels = array.read(start, stop), None
                if self._column is not None:
                    labels, block = block[:, self._column], np.delete(block, self._column, axis=1)
                elif answers:
                    labels = _as_text(answers.read(start, stop)[:, 0])
                dense = DenseRows(block)
                dense.source, dense.first = self.file.name, start
                yield Slice(dense, labels, None, end - begin, end / len(chosen))
            if chosen.stop == array.shape[0]:
                array.finish()
                if answers:
                    answers.finish()


def _as_text(labels: NDArray[Any]) -> NDArray[Any]:
    """The same labels, if they are numbers, or text of letters that there are."""
    if labels.dtype.kind == "U" and labels.size:
        letters = np.ascontiguousarray(labels).view(np.uint32)
        if (letters > 0x10FFFF).any() or ((letters >= 0xD800) & (letters < 0xE000)).any():
            raise ValueError("a label is not text")
    return labels
