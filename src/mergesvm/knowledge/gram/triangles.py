"""Symmetric matrices stored as upper triangles, row by row: half the numbers to store and to send.

Compiled versions are used if they are loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import spans
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT


def triangle_size(width: int) -> int:
    """Return the number of entries of the triangle of a matrix."""
    return width * (width + 1) // 2


def pack_triangle(gram: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Copy the upper triangle of a matrix to a line."""
    if (jit := GRAM_JIT.loaded) is not None:
        jit.triangles.pack(gram, out)
        return
    for row, numbers in _rows(out, 0, gram):
        numbers[:] = row


def unpack_triangle(line: NDArray[np.float64], gram: NDArray[np.float64]) -> None:
    """Copy a line to the upper triangle of a matrix; the lower one stays unchanged."""
    if (jit := GRAM_JIT.loaded) is not None:
        jit.triangles.unpack(line, gram)
        return
    for row, numbers in _rows(line, 0, gram):
        row[:] = numbers


def add_to_triangle(line: NDArray[np.float64], first: int, gram: NDArray[np.float64]) -> None:
    """Add numbers to the upper triangle of a matrix, starting at its entry number ``first``.

    >>> gram = np.zeros((2, 2))
    >>> add_to_triangle(np.array([2.0, 3.0]), 1, gram)
    >>> gram
    array([[0., 2.],
           [0., 3.]])
    """
    if (jit := GRAM_JIT.loaded) is not None:
        jit.triangles.add_line(line, first, gram)
        return
    for row, numbers in _rows(line, first, gram):
        row += numbers


def fill_lower(gram: NDArray[np.float64], step: int = 64) -> NDArray[np.float64]:
    """Copy the upper triangle of a matrix to its lower one, in place, and return the matrix."""
    if (jit := GRAM_JIT.loaded) is not None:
        jit.triangles.mirror(gram)
        return gram
    for start, stop in spans(len(gram), step):
        gram[stop:, start:stop] = gram[start:stop, stop:].T
        corner = np.triu(gram[start:stop, start:stop])
        gram[start:stop, start:stop] = corner + np.triu(corner, 1).T
    return gram


def _rows(
    line: NDArray[np.float64], first: int, gram: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Yield the parts of the rows of a triangle that a line covers, each with its part of the line."""
    at = -first
    for index, row in enumerate(gram):
        end = at + len(row) - index
        if end > 0 and at < len(line):
            numbers = line[max(at, 0) : end]
            left = index + max(-at, 0)
            yield row[left : left + len(numbers)], numbers
        at = end


def packed(grams: Sequence[NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """Return the triangles of several matrices, one per line."""
    lines = np.empty((len(grams), triangle_size(width)))
    for line, gram in zip(lines, grams, strict=True):
        pack_triangle(gram, line)
    return lines


def unpacked(lines: Iterable[NDArray[np.float64]], width: int) -> tuple[NDArray[np.float64], ...]:
    """Return the matrices of several triangles."""
    grams = []
    for line in lines:
        gram = np.empty((width, width))
        unpack_triangle(line, gram)
        grams.append(fill_lower(gram))
    return tuple(grams)
