"""Interior-point solution of dual problems on which sequential minimal optimisation (SMO) does not converge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack

from mergesvm.engines.threads import Threads
from mergesvm.methods.kernel.stats import TINY

MAX_ITERATIONS = 100
"""Each iteration factors the kernel matrix once; usually 15 to 40 are enough."""

MAX_IDLE_ITERATIONS, MIN_RELATIVE_GAP = 3, 1e-9
"""Below this relative duality gap the method stops after this number of iterations that have not halved the violation:
rounding limits it."""

FRACTION_TO_BOUNDARY = 0.99
"""A step goes at most this fraction of the way to the nearest bound."""

MIN_STEP = 1e-12
"""The method stops at a step of less than this fraction."""

RELATIVE_RIDGE = 1e-15
"""Added to the diagonal, relative to its largest element: rounding makes small eigenvalues of a kernel negative."""

MAX_RELATIVE_RANK = 1 / 4
"""A kernel matrix of at most this rank, relative to its rows, is replaced by its factor."""

MAX_RIDGE_TRIALS = 6
"""The ridge is multiplied by 100 this often before the kernel matrix counts as indefinite."""

Array = NDArray[np.float64]


@dataclass
class _Iterate:
    """A point between the bounds, with the multipliers of both bounds and of the sum."""

    x: Array  # y alpha
    below: Array  # distances from the lower bounds
    above: Array  # distances from the upper bounds
    low: Array  # multipliers of the lower bounds
    high: Array  # multipliers of the upper bounds
    intercept: float = 0.0

    @property
    def complementarity(self) -> float:
        """The mean product of a distance and its multiplier, which is zero at the optimum."""
        return float(self.below @ self.low + self.above @ self.high) / (2 * len(self.x))

    def moved(self, step: _Iterate, length: float) -> _Iterate:
        """The point after a fraction of a step."""
        return _Iterate(*(getattr(self, name) + length * getattr(step, name) for name in self.__dataclass_fields__))

    def longest(self, step: _Iterate) -> float:
        """The largest fraction of a step, at most 1, that keeps distances and multipliers positive."""
        longest = 1.0
        for name in ("below", "above", "low", "high"):
            now, change = getattr(self, name), getattr(step, name)
            shrinking = change < 0
            if shrinking.any():
                longest = min(longest, FRACTION_TO_BOUNDARY * float((-now[shrinking] / change[shrinking]).min()))
        return longest


@dataclass(frozen=True)
class _Problem:
    """Minimise x'Kx / 2 - linear'x over lower <= x <= upper, and sum(x) = total unless that is None."""

    K: Array
    linear: Array
    lower: Array
    upper: Array
    total: float | None

    @property
    def largest(self) -> float:
        """The largest diagonal element of K."""
        return max(float(self.K.diagonal().max(initial=0.0)), TINY)

    @property
    def slope(self) -> float:
        """The size of the gradient at zero."""
        return max(1.0, float(np.abs(self.linear).max(initial=0.0)))

    def solve(self, size: float, tolerance: float) -> Array | None:
        """The point with the least violation on the way from values of ``size``; None if there is none."""
        point, best, least, idle = self._start(size), None, np.inf, 0
        for _ in range(MAX_ITERATIONS):
            gradient = self.K @ point.x - self.linear
            snapped = self._snapped(point)
            violation = np.inf if snapped is None else self._violation(snapped)
            gap, objective = 2 * len(gradient) * point.complementarity, float(point.x @ (self.linear - gradient)) / 2
            idle = idle + 1 if gap <= MIN_RELATIVE_GAP * abs(objective) and violation > least / 2 else 0
            if violation < least:
                best, least = snapped, violation
            if least <= tolerance or idle > MAX_IDLE_ITERATIONS:
                break
            step = self._step(point, gradient)
            length = 0.0 if step is None else point.longest(step)
            if step is None or length < MIN_STEP:
                break
            point = point.moved(step, length)
        return best

    def _start(self, size: float) -> _Iterate:
        """The middle between the bounds or, if they are far apart, a point at a distance of ``size`` from zero."""
        width, positive = self.upper - self.lower, self.lower == 0
        near = np.minimum(width / 2, size)
        below, above = np.where(positive, near, width - near), np.where(positive, width - near, near)
        complementarity = self.slope * float(near.mean())
        return _Iterate(self.lower + below, below, above, complementarity / below, complementarity / above)

    def _step(self, point: _Iterate, gradient: Array) -> _Iterate | None:
        """The step of Mehrotra's predictor and corrector; None if the matrix is not positive definite."""
        inverse = self._inverse(point.low / point.below + point.high / point.above)
        if inverse is None:
            return None
        residual = -(gradient + point.intercept - point.low + point.high)
        missing = 0.0 if self.total is None else self.total - float(point.x.sum())
        ones = None if self.total is None else inverse(np.ones(len(gradient)))

        def solve(low: Array, high: Array) -> _Iterate:
            x = inverse(residual + low / point.below - high / point.above)
            intercept = 0.0 if ones is None else float((x.sum() - missing) / ones.sum())
            x = x if ones is None else x - intercept * ones
            multipliers = (low - point.low * x) / point.below, (high + point.high * x) / point.above
            return _Iterate(x, x, -x, *multipliers, intercept)

        low, high, now = -point.below * point.low, -point.above * point.high, point.complementarity
        predicted = solve(low, high)
        reached = point.moved(predicted, point.longest(predicted)).complementarity
        target = now * (reached / now) ** 3
        step = solve(low + target - predicted.below * predicted.low, high + target - predicted.above * predicted.high)
        return step if np.isfinite(step.x).all() else None

    @cached_property
    def _low_rank(self) -> Array | None:
        """L with K = L L' up to rounding, if it has few columns: a linear kernel, or a polynomial of few features."""
        n_rows, rounding = len(self.K), len(self.K) * RELATIVE_RIDGE * self.largest
        factor, pivots, rank, _ = lapack.dpstrf(self.K, tol=rounding, lower=1)
        if rank > MAX_RELATIVE_RANK * n_rows:
            return None
        L = np.empty((n_rows, rank))
        L[pivots - 1] = np.tril(factor)[:, :rank]
        left = np.abs(self.K.diagonal() - (L**2).sum(axis=1)).max(initial=0.0)
        return L if left <= 10 * rounding else None  # more is left of an indefinite kernel

    def _inverse(self, diagonal: Array) -> Callable[[Array], Array] | None:
        """Multiplication by the inverse of K plus a diagonal; None if that is not positive definite."""
        if self._low_rank is not None:
            return _low_rank_inverse(self._low_rank, diagonal)
        factor = self._factor(diagonal)
        return None if factor is None else lambda side: np.asarray(cho_solve(factor, side, check_finite=False))

    def _factor(self, diagonal: Array) -> Any:
        """The Cholesky factor of K plus a diagonal, with the smallest ridge that allows it; None if none does."""
        ridge = RELATIVE_RIDGE * self.largest
        for _ in range(MAX_RIDGE_TRIALS):
            matrix = self.K.copy()
            matrix[np.diag_indices_from(matrix)] += diagonal + ridge
            try:
                return cho_factor(matrix, overwrite_a=True, check_finite=False)
            except LinAlgError:
                ridge *= 100
        return None

    def _snapped(self, point: _Iterate) -> Array | None:
        """The point with values next to a bound set to the bound, and the sum restored; None if that is impossible."""
        unit = max(1.0, float((point.low + point.high).max(initial=0.0)))
        size = np.minimum(self.upper - self.lower, np.abs(point.x).max(initial=0.0))
        at_lower = point.below / size < point.low / unit
        at_upper = ~at_lower & (point.above / size < point.high / unit)
        x = np.where(point.below < point.above, self.lower + point.below, self.upper - point.above)
        x = np.where(at_lower, self.lower, np.where(at_upper, self.upper, x))
        if self.total is None:
            return x
        room = np.where(at_lower | at_upper, 0.0, np.minimum(point.below, point.above))
        missing, available = self.total - float(x.sum()), float(room.sum())
        if abs(missing) > available:
            return None
        return x + missing * (room / available) if available else x

    def _violation(self, x: Array) -> float:
        """The largest violation of the optimality conditions."""
        v = self.linear - self.K @ x
        high = float(v[x < self.upper].max(initial=-np.inf))
        low = float(v[x > self.lower].min(initial=np.inf))
        return max(high, -low, 0.0) if self.total is None else max(high - low, 0.0)


def _low_rank_inverse(L: Array, diagonal: Array) -> Callable[[Array], Array] | None:
    """Multiplication by the inverse of L L' plus a diagonal, in O(n) for each column of L; None if it is not finite.

    With D the diagonal and the singular values of D^-1/2 L = U S V' ::

        (D + L L')^-1 = D^-1/2 (1 - U U' + U (1 + S^2)^-1 U') D^-1/2

    >>> L, diagonal = np.array([[1.0], [2.0]]), np.array([1e-3, 1e3])
    >>> L @ L.T @ (x := _low_rank_inverse(L, diagonal)(np.array([1.0, 3.0]))) + diagonal * x
    array([1., 3.])
    """
    roots = 1 / np.sqrt(diagonal)
    try:
        U, sizes, _ = np.linalg.svd(roots[:, None] * L, full_matrices=False)
    except np.linalg.LinAlgError:
        return None
    inverses = 1 / (1 + sizes**2)

    def multiply(side: Array) -> Array:
        scaled = roots * side
        along = U.T @ scaled
        rest = scaled - U @ along
        rest -= U @ (U.T @ rest)  # what rounding has left, which the large singular values would amplify
        product: Array = roots * (rest + U @ (inverses * along))
        return product

    return multiply


def maximise_dual(
    K: NDArray[Any], y: Array, v: Array, alpha: Array, bound: Array, total: float, penalty: float, tolerance: float
) -> bool:
    """Maximise the dual objective over the alpha of some rows, in place, by a primal-dual interior-point method.

    The arguments are those of :func:`mergesvm.methods.kernel.jit.smo.smo`: v = y - f, and ``total`` is y'alpha over all
    rows of the problem. The number of iterations (Mehrotra, 1992) does not depend on the condition of the kernel
    matrix, but each takes n^3 / 3 multiplications. Returns whether the objective has increased; otherwise, as with an
    indefinite kernel, nothing changes.

    For two rows at distance 1 with the kernel exp(-1) between them, alpha (1 - exp(-1)) = 1:

    >>> K, y, alpha = np.array([[1.0, np.exp(-1)], [np.exp(-1), 1.0]]), np.array([-1.0, 1.0]), np.zeros(2)
    >>> maximise_dual(K, y, y.copy(), alpha, np.full(2, 9.0), 0.0, -1.0, 1e-9), alpha.round(3)
    (True, array([1.582, 1.582]))
    """
    rows = np.flatnonzero(bound > 0)
    before = y[rows] * alpha[rows]
    matrix, own_v = K[np.ix_(rows, rows)].astype(np.float64), v[rows] + 0.0
    if penalty >= 0:
        matrix += penalty
        own_v -= penalty * total  # the penalty acts as a constant feature, whose score is the intercept
    else:  # with a constant y'alpha, the objective does not depend on the origin of the feature space
        means = matrix.mean(axis=0)
        matrix -= means[:, None] + (means - means.mean())
    problem = _Problem(
        matrix,
        own_v + matrix @ before,
        np.where(y[rows] > 0, 0.0, -bound[rows]),
        np.where(y[rows] > 0, bound[rows], 0.0),
        float(before.sum()) if penalty < 0 else None,
    )
    size = 10 * float(np.abs(before).max(initial=0.0)) or np.inf
    with Threads.single_threaded_blas():  # its other threads would compete with those that solve other problems
        for start in (size, problem.slope / problem.largest):
            found = problem.solve(start, tolerance)
            change = before if found is None else found - before
            if found is not None and float(change @ (own_v - matrix @ change / 2)) > 0:
                alpha[rows] = np.clip(y[rows] * found, 0.0, bound[rows])
                v -= K[:, rows] @ (y[rows] * alpha[rows] - before)
                return True
    return False
