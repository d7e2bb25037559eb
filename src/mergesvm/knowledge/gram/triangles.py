"""Symmetric matrices as their upper triangles, row by row: half the numbers to store and to send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.gram.jit_policy import loaded_kernels
from mergesvm.knowledge.gram.narrow import mirror


def triangle_size(width: int) -> int:
    """How many numbers the triangle of a matrix has."""
    return width * (width + 1) // 2


def pack_triangle(gram: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Write the upper triangle of a matrix."""
    kernels = loaded_kernels()
    if kernels is not None:
        kernels.pack(gram, out)
        return
    width, at = len(gram), 0
    for row in range(width):
        end = at + width - row
        out[at:end] = gram[row, row:]
        at = end


def unpack_triangle(line: NDArray[np.float64], gram: NDArray[np.float64]) -> None:
    """Write the upper triangle of a matrix; its lower one is left as it is."""
    kernels = loaded_kernels()
    if kernels is not None:
        kernels.unpack(line, gram)
        return
    for row, numbers in _rows(line, 0, gram):
        row[:] = numbers


def add_to_triangle(line: NDArray[np.float64], first: int, gram: NDArray[np.float64]) -> None:
    """Add numbers to the upper triangle of a matrix, from the one on that has this place in it.

    >>> gram = np.zeros((2, 2))
    >>> add_to_triangle(np.array([2.0, 3.0]), 1, gram)
    >>> gram
    array([[0., 2.],
           [0., 3.]])
    """
    kernels = loaded_kernels()
    if kernels is not None:
        kernels.add_line(line, first, gram)
        return
    for row, numbers in _rows(line, first, gram):
        row += numbers


def fill_lower(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Copy the upper triangle of a matrix onto its lower one."""
    kernels = loaded_kernels()
    if kernels is None:
        return mirror(gram)
    kernels.mirror(gram)
    return gram


def _rows(
    line: NDArray[np.float64], first: int, gram: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Stretches of the rows of a triangle, and what of a line belongs there."""
    at = -first
    for place, row in enumerate(gram):
        end = at + len(row) - place
        if end > 0 and at < len(line):
            numbers = line[max(at, 0) : end]
            left = place + max(-at, 0)
            yield row[left : left + len(numbers)], numbers
        at = end


def packed(grams: Sequence[NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """The triangles of several matrices, one a line."""
    lines = np.empty((len(grams), triangle_size(width)))
    for line, gram in zip(lines, grams, strict=True):
        pack_triangle(gram, line)
    return lines


def unpacked(lines: Iterable[NDArray[np.float64]], width: int) -> tuple[NDArray[np.float64], ...]:
    """The matrices of several triangles, as they come."""
    grams = []
    for line in lines:
        gram = np.empty((width, width))
        unpack_triangle(line, gram)
        grams.append(fill_lower(gram))
    return tuple(grams)
