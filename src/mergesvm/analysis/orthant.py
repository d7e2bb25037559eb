"""The probability that several jointly normal numbers are all above zero."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

Numbers = NDArray[np.float64]

ROOT = float(np.log(2 * np.pi) / 2)


def all_above(means: Numbers, covariances: Numbers) -> Numbers:
    """P(z_1 > 0, ..., z_q > 0) for normal z, of many means (..., q) and covariances (..., q, q) at once.

    One number after the other, the least likely first: P(z_j > 0) is that of a normal, and the others given it are
    taken as normal again, of the mean and covariance they then have (Mendell and Elston, Biometrics 30, 1974). Exact
    for one number and for independent ones; else it errs by about a hundredth at most. It is smooth, where draws are
    not, so that small differences are those of the models.

    >>> all_above(np.zeros(2), np.eye(2))
    array(0.25)
    >>> all_above(np.array([1.0, 0.0]), np.array([[0.0, 0.0], [0.0, 0.0]]))  # half of what lies on the border
    array(0.5)
    """
    width = means.shape[-1]
    # Turned, so that each step goes through memory in order.
    mean = means.reshape(-1, width).T
    spread = covariances.reshape(-1, width, width).transpose(1, 2, 0)
    every = np.arange(mean.shape[1])
    with np.errstate(all="ignore"):
        order = np.argsort(mean / np.sqrt(np.einsum("iib->ib", spread)), axis=0)
    mean = mean[order, every]
    spread = spread[order[:, None], order[None], every]
    total = np.zeros(mean.shape[1])
    for first in range(width):
        variance, z = spread[first, first], mean[first]
        with np.errstate(all="ignore"):
            # What does not vary is above zero, or not, and tells nothing of the others.
            inverse = np.where(variance > 0, 1 / np.sqrt(variance), 0.0)
            z = np.where(variance > 0, z * inverse, np.where(z == 0, 0.0, np.copysign(np.inf, z)))
            share = log_ndtr(z)
            total += share
            if first + 1 == width:
                break
            hazard = np.exp(-z * z / 2 - ROOT - share)
            hazard = np.where(np.isfinite(hazard) & (variance > 0), hazard, 0.0)
            shrunk = np.where(hazard > 0, hazard * (hazard + z), 0.0)
        slope = spread[first + 1 :, first] * inverse
        mean[first + 1 :] += slope * hazard
        spread[first + 1 :, first + 1 :] -= (slope * shrunk)[:, None] * slope
    found: Numbers = np.exp(total).reshape(means.shape[:-1])
    return found


def highest(means: Numbers, covariances: Numbers, compiled: bool = False) -> Numbers:
    """The probability that of several jointly normal scores, one a class, that of the true class is the highest.

    ``means`` (..., classes, classes) of the scores within each class, ``covariances`` (..., classes, classes, classes),
    or (..., 1, classes, classes) where all classes have the same. Returns (..., classes).

    >>> highest(np.eye(2), np.full((1, 2, 2), 0.5) * np.eye(2)).round(4)  # P(z > 0) of mean 1 and variance 1
    array([0.8413, 0.8413])
    """
    n_classes = means.shape[-1]
    if compiled:
        from mergesvm.analysis.pieces import jit as stack_kernels

        found = np.empty(means.shape[:-1])
        stack_kernels.highest(
            np.ascontiguousarray(means).reshape(-1, n_classes, n_classes),
            np.ascontiguousarray(covariances).reshape(-1, *covariances.shape[-3:]),
            found.reshape(-1, n_classes),
        )
        return found
    rivals = np.array([[other for other in range(n_classes) if other != place] for place in range(n_classes)])
    own = np.arange(n_classes)[:, None]
    within = own if covariances.shape[-3] > 1 else np.zeros_like(own)
    gaps = means[..., own, own] - means[..., own, rivals]
    shared = covariances[..., within, own, rivals]
    spread = covariances[..., within[:, None], rivals[:, :, None], rivals[:, None]]
    spread += covariances[..., within, own, own][..., None] - shared[..., None] - shared[..., None, :]
    return all_above(gaps, spread)
