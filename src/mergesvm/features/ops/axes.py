"""The principal axes of a cloud of rows, and how many of them explain a share of its variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Axes:
    """Orthogonal directions by falling variance: V of V diag(variances) V' = covariance.

    Attributes
    ----------
    directions : array of shape (columns, axes)
        Of unit length. The largest entry of each, by its absolute value, is positive, so that signs are no accident.
    variances : array of shape (axes,)
        Along each; zero where it is not beyond rounding.
    """

    directions: NDArray[np.float64]
    variances: NDArray[np.float64]

    @classmethod
    def of_rows(cls, near: NDArray[np.float64]) -> Axes:
        """The axes of rows about their mean: as many as there are columns, or rows if they are fewer.

        >>> Axes.of_rows(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).variances
        array([4.5, 0.5])
        """
        exact = np.zeros(near.shape[1])
        if len(near) >= near.shape[1]:
            return cls.of_covariance(near.T @ near / len(near), exact)
        # Where rows are few and wide, without a matrix of columns x columns.
        _, lengths, directions = np.linalg.svd(near, full_matrices=False)
        return cls._of(directions.T, lengths**2 / len(near), exact)

    @classmethod
    def of_covariance(cls, covariance: NDArray[np.float64], rounding: NDArray[np.float64]) -> Axes:
        """The axes of a covariance matrix, with the rounding that is in its diagonal.

        >>> Axes.of_covariance(np.diag([1.0, 4.0, 1e-12]), np.full(3, 1e-11)).variances
        array([4., 1., 0.])
        """
        variances, directions = np.linalg.eigh(covariance)
        return cls._of(directions[:, ::-1], variances[::-1], rounding)

    @classmethod
    def _of(
        cls, directions: NDArray[np.float64], variances: NDArray[np.float64], rounding: NDArray[np.float64]
    ) -> Axes:
        # What is in the diagonal, each axis has its part of; and no decomposition is better than its largest number.
        doubtful = rounding @ directions**2 + EPSILON * len(directions) * variances[0]
        largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=0)[None], axis=0)
        return cls(directions * np.where(largest < 0, -1.0, 1.0), np.where(variances > doubtful, variances, 0.0))

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of all variance that each axis explains."""
        return self.variances / (self.variances.sum() or 1.0)

    def enough_for(self, share: float) -> int:
        """How many axes, at least one, explain more than this share of the variance; none of rounding only.

        >>> Axes(np.eye(3), np.array([90.0, 9.0, 1.0])).enough_for(0.95)
        2
        """
        # To the right of an equal sum, as scikit-learn does.
        enough = int(np.searchsorted(np.cumsum(self.shares), share, side="right")) + 1
        return min(enough, max(1, int(np.count_nonzero(self.variances))))
