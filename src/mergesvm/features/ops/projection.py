"""The product of a block of rows and a matrix, which is most of the work of every map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def project(rows: Any, matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """``rows @ matrix`` into ``out``, for dense rows and for CSR."""
    if sparse.issparse(rows):
        out[:] = rows @ matrix
    else:
        np.matmul(rows, matrix, out=out)


def squares(rows: Any) -> NDArray[Any]:
    """The squared length of each row."""
    lengths: NDArray[Any] = (
        np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        if sparse.issparse(rows)
        else np.einsum("ij,ij->i", rows, rows)
    )
    return lengths


def dense(rows: Any) -> NDArray[Any]:
    """Rows as a dense array."""
    array: NDArray[Any] = rows.toarray() if sparse.issparse(rows) else rows
    return array
