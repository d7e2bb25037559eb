"""MarginFit: the coefficients of given vectors whose scores come nearest to those of a full model."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from mergesvm.models.reduction.rows import ColumnSums

Numbers = NDArray[np.float64]

FAR_WEIGHT = 0.003
"""The weight of squared errors at all rows, beside those within the margins of the two classes of a pair."""

RELATIVE_RIDGE = 1e-10
"""Added to the diagonal of Gram matrices, relative to its mean, so that rounding does not make them indefinite."""

MAX_STEPS, STEP_TOL = 500, 1e-6
"""A fit ends after this number of steps, or when scores change by less than this in the mean square."""


class MarginFit:
    """Minimises sum_i d(g(x_i), f(x_i))^2 + FAR_WEIGHT sum_j (g(x_j) - h(x_j))^2 for every pair of classes.

    f is the score of the full model, h the same limited to +-MAX_TARGET, and g that of the smaller model. i runs over
    the rows of the two classes, j over all rows. d is the distance of g from what f allows: from f itself within the
    margins, and from the half-line beyond the margin where f is beyond it, because how far a row lies from the
    boundary does not matter there.

    The rows stay where they are: a step takes the gradient of the first sum over all units. It is a Newton step of the
    quadratic bound that has d = |g - f|, with Nesterov momentum, restarted for each pair when it points uphill.
    """

    def __init__(self, sums: ColumnSums) -> None:
        total, self._cross = sums.grams.sum(axis=0), sums.cross
        self._gram = total
        ridge = np.eye(len(total)) * (RELATIVE_RIDGE * total.trace() / len(total))
        self._factors = [
            cho_factor(sums.grams[i] + sums.grams[j] + FAR_WEIGHT * total + ridge)
            for i, j in combinations(range(len(sums.grams)), 2)
        ]
        self._counts = np.array([sums.counts[i] + sums.counts[j] for i, j in combinations(range(len(sums.grams)), 2)])
        self.coefs: Numbers = cho_solve(cho_factor(total + ridge), sums.cross)
        """Coefficients, (columns, pairs): at first those of ordinary least squares."""
        self.point: Numbers = self.coefs
        """Coefficients at which the next gradient is needed."""
        self._momenta, self.n_steps, self.finished = np.ones(len(self._counts)), 0, False

    def step(self, gradient: Numbers) -> None:
        """Take a step, from the gradient at ``point`` of the sums within the margins."""
        gradient = gradient + FAR_WEIGHT * (self._cross - self._gram @ self.point)
        step = np.column_stack([cho_solve(*args) for args in zip(self._factors, gradient.T, strict=True)])
        new = self.point + step
        decrease = np.einsum("kp,kp->p", step, gradient)
        uphill = np.einsum("kp,kp->p", new - self.coefs, self.point - new) > 0
        momenta = np.where(uphill, 1.0, (1 + np.sqrt(1 + 4 * self._momenta**2)) / 2)
        carried = np.where(uphill, 0.0, (self._momenta - 1) / momenta)
        self.point = new + carried * (new - self.coefs)
        self.coefs, self._momenta = new, momenta
        self.n_steps += 1
        self.finished = self.n_steps >= MAX_STEPS or bool((decrease <= STEP_TOL**2 * self._counts).all())
