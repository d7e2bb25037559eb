"""Block updates of recursive least squares by the Woodbury identity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, solve_triangular

from mergesvm.methods.proximal.factor import EPSILON, small_blas
from mergesvm.methods.recursive.normal_equations import Vector
from mergesvm.methods.recursive.rls_state import RLSState
from mergesvm.methods.recursive.state_layout import (
    ANCHOR,
    INVERSE_MEAN,
    MEAN,
    MIN_REMAINING,
    ROUNDING,
    TOTAL_WEIGHT,
)


def woodbury_update(state: RLSState, block: Vector, codes: NDArray[np.int64], weights: Vector, sign: int) -> bool:
    """Add a block of rows (sign 1) or subtract it (sign -1); the state has no pending updates.

    About their own mean the rows change the scatter by their own scatter, and by the distance of that mean from the
    mean of the other rows, which is one more row.

    Returns
    -------
    bool
        False, with the state unchanged, if the result would be inaccurate.
    """
    width = state.width
    added, before = float(weights.sum()), float(state.scalars[TOTAL_WEIGHT])
    after = before + sign * added
    if added == 0:
        return True
    if not after > MIN_REMAINING * max(before, added) or before == 0:
        return False
    block = block - state.vectors[ANCHOR, :width]
    mean, target_means = state.vectors[MEAN, :width], state.target_means
    targets = np.where(codes[:, None] == np.arange(len(state.class_rows)), 1.0, -1.0)
    own, own_targets = weights @ block / added, weights @ targets / added
    # The other rows: those before the update, or those that remain.
    other = mean if sign > 0 else (before * mean - added * own) / after
    other_targets = target_means if sign > 0 else (before * target_means - added * own_targets) / after
    root = np.sqrt(weights)[:, None]
    between = np.sqrt((before if sign > 0 else after) * added / (before + added if sign > 0 else before))
    changes = np.zeros((len(block) + 1, state.coefs.shape[1]))
    changes[:-1, :width] = root * (block - own)
    changes[-1, :width] = between * (own - other)
    errors = np.vstack([root * (targets - own_targets), between * (own_targets - other_targets)])
    errors -= changes @ state.coefs.T
    with small_blas(width):
        if not _change(state, changes, errors, sign):
            return False
        state.vectors[MEAN, :width] = (before * mean + sign * added * own) / after
        state.target_means = (before * target_means + sign * added * own_targets) / after
        total_mean = state.vectors[ANCHOR] + state.vectors[MEAN]
        state.vectors[INVERSE_MEAN] = blas.dsymv(1.0, state.inverse.T, total_mean, lower=1)
    state.scalars[TOTAL_WEIGHT] = after
    state.fill_diagonal_squares()
    return True


def _change(state: RLSState, changes: Vector, errors: Vector, sign: int) -> bool:
    """Change inverse and coefficients by rows about the mean, with their errors; False if it is not definite."""
    # The transpose is in the order of BLAS; its lower triangle is the upper one here.
    gains = blas.dsymm(1.0, state.inverse.T, changes.T, lower=1).T
    core = sign * (gains @ changes.T)
    core[np.diag_indices_from(core)] += 1.0
    try:
        lower = np.linalg.cholesky(core)
    except np.linalg.LinAlgError:
        return False
    pivots = lower.diagonal() ** 2
    least, most = float(pivots.min()), float(pivots.max())
    state.scalars[ROUNDING] = (state.scalars[ROUNDING] + EPSILON) / min(1.0, least) + EPSILON * max(most, 1 / least)
    half = solve_triangular(lower, np.hstack([gains, errors]), lower=True, check_finite=False)
    gains, errors = np.ascontiguousarray(half[:, : gains.shape[1]]), half[:, gains.shape[1] :]
    blas.dsyrk(-float(sign), gains.T, beta=1.0, c=state.inverse.T, lower=1, overwrite_c=1)
    state.coefs += sign * (errors.T @ gains)
    return True
