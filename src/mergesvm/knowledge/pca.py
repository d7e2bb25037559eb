"""Principal components of all rows that knowledge is of, from the sums alone."""

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
    """The frozen map to the principal components of all rows, each by its weight.

    With the count n, the sum v and the Gram matrix M of all classes about the anchor a, the mean is a + v/n, and the
    covariance M/n - (v/n)(v/n)', whose eigenvectors are the directions.

    >>> import mergesvm as ms
    >>> k = ms.learn([[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]], ["a", "b", "b"])
    >>> principal_components(k, 0.99).transform([[2.0, 2.0], [3.0, 3.0]]).round(3)
    array([[0.   ],
           [1.414]])
    """
    features = Components(n_components, whiten=whiten, precision=precision)
    if knowledge.signature.mapped:
        raise FormError(
            f"Principal components are of columns, and this knowledge is of {knowledge.signature.features}. Take "
            f"them of knowledge of the rows as they are: learn(X, y).pca({n_components!r}); or let them follow the map "
            f"on a sample of rows: Chain([map, Components({n_components!r})]).freeze(X)."
        )
    rows = int(knowledge.rows.sum())
    if rows == 0:
        raise KnowledgeError("Knowledge of no rows has no principal components. Learn some rows first.")
    count = knowledge.counts.sum()
    mean = knowledge.sums.sum(axis=0) / count
    covariance = knowledge.pooled_gram / count
    # Rounding is measured by the largest that squares ever were, before something was subtracted.
    squares = np.maximum(covariance.diagonal(), knowledge.peaks.sum(axis=0) / count)
    rounding = ROUNDING[knowledge.precision] * squares
    covariance -= np.outer(mean, mean)
    # A column that does not vary, but for rounding, is in no component.
    constant = np.abs(covariance.diagonal()) <= rounding
    covariance[constant], covariance[:, constant] = 0.0, 0.0
    axes = PrincipalAxes.of_covariance(covariance, np.where(constant, 0.0, rounding))
    if knowledge.peaks.any():
        _check_sound(axes, covariance, rounding)
    return features.frozen_along(axes, knowledge.anchor + mean, knowledge.signature.layout, rows)


def _check_sound(axes: PrincipalAxes, covariance: NDArray[np.float64], rounding: NDArray[np.float64]) -> None:
    """Raise an error if there are variances that are negative beyond rounding; axes have zero in their place."""
    # All variances, negative ones too, add up to the diagonal.
    negative = axes.variances.sum() - covariance.diagonal().sum()
    if negative > np.sqrt(len(rounding)) * rounding.sum():
        raise IndefiniteError(
            "The sums are not those of any set of rows: a variance has become negative. Rows were subtracted that had "
            "never been added. Learn the remaining rows again."
        )
