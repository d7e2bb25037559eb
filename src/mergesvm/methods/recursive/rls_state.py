"""The arrays of recursive least squares, and block updates of them by the Woodbury identity."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, solve_triangular

from mergesvm.methods.proximal.factor import EPSILON, small_blas
from mergesvm.methods.recursive.normal_equations import FreshSolution
from mergesvm.methods.recursive.state_layout import (
    ANCHOR,
    INVERSE_MEAN,
    LANES,
    MAX_PENDING,
    MEAN,
    MIN_REMAINING,
    N_PENDING,
    RIDGE,
    RIDGE_CURSOR,
    ROUNDING,
    SCALE,
    TOTAL_WEIGHT,
    Vector,
    WritableArrays,
)


class RLSState(WritableArrays):
    """The inverse, the coefficients and the means, which compiled functions update in place.

    Arrays are padded to a multiple of ``LANES``; ``ridge`` is the penalty on each coefficient.

    Attributes
    ----------
    inverse : array of shape (padded, padded)
        The upper triangle of P, with full squares of ``LANES`` along the diagonal, without the pending updates.
    pending, signs : arrays of shape (MAX_PENDING, padded) and (MAX_PENDING,)
        Rank-one updates not yet written into the inverse.
    coefs : array of shape (classes, padded)
        W, without the penalty on the intercept.
    target_means, class_weights : arrays of shape (classes,)
    class_rows : array of int, shape (classes,)
    vectors, scalars, counters : arrays
        See :mod:`mergesvm.methods.recursive.state_layout`.
    """

    def __init__(self, width: int, ridge: float) -> None:
        self.width = width
        self.coefs = np.zeros((0, -(-width // LANES) * LANES))
        self.target_means, self.class_weights = np.zeros(0), np.zeros(0)
        self.class_rows = np.zeros(0, dtype=np.int64)
        self.counters = np.zeros(RIDGE_CURSOR + 1, dtype=np.int64)
        self.vectors = np.zeros((RIDGE + 1, self.coefs.shape[1]))
        self.vectors[RIDGE], self.vectors[RIDGE, :width] = np.inf, ridge
        self.reset()

    def reset(self) -> None:
        """Return to the state before the first row; classes and penalty stay."""
        self.inverse = np.diag(1 / self.vectors[RIDGE])
        self.pending, self.signs = np.zeros((MAX_PENDING, self.coefs.shape[1])), np.ones(MAX_PENDING)
        self.scalars = np.zeros(ROUNDING + 1)
        self.scalars[SCALE] = 1.0
        self.counters[N_PENDING] = 0
        self.coefs[:], self.vectors[:RIDGE] = 0.0, 0.0
        self.target_means[:] = -1.0

    def add_class(self, class_weight: float) -> None:
        """Add a class without rows: its target has been -1 so far."""
        self.coefs = np.vstack([self.coefs, np.zeros((1, self.coefs.shape[1]))])
        self.target_means = np.append(self.target_means, -1.0)
        self.class_weights = np.append(self.class_weights, class_weight)
        self.class_rows = np.append(self.class_rows, 0)

    def load(self, fresh: FreshSolution) -> None:
        """Take coefficients and means from a fresh solution; the inverse stays as it is."""
        self.scalars[:], self.counters[N_PENDING] = 0.0, 0
        self.scalars[SCALE], self.scalars[TOTAL_WEIGHT] = 1.0, fresh.total_weight
        self.coefs[:, : self.width] = fresh.coefs
        for line, value in ((ANCHOR, fresh.anchor), (MEAN, fresh.mean), (INVERSE_MEAN, fresh.inverse_mean)):
            self.vectors[line, : self.width] = value
        self.target_means[:] = fresh.target_means

    @property
    def ridge(self) -> Vector:
        """The penalty on each coefficient, (width,)."""
        return self.vectors[RIDGE, : self.width]

    @property
    def mean(self) -> Vector:
        """The weighted mean of the rows, (width,)."""
        mean: Vector = self.vectors[ANCHOR, : self.width] + self.vectors[MEAN, : self.width]
        return mean

    def arrays(self) -> tuple[Any, ...]:
        """The arrays, in the order in which compiled functions take them."""
        inverse, classes = (self.inverse, self.pending, self.signs), (self.target_means, self.class_rows)
        return self.class_weights, *inverse, self.coefs, self.vectors, *classes, self.scalars, self.counters

    def write_pending(self) -> None:
        """Write the pending updates into the upper triangle, as the compiled function does."""
        lines = self.pending[: int(self.counters[N_PENDING])]
        if len(lines):
            self.inverse -= (lines * self.signs[: len(lines), None]).T @ lines
        self.inverse *= self.scalars[SCALE]
        self.scalars[SCALE], self.counters[N_PENDING] = 1.0, 0

    def fill_diagonal_squares(self) -> None:
        """Copy the upper triangle of each diagonal block to its lower triangle."""
        first = np.arange(0, len(self.inverse), LANES)
        for line in range(LANES):
            for column in range(line):
                self.inverse[first + line, first + column] = self.inverse[first + column, first + line]

    def decay_ridge(self, n_rows: int, forgetting: float, restored: int, ridge: float) -> None:
        """Apply exponential forgetting to the penalty, of which ``restored`` coordinates per row are reset."""
        # Steps before the last full turn have no effect.
        skipped = max(0, n_rows - -(-self.width // restored))
        self.counters[RIDGE_CURSOR] = (int(self.counters[RIDGE_CURSOR]) + skipped * restored) % self.width
        for _ in range(n_rows - skipped):
            self.ridge[:] *= forgetting
            at = (int(self.counters[RIDGE_CURSOR]) + np.arange(restored)) % self.width
            self.ridge[at] = ridge
            self.counters[RIDGE_CURSOR] = (self.counters[RIDGE_CURSOR] + restored) % self.width

    def coefficients(self, intercept_penalty: float) -> tuple[Vector, Vector]:
        """Coefficients, (classes, width), and scores at the mean, (classes,).

        ``intercept_penalty`` is C, infinity for a free intercept, or 0 for an intercept of 0.
        """
        inverse_mean = self.vectors[INVERSE_MEAN, : self.width]
        coefs, offsets = self.coefs[:, : self.width].copy(), self.target_means.copy()
        total = float(self.scalars[TOTAL_WEIGHT])
        if total > 0 and np.isfinite(intercept_penalty):
            mean = self.mean
            correction = (offsets - coefs @ mean) / (intercept_penalty + mean @ inverse_mean + 1 / total)
            coefs += correction[:, None] * inverse_mean
            offsets -= correction / total
        return coefs, offsets


def woodbury_update(state: RLSState, block: Vector, codes: NDArray[np.int64], weights: Vector, sign: int) -> bool:
    """Add a block of rows (sign 1) or subtract it (sign -1); the state has no pending updates.

    About their own mean the rows change the scatter by their own scatter, and by the distance of that mean from the
    mean of the other rows, which is one more row. Returns False, with the state unchanged, if the result would be
    inaccurate.
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
