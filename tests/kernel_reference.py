"""Independent kernels and dual solvers, against which the kernel method is tested."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel

from mergesvm.models.kernel_function import Kernel

KERNELS = [Kernel("rbf", 0.3), Kernel("linear"), Kernel("poly", 0.7, 3, 0.5)]


def normal_rows(n, d=5, seed=0):
    """Rows of standard normal values."""
    return np.random.default_rng(seed).normal(size=(n, d))


def kernel_matrix(kernel, X, Z, gamma=1.0, degree=3, coef0=0.0):
    """Kernel values between rows, by scikit-learn."""
    if callable(kernel):
        return kernel(X, Z)
    if kernel == "rbf":
        return rbf_kernel(X, Z, gamma)
    if kernel == "sigmoid":
        return sigmoid_kernel(X, Z, gamma, coef0)
    return linear_kernel(X, Z) if kernel == "linear" else polynomial_kernel(X, Z, degree, gamma, coef0)


def dual_objective(K, y, alpha, penalty=0.0):
    """sum(alpha) - alpha'Q alpha/2 - penalty (y'alpha)^2/2, with Q = y y' * K."""
    signed = y * alpha
    return alpha.sum() - signed @ K @ signed / 2 - penalty * signed.sum() ** 2 / 2


def primal_objective(K, y, alpha, bound, intercept, penalty=0.0):
    """|w|^2/2 + b^2/(2 penalty) + sum(bound * hinge loss): an upper bound of the dual objective for any alpha and b."""
    signed = y * alpha
    loss = bound @ np.maximum(0, 1 - y * (K @ signed + intercept))
    return signed @ K @ signed / 2 + (intercept**2 / (2 * penalty) if penalty else 0.0) + loss


def optimum(K, y, bound, penalty):
    """Alpha that maximises the dual objective, by an active-set method; exact, for some dozens of rows.

    Alpha at a bound is fixed. The free ones step to their joint optimum, or to the first bound on the way, which fixes
    one more. At the joint optimum the fixed alpha with the largest gradient becomes free.
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
            step = step if whole else flat  # the objective is unbounded along a direction without curvature
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
        gains = np.where(alpha > 0, -gradient, gradient)
        gains[free | (bound == 0)] = -np.inf
        if gains.max() < 1e-9:
            return alpha
        free[np.argmax(gains)] = True
    return alpha


def signed_alphas(classifier, rows):
    """y alpha of all rows of a classifier of two classes, including zeros."""
    signed = np.zeros(rows)
    signed[classifier.support_] = classifier.dual_coef_[0]
    return signed


def pair_objectives(svc):
    """The dual objective of an SVC, summed over all pairs, from its dual variables."""
    X, ends, total = svc.support_vectors_, np.cumsum(svc.n_support_), 0.0
    kernel, dual = SVC_KERNELS[svc.kernel](X, svc), _dense(svc.dual_coef_)
    spans = [slice(end - count, end) for end, count in zip(ends, svc.n_support_, strict=True)]
    for i in range(len(ends)):
        for j in range(i + 1, len(ends)):
            coefs = np.zeros(len(kernel))
            coefs[spans[i]], coefs[spans[j]] = dual[j - 1, spans[i]], dual[i, spans[j]]
            total += np.abs(coefs).sum() - coefs @ kernel @ coefs / 2
    return total


def _dense(X):
    return X.toarray() if sparse.issparse(X) else X


def _rbf(X, svc):
    X = _dense(X)
    return np.exp(-svc._gamma * ((X[:, None] - X) ** 2).sum(axis=2))


SVC_KERNELS = {
    "rbf": _rbf,
    "linear": lambda X, _: _dense(X) @ _dense(X).T,
    "sigmoid": lambda X, svc: np.tanh(svc._gamma * _dense(X) @ _dense(X).T + svc.coef0),
    "poly": lambda X, svc: (svc._gamma * _dense(X) @ _dense(X).T + svc.coef0) ** svc.degree,
}


def assert_same_as_svc(classifier, svc, X, atol=1e-4):
    """Assert the same objective, support vectors, scores and classes."""
    np.testing.assert_allclose(classifier.objective_, pair_objectives(svc), rtol=1e-6)
    used = np.zeros(X.shape[0], dtype=bool)
    used[classifier.support_] = np.abs(classifier.dual_coef_).max(axis=0) > 1e-6
    theirs = np.zeros(X.shape[0], dtype=bool)
    theirs[svc.support_] = np.abs(_dense(svc.dual_coef_)).max(axis=0) > 1e-6
    np.testing.assert_array_equal(used, theirs)
    sign = 1 if len(svc.classes_) == 2 else -1  # the sign of SVC depends on the number of classes
    scores = svc.set_params(decision_function_shape="ovo").decision_function(X).reshape(X.shape[0], -1)
    np.testing.assert_allclose(classifier.model_.scores(X), sign * scores, atol=atol)
    np.testing.assert_allclose(classifier.intercept_, svc.intercept_, atol=atol)
    np.testing.assert_array_equal(classifier.predict(X), svc.predict(X))
    np.testing.assert_array_equal(classifier.classes_, svc.classes_)
