"""The compiled kernels of small problems. Importing this module loads numba: only modules beside it do so.

They release the GIL. Array indices are unsigned because numba then need not test them for counting from the end.

The dual problem of two classes is to maximise sum(alpha) - alpha' Q alpha / 2 - penalty (y'alpha)^2 / 2 within
0 <= alpha <= bound. What all of them look at is v = y - f, with the scores f = K (y alpha): where it is above the
intercept b, y alpha should rise, and where it is below, fall, as far as the bounds allow.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64
from numba.extending import intrinsic

from mergesvm.models.kernel_function import MAX_UNCACHED_COLUMNS
from mergesvm.models.kernel_values_jit import diagonal, line, small_matrix

NUMBERS = {"reassoc", "contract", "nsz", "nnan"}
"""What the compiler may assume: that nothing is NaN, because rows and kernels have been looked at."""

BLOCK = 64
"""So many values are looked through before it is asked where the largest of them is."""

TINY, FLOOR = 1e-12, 1e-30
"""Curvature below this share of the diagonal, and where that is zero below this, is taken to be this."""


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def best_pair(own, other, cross, first, second, low, high, below, above):  # type: ignore[no-untyped-def] # pragma: no cover
    """Maximise first d + second e - (own d^2 + 2 cross d e + other e^2) / 2 within low..high and below..above."""
    determinant = own * other - cross * cross
    if determinant > TINY * own * other:
        d = (first * other - second * cross) / determinant
        e = (second * own - first * cross) / determinant
        if low <= d <= high and below <= e <= above:
            return d, e
    best, d, e = -1.0, 0.0, 0.0
    for side in range(4):
        if side < 2:
            x = low if side == 0 else high
            y = min(max((second - cross * x) / other, below), above)
        else:
            y = below if side == 2 else above
            x = min(max((first - cross * y) / own, low), high)
        gain = first * x + second * y - (own * x * x + 2 * cross * x * y + other * y * y) / 2
        if gain > best:
            best, d, e = gain, x, y
    return d, e


def _choosing(which):  # type: ignore[no-untyped-def]
    @intrinsic
    def choose(context, one, other):  # type: ignore[no-untyped-def] # noqa: ARG001
        def generate(_, builder, signature, values):  # type: ignore[no-untyped-def] # noqa: ARG001
            wins = builder.fcmp_ordered(which, *values, flags=("nnan", "nsz"))
            return builder.select(wins, *values, flags=("nnan", "nsz"))

        return one(one, one), generate

    return choose


larger, smaller = _choosing(">"), _choosing("<")  # type: ignore[no-untyped-call]
"""As max and min, but the compiler is told that nothing is NaN here, too, and so looks at many values at a time."""


@njit(nogil=True, error_model="numpy", cache=True)
def ascend(K, sign, v, alpha, bound, total, penalty, tolerance, most):  # type: ignore[no-untyped-def] # pragma: no cover
    """Solve the problem of some rows, whose kernel matrix is K: see :func:`ascend_by_lines`."""
    diagonal = np.empty(sign.size, K.dtype)  # in one place, and not in as many lines of memory as there are rows
    for t in range(sign.size):
        diagonal[t] = K[t, t]
    kernel = (0, 0.0, 0, 0.0)
    return ascend_by_lines(K, diagonal, K[:0], kernel, sign, v, alpha, bound, total, penalty, tolerance, most)


@njit(nogil=True, error_model="numpy", cache=True)
def ascend_all(firsts, places, rows, kernel, sign, v, alpha, bound, totals, penalty, tolerances, most):  # type: ignore[no-untyped-def] # pragma: no cover
    """Solve many problems, one after another, in place, each from where it is.

    Problem k has the entries firsts[k] to firsts[k + 1]; entry t is about the lifted dense row places[t].
    """
    largest = 0
    for k in range(firsts.size - 1):
        largest = max(largest, firsts[k + 1] - firsts[k])
    width = rows.shape[1]
    room, side = np.empty(largest * largest, rows.dtype), np.empty(largest * width, rows.dtype)
    for k in range(firsts.size - 1):
        begin, end = firsts[k], firsts[k + 1]
        size = end - begin
        if size == 0:
            continue
        here = sign[begin:end], v[begin:end], alpha[begin:end], bound[begin:end]
        if width > MAX_UNCACHED_COLUMNS:
            K = small_matrix(rows[places[begin:end]], kernel)
            ascend(K, *here, totals[k], penalty, tolerances[k], most * size)
            continue
        K, columns = room[: size * size].reshape(size, size), side[: width * size].reshape(width, size)
        for t in range(size):
            for d in range(width):
                columns[d, t] = rows[places[begin + t], d]
        lines = K, diagonal(columns, kernel), columns, kernel
        ascend_by_lines(*lines, *here, totals[k], penalty, tolerances[k], most * size)


@njit(nogil=True, error_model="numpy", cache=True)
def ascend_by_lines(  # type: ignore[no-untyped-def]
    K, diagonal, columns, kernel, sign, v, alpha, bound, total, penalty, tolerance, most
):  # pragma: no cover
    """Solve the problem of some rows, whose kernel matrix is K, in place, from where it is; how many steps it took.

    Where there are columns, which are the lifted rows, lines of K are computed when they are first needed.

    Two rows are moved at a time: the one that wants most, and the one with which it gains most. With ``penalty`` < 0,
    y'alpha is kept, and they move against one another. Otherwise it costs ``penalty`` (y'alpha)^2 / 2, where
    ``total`` is y'alpha over all rows, also those elsewhere; the best pair of steps is then found in the plane, because
    steps along one axis crawl along a steep penalty. Of the highest v that may rise and the lowest that may fall,
    compared with the intercept ``penalty total`` where there is one, none is off by more than ``tolerance`` at the end.
    """
    count, exact = sign.size, penalty < 0
    missing, still = np.full(count, columns.shape[0] > 0), np.zeros(count, K.dtype)
    barred_up, barred_down, gains = np.zeros(count), np.zeros(count), np.empty(BLOCK, np.float32)
    for t in range(count):
        bar(alpha, bound, sign, t, barred_up, barred_down)
    top, high, bottom, low = advance(v, still, 0.0, still, 0.0, barred_up, barred_down)
    step = 0
    while step < most:
        offset = (high + low) / 2 if exact else penalty * total
        # The one that wants most to be elsewhere; if it wants to fall, everything is looked at from below.
        upwards = exact or high - offset >= offset - low
        if not (high - low if exact else max(high - offset, offset - low)) > tolerance:
            return step
        i = top if upwards else bottom
        if missing[i]:
            line(K[i : i + 1], columns[:, i].copy(), columns, kernel)
            missing[i] = False
        column, own, facing = K[i], np.float64(diagonal[i]), 1.0 if upwards else -1.0
        j = partner(v, v[i], facing, column, own, diagonal, barred_down if upwards else barred_up, gains)
        # Steps are those of y alpha.
        low_i = -alpha[i] if sign[i] > 0 else alpha[i] - bound[i]
        high_i = bound[i] - alpha[i] if sign[i] > 0 else alpha[i]
        if j < 0:
            if exact:
                return step
            d, e = min(max((v[i] - offset) / max(own + penalty, TINY), low_i), high_i), 0.0
            j = i
        else:
            low_j = -alpha[j] if sign[j] > 0 else alpha[j] - bound[j]
            high_j = bound[j] - alpha[j] if sign[j] > 0 else alpha[j]
            cross = np.float64(column[j])
            if exact:
                d = min((v[i] - v[j]) / max(own + diagonal[j] - 2 * cross, TINY * own, FLOOR), high_i, -low_j)
                e = -d
            else:
                steep, other, cross = own + penalty, np.float64(diagonal[j]) + penalty, cross + penalty
                wants, too = v[i] - offset, v[j] - offset
                d, e = best_pair(steep, other, cross, wants, too, low_i, high_i, low_j, high_j)
            move(alpha, bound, sign, j, e)
            bar(alpha, bound, sign, j, barred_up, barred_down)
        move(alpha, bound, sign, i, d)
        bar(alpha, bound, sign, i, barred_up, barred_down)
        total += d + e
        if missing[j]:
            line(K[j : j + 1], columns[:, j].copy(), columns, kernel)
            missing[j] = False
        top, high, bottom, low = advance(v, column, d, K[j], e, barred_up, barred_down)
        step += 1
    return step


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def bar(alpha, bound, sign, t, barred_up, barred_down):  # type: ignore[no-untyped-def] # pragma: no cover
    """Note whether y alpha of a row may rise, and whether it may fall: 0 if it may, and -infinity if it may not."""
    below, above = alpha[t] < bound[t], alpha[t] > 0
    barred_up[t] = 0.0 if (below if sign[t] > 0 else above) else -np.inf
    barred_down[t] = 0.0 if (above if sign[t] > 0 else below) else -np.inf


@njit(nogil=True, fastmath=NUMBERS, error_model="numpy", cache=True)
def advance(v, one, d, other, e, barred_up, barred_down):  # type: ignore[no-untyped-def] # pragma: no cover
    """Bring v up to date after two steps; where v is highest of those that may rise, and lowest of those that may fall.

    It is noted in which block the highest is, and only at the end asked where in it.
    """
    top, high, bottom, low = 0, -np.inf, 0, np.inf
    for begin in range(0, v.size, BLOCK):
        end = min(begin + BLOCK, v.size)
        above, below = -np.inf, np.inf
        for t in range(uint64(begin), uint64(end)):
            now = v[t] - (d * one[t] + e * other[t])
            v[t] = now
            above = larger(above, now + barred_up[t])
            below = smaller(below, now - barred_down[t])
        if above > high:
            high, top = above, begin
        if below < low:
            low, bottom = below, begin
    while top + 1 < v.size and v[top] + barred_up[top] != high:
        top += 1
    while bottom + 1 < v.size and v[bottom] - barred_down[bottom] != low:
        bottom += 1
    return top, high, bottom, low


@njit(nogil=True, fastmath=NUMBERS, error_model="numpy", cache=True)
def partner(v, own_v, facing, column, own, diagonal, barred, gains):  # type: ignore[no-untyped-def] # pragma: no cover
    """The row with which another gains most, if they move against one another; -1 if there is none."""
    best, found, none = np.float32(0), -1, np.float32(0)
    square, least = np.float32(own), np.float32(max(TINY * own, FLOOR))
    for begin in range(0, v.size, BLOCK):
        end, most = min(begin + BLOCK, v.size), none
        for t in range(uint64(begin), uint64(end)):
            gap = larger(np.float32(facing * (own_v - v[t]) + barred[t]), none)
            curvature = square + np.float32(diagonal[t]) - np.float32(2) * np.float32(column[t])
            gain = gap * gap / larger(curvature, least)
            gains[t - uint64(begin)] = gain
            most = larger(most, gain)
        if most > best:
            best = most
            for t in range(uint64(end - begin)):
                if gains[t] == most:
                    found = begin + np.int64(t)  # type: ignore[assignment]
    return found


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def move(alpha, bound, sign, t, d):  # type: ignore[no-untyped-def] # pragma: no cover
    """Change y alpha of a row by d; next to a bound it is on it."""
    new = alpha[t] + sign[t] * d
    if new < 1e-12 * min(bound[t], alpha[t] + abs(d)):
        new = 0.0
    elif new > bound[t] * (1 - 1e-12):
        new = bound[t]
    alpha[t] = new


@njit(nogil=True, error_model="numpy", cache=True)
def patch(K, old, stayed, here, part, fresh):  # type: ignore[no-untyped-def] # pragma: no cover
    """Put a symmetric matrix together: what stayed of an old one, which is here now, and lines of new rows."""
    for a in range(here.size):
        line, known = K[here[a]], old[stayed[a]]
        for b in range(here.size):
            line[here[b]] = known[stayed[b]]
    for a in range(fresh.size):
        column = fresh[a]
        for b in range(part.shape[1]):
            K[column, b] = part[a, b]
            K[b, column] = part[a, b]


@njit(nogil=True, error_model="numpy", cache=True)
def middles(firsts, sign, v, alpha, bound, intercepts):  # type: ignore[no-untyped-def] # pragma: no cover
    """The intercept of each of many problems: the middle of the highest v that may rise and the lowest that may fall.

    Where nothing may rise, or nothing fall, it stays what it is.
    """
    for k in range(firsts.size - 1):
        high, low = -np.inf, np.inf
        for t in range(firsts[k], firsts[k + 1]):
            below, above = alpha[t] < bound[t], alpha[t] > 0
            if below if sign[t] > 0 else above:
                high = max(high, v[t])
            if above if sign[t] > 0 else below:
                low = min(low, v[t])
        if high > -np.inf and low < np.inf:
            intercepts[k] = (high + low) / 2


@njit(nogil=True, error_model="numpy", cache=True)
def deal(chosen, firsts, keys, values, heads, numbers, v, alpha, bound, sign):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write what a unit says of its rows, (v, alpha, bound, y), where the heads of some problems say, which advance.

    Problem chosen[k] has the entries from firsts[chosen[k]] on, and the head k.
    """
    for k in range(chosen.size):
        to = heads[k]
        for entry in range(firsts[chosen[k]], firsts[chosen[k] + 1]):
            numbers[to] = keys[entry]
            v[to], alpha[to] = values[entry, 0], values[entry, 1]
            bound[to], sign[to] = values[entry, 2], values[entry, 3]
            to += 1
        heads[k] = to
