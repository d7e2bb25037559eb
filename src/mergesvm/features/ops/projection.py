"""Products and norms of rows, dense or CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def project(rows: Any, matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Compute ``rows @ matrix`` into ``out``."""
    if sparse.issparse(rows):
        out[:] = rows @ matrix
    else:
        np.matmul(rows, matrix, out=out)


def squares(rows: Any) -> NDArray[Any]:
    """Return the squared length of each row."""
    lengths: NDArray[Any] = (
        np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        if sparse.issparse(rows)
        else np.einsum("ij,ij->i", rows, rows)
    )
    return lengths


def dense(rows: Any) -> NDArray[Any]:
    """Return rows as a dense array."""
    array: NDArray[Any] = rows.toarray() if sparse.issparse(rows) else rows
    return array
