"""Compiled functions of row pools. Importing this module loads numba: only :mod:`mergesvm.methods.row_pool` does so."""

from __future__ import annotations

from mergesvm.jit import compiled


@compiled
def find_edges(matrix, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Fill ``out``, (rows, 2), with the first and one past the last column of each row that is not zero."""
    for row in range(len(matrix)):
        first, last = 0, matrix.shape[1]
        while first < last and matrix[row, first] == 0:
            first += 1
        while last > first and matrix[row, last - 1] == 0:
            last -= 1
        out[row, 0], out[row, 1] = first, last
