"""Read idx files, the format of MNIST."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import numpy as np

from mergesvm.data.paths import File
from mergesvm.data.readers.arrays import ArrayReader, ArrayStream

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class IdxReader(ArrayReader):
    """Reads idx, plain or gzipped; labels are in the label file, or in the sibling ``...-labels-idx1-...``."""

    suffixes = ("-ubyte", ".idx", "-idx1", "-idx3")
    compressions = (".gz",)
    paired = True

    def rows(self) -> AbstractContextManager[ArrayStream]:
        """Open the array of the file."""
        return _opened(self.file)

    def labels(self) -> AbstractContextManager[ArrayStream] | None:
        """Open the array of the label file."""
        file = self._label_file
        return None if file is None else _opened(file)

    @property
    def seekable(self) -> bool:
        """Whether neither file is compressed."""
        return self.file.compression is None and (self._label_file is None or self._label_file.compression is None)

    @property
    def _label_file(self) -> File | None:
        if isinstance(self.options.label, File):
            return self.options.label
        path = self.file.path.replace("images-idx3", "labels-idx1")
        return self.file.sibling(path) if path != self.file.path else None


@contextmanager
def _opened(file: File) -> Iterator[ArrayStream]:
    stream, raw = file.stream()
    with closing(raw), closing(stream):
        start = stream.read(4)
        if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in TYPES or not 1 <= start[3] <= 8:
            raise ValueError(f"not an idx file: it begins with {start!r}")
        sizes = stream.read(4 * start[3])
        if len(sizes) < 4 * start[3]:
            raise EOFError("the file ends within its header")
        yield ArrayStream(stream, np.dtype(TYPES[start[2]]), struct.unpack(f">{start[3]}I", sizes))
