"""Kernel machines by other means: kernels one by one from their formulas, and the dual problem by the textbook."""

from __future__ import annotations

import numpy as np
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel


def kernel_matrix(kernel, X, Z, gamma=1.0, degree=3, coef0=0.0):
    """Kernel values of rows with rows, by scikit-learn."""
    if callable(kernel):
        return kernel(X, Z)
    if kernel == "rbf":
        return rbf_kernel(X, Z, gamma)
    return linear_kernel(X, Z) if kernel == "linear" else polynomial_kernel(X, Z, degree, gamma, coef0)


def dual_objective(K, y, alpha, penalty=0.0):
    """F = sum(alpha) - alpha'Q alpha/2 - penalty (y'alpha)^2/2, with Q = y y' K."""
    signed = y * alpha
    return alpha.sum() - signed @ K @ signed / 2 - penalty * signed.sum() ** 2 / 2


def primal_objective(K, y, alpha, bound, intercept, penalty=0.0):
    """|w|^2/2 + b^2/(2 penalty) + sum of bound times hinge loss: no F is larger, wherever alpha and b are."""
    signed = y * alpha
    loss = bound @ np.maximum(0, 1 - y * (K @ signed + intercept))
    return signed @ K @ signed / 2 + (intercept**2 / (2 * penalty) if penalty else 0.0) + loss


def optimum(K, y, bound, penalty):
    """Alpha that maximises F within the bounds, by the textbook's active-set method: exact, for some dozens of rows.

    Alpha on a bound is fixed. The others go to the optimum among themselves, or as far as the first bound in the way,
    which fixes one more; at that optimum the fixed one that wants most is let go.
    """
    Q = y[:, None] * y * K + penalty * np.outer(y, y)
    alpha, free = np.zeros(len(y)), np.zeros(len(y), dtype=bool)
    for _ in range(200 * len(y)):
        inner = np.flatnonzero(free)
        if len(inner):
            gradient, part = 1 - Q[inner] @ alpha, Q[np.ix_(inner, inner)]
            step = np.linalg.lstsq(part, gradient, rcond=1e-13)[0]
            flat = gradient - part @ step
            whole = np.abs(flat).max() < 1e-7
            step = step if whole else flat  # F rises without end along a direction that has no curvature
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(step > 0, bound[inner] - alpha[inner], -alpha[inner]) / step
            room[step == 0] = np.inf
            first = np.argmin(room)
            alpha[inner] += (min(1.0, room[first]) if whole else room[first]) * step
            if room[first] <= 1 or not whole:
                at = inner[first]
                alpha[at], free[at] = bound[at] if step[first] > 0 else 0.0, False
                continue
        gradient = 1 - Q @ alpha
        wants = np.where(alpha > 0, -gradient, gradient)
        wants[free | (bound == 0)] = -np.inf
        if wants.max() < 1e-9:
            return alpha
        free[np.argmax(wants)] = True
    return alpha


def multipliers(machine, rows):
    """Y alpha of all rows that a machine of two classes was given, zeros included."""
    signed = np.zeros(rows)
    signed[machine.support_] = machine.dual_coef_[0]
    return signed
