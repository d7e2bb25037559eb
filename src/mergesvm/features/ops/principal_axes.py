"""Principal axes of a set of rows, and the fractions of the variance that they explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class PrincipalAxes:
    """Orthogonal directions by decreasing variance: covariance = V diag(variances) V'.

    Attributes
    ----------
    directions : array of shape (columns, axes)
        Unit vectors. The entry of largest absolute value of each is positive, which makes signs reproducible.
    variances : array of shape (axes,)
        The variance along each axis; zero if it does not exceed rounding.
    """

    directions: NDArray[np.float64]
    variances: NDArray[np.float64]

    @classmethod
    def of_rows(cls, centred: NDArray[np.float64]) -> PrincipalAxes:
        """Compute the axes of centred rows: min(rows, columns) of them.

        >>> PrincipalAxes.of_rows(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).variances
        array([4.5, 0.5])
        """
        exact = np.zeros(centred.shape[1])
        if len(centred) >= centred.shape[1]:
            return cls.of_covariance(centred.T @ centred / len(centred), exact)
        # For few and wide rows, avoid a matrix of columns x columns.
        _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
        return cls._of(directions.T, lengths**2 / len(centred), exact)

    @classmethod
    def of_covariance(cls, covariance: NDArray[np.float64], rounding: NDArray[np.float64]) -> PrincipalAxes:
        """Compute the axes of a covariance matrix; ``rounding`` bounds the rounding errors in its diagonal.

        >>> PrincipalAxes.of_covariance(np.diag([1.0, 4.0, 1e-12]), np.full(3, 1e-11)).variances
        array([4., 1., 0.])
        """
        variances, directions = np.linalg.eigh(covariance)
        return cls._of(directions[:, ::-1], variances[::-1], rounding)

    @classmethod
    def _of(
        cls, directions: NDArray[np.float64], variances: NDArray[np.float64], rounding: NDArray[np.float64]
    ) -> PrincipalAxes:
        # Each axis inherits errors of the diagonal; the decomposition itself rounds relative to its largest value.
        error = rounding @ directions**2 + EPSILON * len(directions) * variances[0]
        largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=0)[None], axis=0)
        return cls(directions * np.where(largest < 0, -1.0, 1.0), np.where(variances > error, variances, 0.0))

    @property
    def explained(self) -> NDArray[np.float64]:
        """The fraction of the variance that each axis explains."""
        return self.variances / (self.variances.sum() or 1.0)

    def n_explaining(self, fraction: float) -> int:
        """Return how many axes, at least one, explain more than a fraction of the variance.

        >>> PrincipalAxes(np.eye(3), np.array([90.0, 9.0, 1.0])).n_explaining(0.95)
        2
        """
        # side="right" as in scikit-learn's PCA.
        number = int(np.searchsorted(np.cumsum(self.explained), fraction, side="right")) + 1
        return min(number, max(1, int(np.count_nonzero(self.variances))))
