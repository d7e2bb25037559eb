"""KernelNumerics: the kernel's gamma, the precision and the origin, chosen once from the first rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.engines.base import Actors
from mergesvm.errors import DataError
from mergesvm.methods.kernel.stats import TINY, RowSummary
from mergesvm.models.kernel_function import Kernel, Lifted

MAX_ROWS_FOR_FLOAT64 = 1000
"""Up to this number of rows kernel values are computed in float64, which is fast enough."""

MIN_DENSITY_FOR_DENSE = 0.01
"""Sparse rows are multiplied as dense ones if at least this fraction of their values is stored."""


@dataclass(frozen=True)
class KernelNumerics:
    """The kernel and how it is evaluated; the same for all later rows.

    Attributes
    ----------
    kernel : Kernel
    dtype : dtype
        The precision of kernel values.
    dense : bool
        Whether products of sparse rows are computed on dense copies.
    origin : array of shape (features,), or None
        Subtracted from rows before products, for kernels that are invariant to shifts.
    """

    kernel: Kernel
    dtype: np.dtype[Any]
    dense: bool
    origin: NDArray[np.float64] | None

    @classmethod
    def of(cls, units: Actors[Any], kernel: Kernel, precision: str | None, n_rows: int) -> KernelNumerics:
        """Choose the numerics from summaries of the units; rows stay local."""
        summaries: list[RowSummary] = units.call("summarize", isinstance(kernel.gamma, str))
        with np.errstate(over="ignore", invalid="ignore"):  # values that are too large are reported by their norm
            summary = reduce(add, summaries)
        kernel = _with_gamma(kernel, summary).check()
        dense = summary.stored >= MIN_DENSITY_FOR_DENSE * summary.cells or kernel.is_function
        origin = summary.sums / max(summary.weight / summary.width, TINY) if kernel.of_distance and dense else None
        norm = float(np.max(units.call("max_squared_norm", origin)))
        if not (np.isfinite(norm) and kernel.is_finite(norm, np.dtype(np.float64))):
            raise DataError("Input X has values too large for the kernel. Rescale the columns.")
        double = n_rows <= MAX_ROWS_FOR_FLOAT64 or not kernel.fits_float32(norm)
        dtype = np.dtype(precision or ("float64" if double else "float32"))
        if not kernel.is_finite(norm, dtype):
            raise DataError(f"Input X has values too large for the kernel in {dtype.name}. Rescale the columns.")
        return cls(kernel, dtype, dense, origin)

    def lift(self, rows: Any) -> Lifted:
        """Prepare rows for products by the kernel, on dense or sparse rows as chosen."""
        if sparse.issparse(rows) and self.dense:
            rows = rows.toarray()
        elif isinstance(rows, np.ndarray) and not self.dense:
            rows = sparse.csr_array(rows)
        return self.kernel.lift(rows, self.dtype, self.origin)


def _with_gamma(kernel: Kernel, summary: RowSummary) -> Kernel:
    """The kernel with a number for gamma "scale" or "auto"."""
    if not isinstance(kernel.gamma, str):
        return kernel
    variance, width = summary.variance, summary.width
    scaled = kernel.gamma == "scale" and variance > 0 and np.isfinite(variance)
    return replace(kernel, gamma=1 / (width * variance) if scaled else 1 / width)
