"""Read the header of a ``.npy`` file."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

MAX_HEADER_BYTES = 2**16


def read_npy_header(stream: Any) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Return type, shape and whether the order is Fortran's; the stream is then at the first number.

    numpy's own reader also accepts headers of Python 2, and raises unrelated errors for damaged headers.

    >>> import io
    >>> file = io.BytesIO()
    >>> np.save(file, np.zeros((2, 3)))
    >>> _ = file.seek(0)
    >>> read_npy_header(file)
    (dtype('float64'), (2, 3), False)
    """
    start = stream.read(8)
    if start[:6] != b"\x93NUMPY" or len(start) < 8 or start[6] not in (1, 2, 3):
        raise ValueError("not a numpy array")
    length = int.from_bytes(stream.read(2 if start[6] == 1 else 4), "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError("the header is too long")
    text = stream.read(length)
    try:
        fields = ast.literal_eval(text.decode("utf-8" if start[6] == 3 else "latin-1").strip())
        dtype, shape, fortran = np.dtype(str(fields["descr"])), fields["shape"], fields["fortran_order"]
    except (ValueError, SyntaxError, TypeError, LookupError, RecursionError, MemoryError):
        raise ValueError("the header is not valid") from None
    if dtype.kind not in "biufU" or not isinstance(shape, tuple) or not isinstance(fortran, bool):
        raise ValueError(f"an array of type {dtype}, which is neither numbers nor text")
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) > 2**62:
        raise ValueError("the shape is not valid")
    return dtype, shape, fortran
