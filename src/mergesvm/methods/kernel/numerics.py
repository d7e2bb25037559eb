"""What is settled once, by the first rows: the kernel's gamma, the origin, and the precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.engines.base import Units
from mergesvm.errors import DataError
from mergesvm.methods.kernel.worker.local_rows import RowInfo
from mergesvm.models.kernel_function import Kernel

ROUGH = 2e-4
"""Exponents of float32 may be off by this much, and no more, for it to be used."""

LITTLE = 1000
"""Of so few rows kernel values are computed in float64: they are soon computed."""

SPARSE = 0.01
"""Rows of which a smaller share is stored are multiplied as sparse ones."""


@dataclass(frozen=True)
class KernelNumerics:
    """On what a kernel machine stands, whatever rows come and go.

    Attributes
    ----------
    kernel : Kernel
    real : dtype
        The precision of kernel values.
    dense : bool
        Whether sparse rows are multiplied as dense ones.
    origin : array of shape (features,), or None
        RowInfo which rows are multiplied, where the kernel allows it.
    """

    kernel: Kernel
    real: np.dtype[Any]
    dense: bool
    origin: NDArray[np.float64] | None

    @classmethod
    def of(cls, units: Units[Any], kernel: Kernel, precision: str | None, rows: int) -> KernelNumerics:
        """What suits the rows at all units, of which none is shown."""
        abouts: list[RowInfo] = units.call("about", isinstance(kernel.gamma, str))
        width, tiny = len(abouts[0].sums), np.finfo(np.float64).tiny
        if isinstance(kernel.gamma, str):
            variance = _variance(abouts)
            scaled = kernel.gamma == "scale" and variance > 0 and np.isfinite(variance)
            kernel = replace(kernel, gamma=1 / (width * variance) if scaled else 1 / width)
        kernel = kernel.check()
        stored, cells = sum(about.stored for about in abouts), sum(about.cells for about in abouts)
        dense = stored >= SPARSE * cells or kernel.kind == "callable"
        sums, weight = np.sum([about.sums for about in abouts], axis=0), sum(about.weight for about in abouts)
        origin = sums / max(weight / width, tiny) if kernel.shifts and dense else None
        reach = float(np.max(units.call("reach", origin)))
        if not np.isfinite(reach) or (kernel.kind == "poly" and not np.isfinite(_power(kernel, reach))):
            raise DataError("Input X has values too large for the kernel. Rescale the columns.")
        if kernel.kind == "rbf":
            rough = kernel.gamma * reach * 2**-22 > ROUGH
        else:
            rough = (_power(kernel, reach) if kernel.kind == "poly" else reach) > 1e12
        wide = rough or rows <= LITTLE or kernel.kind == "callable"
        real = np.dtype(precision or ("float64" if wide else "float32"))
        if not kernel.bears(reach, real):
            raise DataError(f"Input X has values too large for the kernel in {real.name}. Rescale the columns.")
        return cls(kernel, real, dense, origin)


def _variance(abouts: list[RowInfo]) -> float:
    """Of all values at all units."""
    mean, scatter, seen = 0.0, 0.0, 0.0
    for about in abouts:
        if about.weight:
            apart, share = about.mean - mean, about.weight / (seen + about.weight)
            mean, scatter = mean + apart * share, scatter + about.scatter + apart * apart * seen * share
            seen += about.weight
    return scatter / max(seen, float(np.finfo(np.float64).tiny))


def _power(kernel: Kernel, reach: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float64(kernel.gamma * reach + abs(kernel.coef0)) ** kernel.degree)
