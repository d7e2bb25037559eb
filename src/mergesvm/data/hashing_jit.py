"""The compiled hash of rows. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.jit import compiled

HASHED_TYPES = tuple(np.dtype(name) for name in ("f8", "f4", "u1"))
"""Types of rows that are hashed without conversion."""


@compiled
def hash_rows(block, factors, hashes):  # type: ignore[no-untyped-def] # pragma: no cover
    """Sum factors times the bits of values over the columns; see :func:`~mergesvm.data.hashing.row_hashes`."""
    line = np.empty(factors.size)
    bits = line.view(np.uint64)
    for i in range(uint64(hashes.size)):
        row = block[i]
        for j in range(uint64(factors.size)):
            line[j] = row[j] + 0.0  # turns -0 into 0
        total = uint64(0)
        for j in range(uint64(factors.size)):
            total += (bits[j] ^ (bits[j] >> uint64(32))) * factors[j]
        hashes[i] = total


def compile_all() -> None:
    """Compile the function for all of its types, by calling it once."""
    for dtype in HASHED_TYPES:
        hash_rows(np.zeros((1, 1), dtype=dtype), np.ones(1, dtype=np.uint64), np.zeros(1, dtype=np.uint64))
