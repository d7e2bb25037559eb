"""Idx files, the format of MNIST."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.dense import DenseRows
from mergesvm.data.labels import Label
from mergesvm.data.paths import File, find_files
from mergesvm.data.reader import Layout, Reader, Slice, Terms
from mergesvm.data.rows import spans

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

LARGEST_ROW = 2**28
"""No row has more bytes than this."""


class IdxReader(Reader):
    """Idx, plain or gzipped; labels in the file named, or in ``...-labels-idx1-...`` beside ``...-images-idx3-...``."""

    suffixes = ("-ubyte", ".idx", "-idx1", "-idx3")
    compressions = (".gz",)
    paired = True

    def __init__(self, file: File, terms: Terms) -> None:
        super().__init__(file, terms)
        self.refuse_columns("an idx file")
        beside = file.path.replace("images-idx3", "labels-idx1")
        self.labels: File | None = terms.label
        if terms.label is None and beside != file.path and file.local and Path(beside).exists():
            self.labels = find_files(beside)[0]

    @contextmanager
    def _opened(self, file: File) -> Iterator[tuple[Any, Any, np.dtype[Any], tuple[int, ...]]]:
        stream, raw = file.stream()
        with closing(raw), closing(stream):
            start = stream.read(4)
            if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES or not 1 <= start[3] <= 8:
                raise self.malformed(f"{file.name} is not an idx file: it begins with {start!r}")
            sizes = stream.read(4 * start[3])
            if len(sizes) < 4 * start[3]:
                raise self.malformed("the file ends within its header")
            yield stream, raw, np.dtype(TYPES[start[2]]), struct.unpack(f">{start[3]}I", sizes)

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:  # noqa: ARG002
        """As many features as a row has values, in all its dimensions."""
        with self.reading(), self._opened(self.file) as (_, _, dtype, shape):
            width = math.prod(shape[1:])
            if not width or width * dtype.itemsize > LARGEST_ROW:
                raise self.malformed(f"rows of shape {shape[1:]} cannot be learned from")
            return Layout(width)

    def n_rows(self) -> int:
        """The number of rows, from the header."""
        with self.reading(), self._opened(self.file) as (_, _, _, shape):
            return int(shape[0])

    def row_bytes(self, layout: Layout) -> int:
        """As many as the file has."""
        with self.reading(), self._opened(self.file) as (_, _, dtype, _):
            return layout.width * dtype.itemsize

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """The rows of the file, each flattened, with their labels."""
        with self.reading(), self._opened(self.file) as (stream, _, dtype, shape):
            answers = self._read_labels(shape[0])
            for start, stop in spans(shape[0], rows):
                block = DenseRows(self._block(stream, dtype, start, stop, layout.width))
                block.source, block.first = self.file.name, start
                labels = None if answers is None else answers[start:stop]
                yield Slice(block, labels, None, stop - start, stop / shape[0])
            if stream.read(1):
                raise self.malformed(f"there is more in it than the {shape[0]:,} rows of its header")

    def _read_labels(self, rows: int) -> NDArray[Any] | None:
        if self.labels is None:
            return None
        with self._opened(self.labels) as (stream, _, dtype, shape):
            if len(shape) != 1 or shape[0] != rows:
                raise self.malformed(f"{rows:,} rows, but labels of shape {shape} in {self.labels.name}")
            # Piece by piece: what the header promises need not be there.
            parts = [self._block(stream, dtype, *span, 1) for span in spans(rows, 1 << 20)]
            return np.concatenate(parts).ravel() if parts else np.zeros(0, dtype=dtype)

    def _block(self, stream: Any, dtype: np.dtype[Any], start: int, stop: int, width: int) -> NDArray[Any]:
        wanted = (stop - start) * width * dtype.itemsize
        data = stream.read(wanted)
        if len(data) < wanted:
            raise self.malformed("the file ends", start + len(data) // (width * dtype.itemsize))
        return np.frombuffer(data, dtype=dtype).reshape(stop - start, width).astype(dtype.newbyteorder("="), copy=False)
