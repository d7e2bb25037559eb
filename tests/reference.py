"""Independent computations for comparison: QR least squares on the stacked rows, and 50-digit arithmetic."""

from __future__ import annotations

import mpmath
import numpy as np
import scipy.linalg

import mergesvm as ms


def hyperplane_by_qr(X, y, weights, C, penalize_intercept=True):
    """w and b of a binary problem, y in {-1, +1}, by QR of the rows [x 1] stacked on [I/sqrt(C)]."""
    n, d = X.shape
    root = np.sqrt(weights)
    design = np.hstack([X, np.ones((n, 1))]) * root[:, None]
    penalty = np.eye(d + 1) / np.sqrt(C)
    if not penalize_intercept:
        penalty = penalty[:d]
    stacked = np.vstack([design, penalty])
    right = np.concatenate([root * y, np.zeros(len(penalty))])
    q, r = np.linalg.qr(stacked)
    z = scipy.linalg.solve_triangular(r, q.T @ right)
    return z[:d], z[d]


def scores_by_mpmath(X, y, weights, C, test, penalize_intercept=True):
    """Scores of a binary problem with 50 digits, by the formula of the papers."""
    with mpmath.workdps(50):
        d = X.shape[1]
        rows = [[mpmath.mpf(float(v)) for v in row] + [mpmath.mpf(1)] for row in X]
        system = mpmath.zeros(d + 1)
        right = mpmath.zeros(d + 1, 1)
        for j in range(d + 1 if penalize_intercept else d):
            system[j, j] = 1 / mpmath.mpf(C)
        for row, label, weight in zip(rows, y, weights, strict=True):
            weight = mpmath.mpf(float(weight))
            for j in range(d + 1):
                right[j] += weight * int(label) * row[j]
                for k in range(d + 1):
                    system[j, k] += weight * row[j] * row[k]
        z = mpmath.lu_solve(system, right)
        return np.array([float(sum(z[j] * mpmath.mpf(float(v)) for j, v in enumerate(row)) + z[d]) for row in test])


def side_weights(scheme, positive, negative):
    total = positive + negative
    return {
        None: (1.0, 1.0),
        "inverse": (1 / positive, 1 / negative),
        "complement": (negative / total, positive / total),
        "balanced": (total / (2 * positive), total / (2 * negative)),
    }[scheme]


def blobs(seed=0, n=60, d=3, classes=3, offset=0.0):
    generator = np.random.default_rng(seed)
    y = generator.integers(0, classes, n)
    centres = generator.normal(scale=2.0, size=(classes, d))
    return generator.normal(size=(n, d)) + centres[y] + offset, y


def assert_same_knowledge(one, other, tolerance=1e-9):
    """Assert equal classes and counts, and equal sums and Gram matrices per row about the same point."""
    assert one.labels == other.labels
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_allclose(one.counts, other.counts, rtol=1e-12)
    if not one.labels:
        return
    anchor, total = other.about().anchor, other.counts.sum()
    one, other = one.about(anchor), other.about(anchor)
    np.testing.assert_allclose(one.sums / total, other.sums / total, atol=tolerance)
    for mine, theirs in zip(one.grams, other.grams, strict=True):
        np.testing.assert_allclose(mine / total, theirs / total, atol=tolerance)


def assert_same_scores(one, other, X, tolerance=1e-9, **options):
    a, b = ms.solve(one, **options).scores(X), ms.solve(other, **options).scores(X)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, np.abs(b).max()))
