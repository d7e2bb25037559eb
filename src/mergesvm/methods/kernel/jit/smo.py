"""Compiled sequential minimal optimisation (SMO) of small dual problems.

The dual problem of two classes is to maximise sum(alpha) - alpha' Q alpha / 2 - penalty (y'alpha)^2 / 2 subject to
0 <= alpha <= bound, with Q = y y' * K; a negative penalty stands for the constraint y'alpha = 0, as in LIBSVM. The
functions work with v = y - f, where f = K (y alpha) are the scores; v is -y times the gradient that LIBSVM keeps. With
the intercept b, y alpha should increase where v > b, and decrease where v < b, as far as the bounds allow. I_up are the
rows whose y alpha may increase, I_low those whose y alpha may decrease.

All functions release the GIL. Array indices are unsigned: numba then omits the test for negative indices.
"""

from __future__ import annotations

import numpy as np
from numba import uint64
from numba.extending import intrinsic

from mergesvm.jit import compiled
from mergesvm.models.kernel_function import MAX_UNCACHED_COLUMNS
from mergesvm.models.kernel_values_jit import kernel_diagonal, kernel_matrix, kernel_row

NO_NAN_MATH = {"reassoc", "contract", "nsz", "nnan"}
"""Compiler flags: sums may be reordered, and no value is NaN, because rows and kernel values have been checked."""

BLOCK = 64
"""Values are reduced in blocks of this size; only the block with the best value is then searched for its position."""

MIN_RELATIVE_CURVATURE, MIN_CURVATURE = 1e-12, 1e-30
"""Lower limits of the curvature along a step: relative to the kernel's diagonal, and absolute where that is zero."""

BOUND_TOLERANCE = 1e-12
"""An alpha within this relative distance from a bound is set to the bound."""


@compiled(inline="always")
def best_step(slope, curvature, low, high):  # type: ignore[no-untyped-def] # pragma: no cover
    """Maximise slope d - curvature d^2 / 2 over low..high; an indefinite kernel may have no positive curvature."""
    if curvature > 0:
        return min(max(slope / curvature, low), high)
    return high if slope * (high - low) > curvature * (high * high - low * low) / 2 else low


@compiled(inline="always")
def best_pair_step(own, other, cross, first, second, low, high, below, above):  # type: ignore[no-untyped-def] # pragma: no cover
    """Maximise first d + second e - (own d^2 + 2 cross d e + other e^2) / 2 over low..high and below..above."""
    determinant = own * other - cross * cross
    if own > 0 and determinant > MIN_RELATIVE_CURVATURE * own * other:
        d = (first * other - second * cross) / determinant
        e = (second * own - first * cross) / determinant
        if low <= d <= high and below <= e <= above:
            return d, e
    best, d, e = -1.0, 0.0, 0.0
    for edge in range(4):
        if edge < 2:
            x = low if edge == 0 else high
            y = best_step(second - cross * x, other, below, above)
        else:
            y = below if edge == 2 else above
            x = best_step(first - cross * y, own, low, high)
        gain = first * x + second * y - (own * x * x + 2 * cross * x * y + other * y * y) / 2
        if gain > best:
            best, d, e = gain, x, y
    return d, e


def _selection(comparison):  # type: ignore[no-untyped-def]
    @intrinsic
    def select(context, one, other):  # type: ignore[no-untyped-def] # noqa: ARG001
        def generate(_, builder, signature, values):  # type: ignore[no-untyped-def] # noqa: ARG001
            wins = builder.fcmp_ordered(comparison, *values, flags=("nnan", "nsz"))
            return builder.select(wins, *values, flags=("nnan", "nsz"))

        return one(one, one), generate

    return select


larger, smaller = _selection(">"), _selection("<")  # type: ignore[no-untyped-call]
"""max and min without NaN handling, which the compiler can vectorise."""


@compiled
def solve_subproblem(K, sign, v, alpha, bound, total, penalty, tolerance, max_steps):  # type: ignore[no-untyped-def] # pragma: no cover
    """Solve the dual problem for rows with kernel matrix K; see :func:`smo`."""
    diagonal = np.empty(sign.size, K.dtype)  # contiguous: reading it from K would touch one cache line per row
    for t in range(sign.size):
        diagonal[t] = K[t, t]
    kernel = (0, 0.0, 0, 0.0)
    return smo(K, diagonal, K[:0], kernel, sign, v, alpha, bound, total, penalty, tolerance, max_steps)


@compiled
def solve_subproblems(  # type: ignore[no-untyped-def]
    starts, positions, rows, kernel, sign, v, alpha, bound, totals, penalty, tolerances, max_steps_per_row, unsolved
):  # pragma: no cover
    """Solve many dual problems one after another, in place, from the current alpha.

    Problem k has the entries starts[k] to starts[k + 1]; entry t is the lifted dense row positions[t]. ``unsolved``
    tells which problems need more steps.
    """
    largest = 0
    for k in range(starts.size - 1):
        largest = max(largest, starts[k + 1] - starts[k])
    width = rows.shape[1]
    matrix_buffer, column_buffer = np.empty(largest * largest, rows.dtype), np.empty(largest * width, rows.dtype)
    for k in range(starts.size - 1):
        begin, end = starts[k], starts[k + 1]
        size = end - begin
        if size == 0:
            continue
        here, max_steps = (sign[begin:end], v[begin:end], alpha[begin:end], bound[begin:end]), max_steps_per_row * size
        if width > MAX_UNCACHED_COLUMNS:
            K = kernel_matrix(rows[positions[begin:end]], kernel)
            steps = solve_subproblem(K, *here, totals[k], penalty, tolerances[k], max_steps)
            unsolved[k] = steps == max_steps
            continue
        K = matrix_buffer[: size * size].reshape(size, size)
        columns = column_buffer[: width * size].reshape(width, size)
        for t in range(size):
            for d in range(width):
                columns[d, t] = rows[positions[begin + t], d]
        matrix = K, kernel_diagonal(columns, kernel), columns, kernel
        unsolved[k] = smo(*matrix, *here, totals[k], penalty, tolerances[k], max_steps) == max_steps


@compiled
def smo(K, diagonal, columns, kernel, sign, v, alpha, bound, total, penalty, tolerance, max_steps):  # type: ignore[no-untyped-def] # pragma: no cover
    """Solve a dual problem by SMO with second-order working-set selection, in place; returns the number of steps.

    Unless ``columns``, the transposed lifted rows, are empty, rows of K are computed when they are first needed.

    Each step changes two dual variables: that of the worst violator, and that of the row with which it gains most
    (Fan, Chen and Lin, 2005). With ``penalty`` < 0, y'alpha stays constant. Otherwise it costs
    ``penalty`` (y'alpha)^2 / 2, where ``total`` is y'alpha over all rows of the problem; both steps are then optimised
    together, because coordinate steps are slow along a steep penalty. At the end no violation exceeds ``tolerance``.
    """
    count, constrained = sign.size, penalty < 0
    missing, zeros = np.full(count, columns.shape[0] > 0), np.zeros(count, K.dtype)
    not_up, not_low, gains = np.zeros(count), np.zeros(count), np.empty(BLOCK, np.float32)
    for t in range(count):
        update_sets(alpha, bound, sign, t, not_up, not_low)
    top, high, bottom, low = update_gradient(v, zeros, 0.0, zeros, 0.0, not_up, not_low)
    largest = MIN_CURVATURE
    for t in range(count):
        largest = max(largest, abs(diagonal[t]))
    step = 0
    while step < max_steps:
        offset = (high + low) / 2 if constrained else penalty * total
        upwards = constrained or high - offset >= offset - low  # whether the worst violator should increase
        if not (high - low if constrained else max(high - offset, offset - low)) > tolerance:
            return step
        i = top if upwards else bottom
        ensure_row(K, i, missing, columns, kernel)
        row, own, direction = K[i], np.float64(diagonal[i]), 1.0 if upwards else -1.0
        units = 1 / max(high - offset, offset - low), 1 / largest
        j = second_order_partner(v, v[i], direction, row, own, diagonal, not_low if upwards else not_up, units, gains)
        low_i, high_i = step_limits(alpha, bound, sign, i)
        if j < 0:
            if constrained:
                return step
            d, e, j = best_step(v[i] - offset, own + penalty, low_i, high_i), 0.0, i
        else:
            low_j, high_j = step_limits(alpha, bound, sign, j)
            cross = np.float64(row[j])
            if constrained:
                curvature = max(own + diagonal[j] - 2 * cross, MIN_RELATIVE_CURVATURE * own, MIN_CURVATURE)
                d = min((v[i] - v[j]) / curvature, high_i, -low_j)
                e = -d
            else:
                curvature, other, cross = own + penalty, np.float64(diagonal[j]) + penalty, cross + penalty
                first, second = v[i] - offset, v[j] - offset
                d, e = best_pair_step(curvature, other, cross, first, second, low_i, high_i, low_j, high_j)
            change_alpha(alpha, bound, sign, j, e)
            update_sets(alpha, bound, sign, j, not_up, not_low)
        change_alpha(alpha, bound, sign, i, d)
        update_sets(alpha, bound, sign, i, not_up, not_low)
        total += d + e
        ensure_row(K, j, missing, columns, kernel)
        top, high, bottom, low = update_gradient(v, row, d, K[j], e, not_up, not_low)
        step += 1
    return step


@compiled(inline="always")
def ensure_row(K, i, missing, columns, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Compute a row of the kernel matrix if it is missing."""
    if missing[i]:
        kernel_row(K[i : i + 1], columns[:, i].copy(), columns, kernel)
        missing[i] = False


@compiled(inline="always")
def step_limits(alpha, bound, sign, t):  # type: ignore[no-untyped-def] # pragma: no cover
    """The smallest and the largest step of y alpha of a row that its bounds allow."""
    low = -alpha[t] if sign[t] > 0 else alpha[t] - bound[t]
    high = bound[t] - alpha[t] if sign[t] > 0 else alpha[t]
    return low, high


@compiled(inline="always")
def update_sets(alpha, bound, sign, t, not_up, not_low):  # type: ignore[no-untyped-def] # pragma: no cover
    """Record whether a row is in I_up and in I_low: 0 if it is, -infinity if it is not."""
    below, above = alpha[t] < bound[t], alpha[t] > 0
    not_up[t] = 0.0 if (below if sign[t] > 0 else above) else -np.inf
    not_low[t] = 0.0 if (above if sign[t] > 0 else below) else -np.inf


@compiled(fastmath=NO_NAN_MATH)
def update_gradient(v, one, d, other, e, not_up, not_low):  # type: ignore[no-untyped-def] # pragma: no cover
    """Subtract d and e times two rows of K from v; find the largest v in I_up and the smallest in I_low.

    The first pass only finds the block of each: see BLOCK.
    """
    top, high, bottom, low = 0, -np.inf, 0, np.inf
    for begin in range(0, v.size, BLOCK):
        end = min(begin + BLOCK, v.size)
        above, below = -np.inf, np.inf
        for t in range(uint64(begin), uint64(end)):
            now = v[t] - (d * one[t] + e * other[t])
            v[t] = now
            above = larger(above, now + not_up[t])
            below = smaller(below, now - not_low[t])
        if above > high:
            high, top = above, begin
        if below < low:
            low, bottom = below, begin
    while top + 1 < v.size and v[top] + not_up[top] != high:
        top += 1
    while bottom + 1 < v.size and v[bottom] - not_low[bottom] != low:
        bottom += 1
    return top, high, bottom, low


@compiled(fastmath=NO_NAN_MATH)
def second_order_partner(v, own_v, direction, row, own, diagonal, excluded, units, gains):  # type: ignore[no-untyped-def] # pragma: no cover
    """The row that gains most together with the worst violator, by second-order information; -1 if there is none.

    ``row`` is the worst violator's row of K, ``own`` its diagonal element. The gain is (v_i - v_j)^2 / curvature. It is
    compared in float32, with both factors in ``units`` in which they neither overflow nor vanish.
    """
    best, found, zero = np.float32(0), -1, np.float32(0)
    of_gap, of_curvature, square = direction * units[0], row.dtype.type(units[1]), row.dtype.type(own)
    two = row.dtype.type(2)
    least = np.float32(max(MIN_RELATIVE_CURVATURE * own * units[1], MIN_CURVATURE))
    for begin in range(0, v.size, BLOCK):
        end, most = min(begin + BLOCK, v.size), zero
        for t in range(uint64(begin), uint64(end)):
            gap = larger(np.float32(of_gap * (own_v - v[t]) + excluded[t]), zero)
            curvature = np.float32(of_curvature * (square + diagonal[t] - two * row[t]))
            gain = gap * gap / larger(curvature, least)
            gains[t - uint64(begin)] = gain
            most = larger(most, gain)
        if most > best:
            best = most
            for t in range(uint64(end - begin)):
                if gains[t] == most:
                    found = begin + np.int64(t)  # type: ignore[assignment]
    return found


@compiled(inline="always")
def change_alpha(alpha, bound, sign, t, d):  # type: ignore[no-untyped-def] # pragma: no cover
    """Change y alpha of a row by d; an alpha next to a bound is set to the bound."""
    new = alpha[t] + sign[t] * d
    if new < BOUND_TOLERANCE * min(bound[t], alpha[t] + abs(d)):
        new = 0.0
    elif new > bound[t] * (1 - BOUND_TOLERANCE):
        new = bound[t]
    alpha[t] = new


@compiled
def midpoints(starts, sign, v, alpha, bound, intercepts):  # type: ignore[no-untyped-def] # pragma: no cover
    """The midpoint of the largest v in I_up and the smallest in I_low of many problems; unchanged if one is empty."""
    for k in range(starts.size - 1):
        high, low = -np.inf, np.inf
        for t in range(starts[k], starts[k + 1]):
            below, above = alpha[t] < bound[t], alpha[t] > 0
            if below if sign[t] > 0 else above:
                high = max(high, v[t])
            if above if sign[t] > 0 else below:
                low = min(low, v[t])
        if high > -np.inf and low < np.inf:
            intercepts[k] = (high + low) / 2
