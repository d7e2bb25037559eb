"""Compiled operations on the upper triangles of symmetric matrices. Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.jit import compiled

BLOCK_WIDTH = 64
"""Square blocks of this width fit the first-level cache."""


@compiled
def mirror(gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy the upper triangle of a matrix to its lower one, block by block."""
    width = len(gram)
    for top in range(0, width, BLOCK_WIDTH):
        for left in range(0, top + 1, BLOCK_WIDTH):
            for i in range(top, min(top + BLOCK_WIDTH, width)):
                for j in range(left, min(left + BLOCK_WIDTH, i)):
                    gram[i, j] = gram[j, i]


@compiled
def pack(gram, line):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy the upper triangle of a matrix to a line, row by row."""
    at, width = uint64(0), uint64(len(gram))
    for i in range(width):
        row = gram[i]
        for j in range(i, width):
            line[at + j - i] = row[j]
        at += width - i


@compiled
def unpack(line, gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy a line to the upper triangle of a matrix."""
    at, width = uint64(0), uint64(len(gram))
    for i in range(width):
        row = gram[i]
        for j in range(i, width):
            row[j] = line[at + j - i]
        at += width - i


@compiled
def add_line(line, first, gram):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add numbers to the upper triangle of a matrix, starting at its entry number ``first``."""
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


def compile_all() -> None:
    """Call every function once, also with read-only arrays, as engines deliver them."""
    gram, line = np.zeros((1, 1)), np.zeros(1)
    for writeable in (True, False):
        source, sent = gram.copy(), line.copy()
        source.flags.writeable = sent.flags.writeable = writeable
        pack(source, line)
        unpack(sent, gram)
        add_line(sent, 0, gram)
    mirror(gram)
