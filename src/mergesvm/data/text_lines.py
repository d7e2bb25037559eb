"""Text in stretches of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK_BYTES = 2**23
"""Text is read so many bytes at a time."""

LONGEST_LINE = 2**25
"""No line has more bytes than this."""


def whole_lines(stream: Any) -> Iterator[NDArray[np.uint8]]:
    r"""The bytes of a stream in stretches that end with a line; the last is given its end if it has none.

    All stretches lie in the same memory: one is gone when the next is asked for.

    >>> import io
    >>> [text.tobytes() for text in whole_lines(io.BytesIO(b"one and two"))]
    [b'one and two\n']
    """
    buffer = bytearray(CHUNK_BYTES)
    held = 0
    while count := stream.readinto(memoryview(buffer)[held : len(buffer) - 1]):
        filled = held + count
        cut = buffer.rfind(b"\n", held, filled) + 1
        if cut:
            yield np.frombuffer(buffer, dtype=np.uint8, count=cut)
            held = filled - cut
            buffer[:held] = buffer[cut:filled]
            continue
        held = filled
        if held > LONGEST_LINE:
            raise ValueError(f"a line is longer than {LONGEST_LINE:,} bytes")
        if held > len(buffer) // 2:
            buffer = buffer + bytearray(len(buffer))
    if held:
        buffer[held : held + 1] = b"\n"
        yield np.frombuffer(buffer, dtype=np.uint8, count=held + 1)


def count_byte(text: NDArray[np.uint8], byte: int) -> int:
    """How often a byte occurs.

    >>> count_byte(np.frombuffer(b"a,b,c", dtype=np.uint8), ord(","))
    2
    """
    return sum(int(np.count_nonzero(text[at : at + 2**16] == byte)) for at in range(0, len(text), 2**16))
