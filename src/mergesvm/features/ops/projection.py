"""Products, lengths and distances of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def project(rows: Any, matrix: NDArray[Any], out: NDArray[Any]) -> None:
    """Compute ``rows @ matrix`` into ``out``; rows are dense or CSR."""
    if sparse.issparse(rows):
        out[:] = rows @ matrix
    else:
        np.matmul(rows, matrix, out=out)


def squares(rows: Any) -> NDArray[Any]:
    """Return the squared length of each row, dense or CSR."""
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def mean_squared_distance(rows: NDArray[np.float64], mask: NDArray[np.bool_] | None = None) -> Any:
    """Return E |x - z|^2 over all pairs of rows, which is twice the sum of the column variances; 1 if it is zero.

    A mask (columns, units) gives that within the columns of each unit, at least a tenth of that of average columns.

    >>> mean_squared_distance(np.array([[0.0], [2.0]]))
    2.0
    """
    distances = 2 * rows.var(axis=0)
    if mask is None:
        return float(distances.sum()) or 1.0
    return np.maximum(distances @ mask, 0.1 * (distances.mean() or 1.0) * mask.sum(axis=0))


def dense(rows: Any) -> NDArray[Any]:
    """Return rows as a dense array."""
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows)
