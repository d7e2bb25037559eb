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

    >>> import io
    >>> [text.tobytes() for text in whole_lines(io.BytesIO(b"one and two"))]
    [b'one and two\n']
    """
    rest = b""
    while data := stream.read(CHUNK_BYTES):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield np.frombuffer(rest + data[:cut], dtype=np.uint8)
        elif len(rest) > LONGEST_LINE:
            raise ValueError(f"a line is longer than {LONGEST_LINE:,} bytes")
        rest = data[cut:] if cut else rest + data
    if rest:
        yield np.frombuffer(rest + b"\n", dtype=np.uint8)
