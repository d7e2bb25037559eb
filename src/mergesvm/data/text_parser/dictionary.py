"""Dictionary columns of short words, built with numpy.

Arrow's own functions would import ``pyarrow.compute``, and ``pa.array`` pandas, which takes longer than parsing 50 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LABEL_TYPE = pa.dictionary(pa.int32(), pa.string())

MAX_LETTERS = 7
"""Words of up to this many bytes are compared as 64-bit integers, of which the last byte is the length."""

MAX_WORDS = 32
"""With more different words, comparing all rows with each of them takes longer than Arrow's hash table."""


def encode_words(text: NDArray[np.uint8], spans: NDArray[np.int64]) -> Any:
    r"""Return the words between starts and ends, (rows, 2), as a dictionary column; None if they are long or many.

    >>> encode_words(np.frombuffer(b"yes,no,yes\n", np.uint8), np.array([[0, 3], [4, 6], [7, 10]])).to_pylist()
    ['yes', 'no', 'yes']
    """
    starts = spans[:, 0]
    lengths = spans[:, 1] - starts
    if not len(spans) or lengths.max() > MAX_LETTERS or len(text) < 8:
        return None
    words = np.ndarray(len(text) - 7, "<u8", text, strides=(1,))  # the eight bytes from each place on
    at = np.minimum(starts, len(words) - 1)
    keys = words[at]
    keys >>= (8 * (starts - at)).astype(np.uint64)
    keys &= _MASKS[lengths]
    keys |= lengths.astype(np.uint64) << np.uint64(56)
    codes, found, known = np.zeros(len(keys), dtype=np.int32), list[bytes](), np.zeros(len(keys), dtype=np.bool_)
    while not known.all():
        if len(found) == MAX_WORDS:
            return None
        key = keys[known.argmin()]
        same = keys == key
        codes += same * np.int32(len(found))
        known |= same
        found.append(int(key).to_bytes(8, "little")[: int(key) >> 56])
    return pa.DictionaryArray.from_arrays(number_column(codes), _strings(found))


def number_column(values: NDArray[Any]) -> Any:
    """Return numbers as an Arrow column, without a copy."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)], 0)


def codes_of(encoded: Any) -> NDArray[np.int32]:
    """Return the codes of a dictionary column without nulls."""
    codes = encoded.indices
    return np.frombuffer(codes.buffers()[1], np.int32, len(codes), 4 * codes.offset)


def _strings(words: list[bytes]) -> Any:
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int32)
    strings = pa.StringArray.from_buffers(len(words), pa.py_buffer(offsets), pa.py_buffer(b"".join(words)))
    strings.validate(full=True)
    return strings


_MASKS = np.array([2 ** (8 * length) - 1 for length in range(MAX_LETTERS + 1)], dtype=np.uint64)
