"""Read text in chunks of whole lines."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 2**23
"""Number of bytes read at a time."""

FIRST_BYTES = 2**19
"""Size of the first chunk, which then doubles up to :data:`CHUNK_BYTES`, so that parsing starts early."""

MAX_LINE_BYTES = 2**25

SEARCH_BYTES = 2**14
"""The last line break is searched for in steps of this size."""

NEWLINE = 10


def whole_lines(stream: Any, held: int = 1) -> Iterator[NDArray[np.uint8]]:
    r"""Yield the bytes of a stream in chunks that end with a line break; one is added at the end if it is missing.

    Chunks share ``held`` buffers: a chunk is overwritten when ``held`` more have been requested.

    >>> import io
    >>> [text.tobytes() for text in whole_lines(io.BytesIO(b"one and two"))]
    [b'one and two\n']
    """
    buffers = [np.empty(CHUNK_BYTES, dtype=np.uint8) for _ in range(held)]
    turn = left = 0
    reach = FIRST_BYTES
    while count := stream.readinto(buffers[turn][left : min(left + reach, len(buffers[turn]) - 1)].data):
        buffer, filled = buffers[turn], left + count
        reach = min(2 * reach, CHUNK_BYTES)
        cut = _end_of_last_line(buffer, left, filled)
        if cut:
            yield buffer[:cut]
            turn, left = (turn + 1) % held, filled - cut
            if len(buffers[turn]) < len(buffer):
                buffers[turn] = np.empty(len(buffer), dtype=np.uint8)
            buffers[turn][:left] = buffer[cut:filled]
            continue
        left = filled
        if left > MAX_LINE_BYTES:
            raise ValueError(f"a line is longer than {MAX_LINE_BYTES:,} bytes")
        if left > len(buffer) // 2:
            buffers[turn] = np.concatenate([buffer, np.empty(len(buffer), dtype=np.uint8)])
    if left:
        buffers[turn][left] = NEWLINE
        yield buffers[turn][: left + 1]


def _end_of_last_line(buffer: NDArray[np.uint8], start: int, stop: int) -> int:
    """Return the position after the last line break in a range; 0 if there is none."""
    for high in range(stop, start, -SEARCH_BYTES):
        low = max(start, high - SEARCH_BYTES)
        ends = np.flatnonzero(buffer[low:high] == NEWLINE)
        if len(ends):
            return low + int(ends[-1]) + 1
    return 0


class LineRange(io.RawIOBase):
    r"""A stream of the lines of a file that begin within a range of bytes.

    Parameters
    ----------
    file : seekable file
    span : range
        The range of bytes.
    check : function of bytes, optional
        Called with all data read.

    >>> [LineRange(io.BytesIO(b"one\ntwo\nthree"), range(at, at + 3)).read() for at in range(0, 12, 3)]
    [b'one\n', b'two\n', b'three', b'']
    """

    def __init__(self, file: Any, span: range, check: Callable[[bytes], None] | None = None) -> None:
        super().__init__()
        self._file, self._check = file, check
        self._begin, self._end = _line_start(file, span.start), _line_start(file, span.stop)
        self._at = file.seek(self._begin)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes."""
        data = self._file.read(min(len(buffer), self._end - self._at))
        if not data and self._at < self._end and len(buffer):
            raise EOFError("the file has become shorter")
        if self._check is not None:
            self._check(data)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    @property
    def empty(self) -> bool:
        """Whether no line begins in the range."""
        return self._begin == self._end

    @property
    def fraction(self) -> float:
        """The fraction that has been read, from 0 to 1."""
        return 1.0 if self.empty else (self._at - self._begin) / (self._end - self._begin)


def _line_start(file: Any, at: int) -> int:
    """Return the start of the first line at or after a byte."""
    if at == 0:
        return 0
    place = file.seek(at - 1)
    while data := file.read(2**16):
        end = data.find(b"\n")
        if end >= 0:
            return int(place + end + 1)
        place += len(data)
        if place - at > MAX_LINE_BYTES:
            raise ValueError(f"a line is longer than {MAX_LINE_BYTES:,} bytes")
    return int(place)


def count_byte(text: NDArray[np.uint8], byte: int) -> int:
    """Count the occurrences of a byte.

    >>> count_byte(np.frombuffer(b"a,b,c", dtype=np.uint8), ord(","))
    2
    """
    return sum(int(np.count_nonzero(text[at : at + 2**16] == byte)) for at in range(0, len(text), 2**16))
