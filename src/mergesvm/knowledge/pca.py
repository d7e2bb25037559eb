"""Principal components computed from the sums alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import FormError, IndefiniteError, KnowledgeError
from mergesvm.features.maps.components import Components
from mergesvm.features.ops.principal_axes import PrincipalAxes
from mergesvm.knowledge.sums import ROUNDING, Sums


def principal_components(
    knowledge: Sums, n_components: float, *, whiten: bool = False, precision: str = "float64"
) -> Components:
    """Return the frozen map to the principal components of all rows, weighted.

    With the count n, the sum v and the Gram matrix M of all classes about the anchor a, the mean is a + v/n, and the
    covariance is M/n - (v/n)(v/n)'. Its eigenvectors are the directions.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]], ["a", "b", "b"])
    >>> principal_components(k, 0.99).transform([[2.0, 2.0], [3.0, 3.0]]).round(3)
    array([[0.   ],
           [1.414]])
    """
    features = Components(n_components, whiten=whiten, precision=precision)
    if knowledge.signature.mapped:
        raise FormError(
            f"Principal components need knowledge of unmapped rows, and this is of {knowledge.signature.features}. Use "
            f"learn(X, y).pca({n_components!r}), or apply them after the map, from a sample of rows: "
            f"Chain([map, Components({n_components!r})]).freeze(X)."
        )
    rows = int(knowledge.rows.sum())
    if rows == 0:
        raise KnowledgeError("Knowledge of no rows has no principal components. Learn some rows first.")
    count = knowledge.counts.sum()
    mean = knowledge.sums.sum(axis=0) / count
    covariance = knowledge.pooled_gram / count
    # Rounding errors are relative to the largest squares, before anything was subtracted.
    squares = np.maximum(covariance.diagonal(), knowledge.peaks.sum(axis=0) / count)
    rounding = ROUNDING[knowledge.precision] * squares
    covariance -= np.outer(mean, mean)
    # Columns that vary only by rounding take no part in any component.
    constant = np.abs(covariance.diagonal()) <= rounding
    covariance[constant], covariance[:, constant] = 0.0, 0.0
    axes = PrincipalAxes.of_covariance(covariance, np.where(constant, 0.0, rounding))
    if knowledge.peaks.any():
        _check_definite(axes, covariance, rounding)
    return features.frozen_along(axes, knowledge.anchor + mean, knowledge.signature.layout, rows)


def _check_definite(axes: PrincipalAxes, covariance: NDArray[np.float64], rounding: NDArray[np.float64]) -> None:
    """Raise an error if variances are negative beyond rounding; the axes have zeros instead."""
    # All variances, including negative ones, add up to the trace.
    negative = axes.variances.sum() - covariance.diagonal().sum()
    if negative > np.sqrt(len(rounding)) * rounding.sum():
        raise IndefiniteError(
            "No set of rows has these sums: a variance is negative, probably after subtracting rows that were never "
            "added. Learn the remaining rows again."
        )
