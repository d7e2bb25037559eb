"""Upper triangles of symmetric matrices, compiled. Importing this module loads numba."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

_SIDE = 64
"""Squares of so many numbers a side fit the first cache."""


@njit(nogil=True, error_model="numpy", cache=True)
def mirror(gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy the upper triangle of a matrix onto its lower one, square by square."""
    width = len(gram)
    for top in range(0, width, _SIDE):
        for left in range(0, top + 1, _SIDE):
            for i in range(top, min(top + _SIDE, width)):
                for j in range(left, min(left + _SIDE, i)):
                    gram[i, j] = gram[j, i]


@njit(nogil=True, error_model="numpy", cache=True)
def pack(gram, line):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write the upper triangle of a matrix, row by row."""
    at, width = uint64(0), uint64(len(gram))
    for i in range(width):
        row = gram[i]
        for j in range(i, width):
            line[at + j - i] = row[j]
        at += width - i


@njit(nogil=True, error_model="numpy", cache=True)
def unpack(line, gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write the upper triangle of a matrix."""
    at, width = uint64(0), uint64(len(gram))
    for i in range(width):
        row = gram[i]
        for j in range(i, width):
            row[j] = line[at + j - i]
        at += width - i


@njit(nogil=True, error_model="numpy", cache=True)
def add_line(line, first, gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add numbers to the upper triangle of a matrix, from the one on that has this place in it."""
    width, size = uint64(len(gram)), uint64(len(line))
    i, j = uint64(0), uint64(first)
    while j >= width - i:
        j -= width - i
        i += uint64(1)
    j += i
    at = uint64(0)
    while at < size:
        row, count = gram[i], min(width - j, size - at)
        for k in range(count):
            row[j + k] += line[at + k]
        at += count
        i += uint64(1)
        j = i


def compile_triangles() -> None:
    """Call every kernel once, also with what may only be read, as numbers that others have sent."""
    gram, line = np.zeros((1, 1)), np.zeros(1)
    for fixed in (False, True):
        source, sent = gram.copy(), line.copy()
        source.flags.writeable = sent.flags.writeable = not fixed
        pack(source, line)
        unpack(sent, gram)
        add_line(sent, 0, gram)
    mirror(gram)
