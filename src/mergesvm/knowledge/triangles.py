"""Symmetric matrices as their upper triangles, row by row: half the numbers to store and to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from mergesvm.knowledge.loading import loaded_kernels
from mergesvm.knowledge.narrow import mirror


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


def unpack_triangle(line: NDArray[np.float64], gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Write the matrix of which this is the upper triangle.

    >>> unpack_triangle(np.array([1.0, 2.0, 3.0]), np.empty((2, 2)))
    array([[1., 2.],
           [2., 3.]])
    """
    kernels = loaded_kernels()
    if kernels is not None:
        kernels.unpack(line, gram)
        return gram
    width, at = len(gram), 0
    for row in range(width):
        end = at + width - row
        gram[row, row:] = line[at:end]
        at = end
    return mirror(gram)


def packed(grams: Sequence[NDArray[np.float64]], width: int) -> NDArray[np.float64]:
    """The triangles of several matrices, one a line."""
    lines = np.empty((len(grams), triangle_size(width)))
    for line, gram in zip(lines, grams, strict=True):
        pack_triangle(gram, line)
    return lines


def unpacked(lines: Iterable[NDArray[np.float64]], width: int) -> tuple[NDArray[np.float64], ...]:
    """The matrices of several triangles, as they come."""
    return tuple(unpack_triangle(line, np.empty((width, width))) for line in lines)
