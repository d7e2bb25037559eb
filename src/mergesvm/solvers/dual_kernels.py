"""The compiled kernels of the kernel machine. Importing this module loads numba: only modules beside it do so.

They release the GIL. Array indices are unsigned because numba then need not test them for counting from the end.

The dual problem of two classes is to maximise sum(alpha) - alpha' Q alpha / 2 - penalty (y'alpha)^2 / 2 within
0 <= alpha <= bound. What all of them look at is v = y - f, with the scores f = K (y alpha): where it is above the
intercept b, y alpha should rise, and where it is below, fall, as far as the bounds allow.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

SUMS = {"reassoc", "contract", "nsz"}
"""What the compiler may assume: sums may change their order, but NaN and infinity have to pass."""

UP, LOW, ALPHAS, SQUARE, FREE, FREE_SUM, LOSS, TOTAL, SUPPORT = range(9)
"""What is told of a problem: the highest v that may rise, the lowest that may fall, the sum of alpha, alpha' Q alpha,
how many alpha are free and the sum of their v, the weighted hinge loss, y'alpha, and how many alpha are not zero."""

TOLD = 9

TINY = 1e-12
"""Curvature below this, relative to the diagonal, is taken to be this."""


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


@njit(nogil=True, error_model="numpy", cache=True)
def ascend(K, sign, v, alpha, bound, total, penalty, tolerance, most):  # type: ignore[no-untyped-def] # pragma: no cover
    """Solve the problem of some rows, whose kernel matrix is K, in place, from where it is; how many steps it took.

    Two rows are moved at a time: the one that wants most, and the one with which it gains most. With ``penalty`` < 0,
    y'alpha is kept, and they move against one another. Otherwise it costs ``penalty`` (y'alpha)^2 / 2, where
    ``total`` is y'alpha over all rows, also those elsewhere; the best pair of steps is then found in the plane, because
    steps along one axis crawl along a steep penalty. Of the highest v that may rise and the lowest that may fall,
    compared with the intercept ``penalty total`` where there is one, none is off by more than ``tolerance`` at the end.
    """
    size = uint64(sign.size)
    exact = penalty < 0
    rises, falls = np.empty(sign.size, np.bool_), np.empty(sign.size, np.bool_)
    diagonal = np.empty(sign.size, K.dtype)  # in one place, and not in as many lines of memory as there are rows
    top, bottom, high, low = uint64(0), uint64(0), -np.inf, np.inf
    for t in range(size):
        diagonal[t] = K[t, t]
        rises[t], falls[t] = freedom(alpha, bound, sign, t)
        if rises[t] and v[t] > high:
            high, top = v[t], t
        if falls[t] and v[t] < low:
            low, bottom = v[t], t
    step = 0
    while step < most:
        offset = (high + low) / 2 if exact else penalty * total
        # The one that wants most to be elsewhere; if it wants to fall, everything is looked at from below.
        upwards = exact or high - offset >= offset - low
        if not (high - low if exact else max(high - offset, offset - low)) > tolerance:
            return step
        i = top if upwards else bottom
        facing, moves = (1.0, falls) if upwards else (-1.0, rises)
        column, own, wants = K[i], np.float64(diagonal[i]), facing * v[i]
        best, j, found = 0.0, uint64(0), False
        for t in range(size):
            gap = wants - facing * v[t]
            if gap > 0 and moves[t]:
                gain = gap * gap / max(own + diagonal[t] - 2 * column[t], TINY * own)
                if gain > best:
                    best, j, found = gain, t, True
        # Steps are those of y alpha.
        low_i = -alpha[i] if sign[i] > 0 else alpha[i] - bound[i]
        high_i = bound[i] - alpha[i] if sign[i] > 0 else alpha[i]
        if found:
            low_j = -alpha[j] if sign[j] > 0 else alpha[j] - bound[j]
            high_j = bound[j] - alpha[j] if sign[j] > 0 else alpha[j]
        if exact:
            curvature = max(own + diagonal[j] - 2 * np.float64(column[j]), TINY * own)
            d = min((v[i] - v[j]) / curvature, high_i, -low_j)
            e = -d
        elif found:
            d, e = best_pair(
                own + penalty,
                diagonal[j] + penalty,
                np.float64(column[j]) + penalty,
                v[i] - offset,
                v[j] - offset,
                low_i,
                high_i,
                low_j,
                high_j,
            )
        else:
            d, e = min(max((v[i] - offset) / max(own + penalty, TINY), low_i), high_i), 0.0
        move(alpha, bound, sign, i, d)
        rises[i], falls[i] = freedom(alpha, bound, sign, i)
        if e != 0:
            move(alpha, bound, sign, j, e)
            rises[j], falls[j] = freedom(alpha, bound, sign, j)
        total += d + e
        other = K[j]
        high, low = -np.inf, np.inf
        for t in range(size):
            v[t] -= d * column[t] + e * other[t]
            if rises[t] and v[t] > high:
                high, top = v[t], t
            if falls[t] and v[t] < low:
                low, bottom = v[t], t
        step += 1
    return step


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def freedom(alpha, bound, sign, t):  # type: ignore[no-untyped-def] # pragma: no cover
    """Whether y alpha of a row may rise, and whether it may fall."""
    below, above = alpha[t] < bound[t], alpha[t] > 0
    return (below, above) if sign[t] > 0 else (above, below)


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def move(alpha, bound, sign, t, d):  # type: ignore[no-untyped-def] # pragma: no cover
    """Change y alpha of a row by d; next to a bound it is on it."""
    new = alpha[t] + sign[t] * d
    slack = 1e-12 * bound[t]
    if new < slack:
        new = 0.0
    elif new > bound[t] - slack:
        new = bound[t]
    alpha[t] = new


@njit(nogil=True, error_model="numpy", cache=True)
def look(problems, starts, counts, score, alpha, bound, intercepts, told):  # type: ignore[no-untyped-def] # pragma: no cover
    """Tell how far each of some problems is, (problems, TOLD): see UP and those beside it."""
    for at in range(problems.size):
        p = problems[at]
        row = told[at]
        for k in range(row.size):
            row[k] = 0.0
        row[UP], row[LOW] = -np.inf, np.inf
        for side in range(2):
            y = 2.0 * side - 1.0
            start = uint64(starts[p, side])
            for t in range(start, start + uint64(counts[p, side])):
                a, v = alpha[t], y - score[t]
                if (a < bound[t]) if side else (a > 0):
                    row[UP] = max(row[UP], v)
                if (a > 0) if side else (a < bound[t]):
                    row[LOW] = min(row[LOW], v)
                if a > 0:
                    row[SUPPORT] += 1
                    row[ALPHAS] += a
                    row[SQUARE] += a * y * score[t]
                    row[TOTAL] += y * a
                    if a < bound[t]:
                        row[FREE] += 1
                        row[FREE_SUM] += v
                row[LOSS] += bound[t] * max(0.0, 1.0 - y * (score[t] + intercepts[at]))


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def chance(seed, number):  # type: ignore[no-untyped-def] # pragma: no cover
    """A number from 0 to 1 that depends on nothing else, by splitmix64."""
    z = uint64(seed) * uint64(0xD1342543DE82EF95) + uint64(number) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return np.float64(z >> uint64(40)) / 16777216.0


@njit(nogil=True, error_model="numpy", cache=True)
def largest(values, rank):  # type: ignore[no-untyped-def] # pragma: no cover
    """The value of this rank from above, 1 for the largest, by parting the values again and again, in place."""
    low, high, wanted = 0, values.size - 1, rank - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            break
    return values[wanted]


@njit(nogil=True, error_model="numpy", cache=True)
def pick(problems, starts, counts, score, alpha, bound, intercepts, rooms, noise, seed, rows, kept, places, found):  # type: ignore[no-untyped-def] # pragma: no cover
    """Pick the worst violators of each problem: as many as there is room for that should rise, and that should fall.

    Into places (problems, 2 x the largest room), of which found (problems,) are used. Only those count that are on the
    wrong side of the intercept, or, if there are none, the one that is nearest to it. The worst alone would be outliers
    that have little in common with the other rows: so each but the very worst counts by a share of its want, of at
    least 1 - ``noise``, that is left to chance, the same for a row in all problems, so that they propose the same rows
    where they can. Rows that are kept anyway are not picked.
    """
    for at in range(problems.size):
        p = problems[at]
        room, total = rooms[p], counts[p, 0] + counts[p, 1]
        wants, where = np.empty(total), np.empty(total, dtype=np.int64)
        taken, spare = 0, -1  # a row that may move both ways is picked once
        for facing in range(2):
            size, worst = 0, -np.inf
            last = -1
            for side in range(2):
                y = 2.0 * side - 1.0
                start = starts[p, side]
                for t in range(start, start + counts[p, side]):
                    moves = alpha[t] < bound[t] if side == facing else alpha[t] > 0
                    if moves and not kept[t] and t != spare:
                        want = (y - score[t] - intercepts[at]) * (2.0 * facing - 1.0)
                        if want > worst:
                            worst, last = want, t
                        if want > 0:
                            wants[size], where[size] = want * (1 - noise * chance(seed, rows[t])), t
                            size += 1
            if size == 0 and last >= 0:
                there = False
                for k in range(taken):
                    there |= places[at, k] == last
                if not there:
                    wants[0], where[0], size = worst, last, 1
                    spare = last
            for k in range(size):
                if where[k] == last:
                    wants[k] = worst  # the worst of all is not left to chance
            least = largest(wants[:size].copy(), room) if size > room else -np.inf
            above = 0
            for k in range(size):
                above += wants[k] > least
            level = room - above  # so many of those that want exactly as much as the last still fit
            for k in range(size):
                if wants[k] > least or (wants[k] == least and level > 0):
                    if wants[k] == least:
                        level -= 1
                    places[at, taken] = where[k]
                    taken += 1
        found[at] = taken


@njit(nogil=True, fastmath=SUMS, error_model="numpy", cache=True)
def add_columns(score, starts, firsts, slots, steps, slab, count):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add columns of the kernel times steps of y alpha to the scores of the rows of one class, for many problems.

    Problem k has the entries firsts[k] to firsts[k + 1] of slots and steps, and its scores begin at starts[k].
    """
    block = 2048
    part = np.empty(block, dtype=slab.dtype)
    for begin in range(0, count, block):
        size = uint64(min(block, count - begin))
        for k in range(starts.size):
            if firsts[k] == firsts[k + 1]:
                continue
            for t in range(size):
                part[t] = 0
            entry = firsts[k]
            while entry + 3 < firsts[k + 1]:  # four columns at a time: the sums are then loaded and stored less often
                one, two = slab[slots[entry], begin:], slab[slots[entry + 1], begin:]
                three, four = slab[slots[entry + 2], begin:], slab[slots[entry + 3], begin:]
                d = slab.dtype.type(steps[entry])
                e = slab.dtype.type(steps[entry + 1])
                f = slab.dtype.type(steps[entry + 2])
                g = slab.dtype.type(steps[entry + 3])
                for t in range(size):
                    part[t] += d * one[t] + e * two[t] + f * three[t] + g * four[t]
                entry += 4
            while entry < firsts[k + 1]:
                one = slab[slots[entry], begin:]
                d = slab.dtype.type(steps[entry])
                for t in range(size):
                    part[t] += d * one[t]
                entry += 1
            out = score[starts[k] + begin :]
            for t in range(size):
                out[t] += part[t]


@njit(nogil=True, error_model="numpy", cache=True)
def rest(starts, sides, count, score, alpha, bound, limits, resting):  # type: ignore[no-untyped-def] # pragma: no cover
    """Find rows of one class that are at a bound in all problems, and beyond what any row that may move wants.

    Problem k has its part of the class from starts[k] on, on the side sides[k]; limits are those of the orders.
    """
    for k in range(starts.size):
        y = 2.0 * sides[k] - 1.0
        high, low = limits[k, 0], limits[k, 1]
        for t in range(count):
            at = starts[k] + t
            v = y - score[at]
            rises = alpha[at] < bound[at] if sides[k] else alpha[at] > 0
            falls = alpha[at] > 0 if sides[k] else alpha[at] < bound[at]
            resting[t] &= (not rises or v < low) and (not falls or v > high)


@njit(nogil=True, error_model="numpy", cache=True)
def reorder(slab, lines, order):  # type: ignore[no-untyped-def] # pragma: no cover
    """Put the first values of some lines of an array into another order."""
    part = np.empty(order.size, dtype=slab.dtype)
    for k in range(lines.size):
        line = slab[lines[k]]
        for t in range(uint64(order.size)):
            part[t] = line[order[t]]
        for t in range(uint64(order.size)):
            line[t] = part[t]


LOG2E = np.float32(1.44269504)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""ln 2 in two parts, of which whole multiples of the first are exact."""

C2, C3, C4, C5, C6 = (np.float32(1 / f) for f in (2, 6, 24, 120, 720))

HALF, ONE, LEAST = np.float32(0.5), np.float32(1), np.float32(-87)


@njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy", cache=True)
def exponentials_single(values):  # type: ignore[no-untyped-def] # pragma: no cover
    """exp(min(x, 0)) of all values (m, n) in float32, in place, to 3e-7; several times as fast as one by one.

    x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) by its Taylor series; 2^n is a number that has n in its exponent.
    """
    whole = np.empty(1024, dtype=np.int32)
    scale = whole.view(np.float32)
    for i in range(values.shape[0]):
        line = values[i]
        for begin in range(0, line.size, 1024):
            part = line[begin : begin + 1024]
            for t in range(uint64(part.size)):
                x = max(min(part[t], np.float32(0)), LEAST)
                n = np.floor(x * LOG2E + HALF)
                r = x - n * LN2_HIGH - n * LN2_LOW
                whole[t] = (np.int32(n) + np.int32(127)) << np.int32(23)
                part[t] = ONE + r * (ONE + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * C6)))))
            for t in range(uint64(part.size)):
                part[t] *= scale[t]


@njit(nogil=True, error_model="numpy", cache=True)
def exponentials(values):  # type: ignore[no-untyped-def] # pragma: no cover
    """exp(min(x, 0)) of all values (m, n), in place."""
    if values.itemsize == 4:
        exponentials_single(values)
    else:
        for i in range(values.shape[0]):
            for j in range(uint64(values.shape[1])):
                values[i, j] = np.exp(min(values[i, j], 0.0))


@njit(nogil=True, error_model="numpy", cache=True)
def small_matrix(rows, kind, gamma, degree, coef0):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values of lifted dense rows with one another; kinds are their places in ``KERNELS``."""
    turned = rows.copy()
    if kind == 0:
        last = rows.shape[1] - 1
        for i in range(rows.shape[0]):
            turned[i, last - 1], turned[i, last] = rows[i, last], rows[i, last - 1]
    K = np.dot(turned, rows.T)
    if kind == 0:
        exponentials(K)
    elif kind == 2:
        for i in range(K.shape[0]):
            for j in range(uint64(K.shape[1])):
                K[i, j] = (gamma * K[i, j] + coef0) ** degree
    return K


@njit(nogil=True, error_model="numpy", cache=True)
def sift(  # type: ignore[no-untyped-def]
    problems, starts, score, alpha, bound, intercepts, places, found, lifted, offsets, kernel, share, used
):  # pragma: no cover
    """Find which rows of each problem would be in use if those picked were all there is, with the intercept as it is.

    They are looked for by solving their problem to ``share`` of the largest violation, and marked in used, which is of
    the shape of places; those in use already, and the worst in either direction, are, too. Row t of problem p and side
    s is line offsets[p, s] + t - starts[p, s] of the lifted rows.
    """
    for at in range(problems.size):
        p, size = problems[at], found[at]
        if size == 0:
            continue
        rows = np.empty((size, lifted.shape[1]), dtype=lifted.dtype)
        y, v, own, most = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
        high, low = 0, 0
        for k in range(size):
            t = places[at, k]
            side = 1 if t >= starts[p, 1] else 0
            line = offsets[p, side] + t - starts[p, side]
            for d in range(lifted.shape[1]):
                rows[k, d] = lifted[line, d]
            y[k] = 2.0 * side - 1.0
            v[k] = y[k] - score[t] - intercepts[at]
            own[k], most[k] = alpha[t], bound[t]
            high, low = (k if v[k] > v[high] else high), (k if v[k] < v[low] else low)
        K = small_matrix(rows, kernel[0], kernel[1], kernel[2], kernel[3])
        worst = max(abs(v[high]), abs(v[low]))
        ascend(K, y, v, own, most, 0.0, 0.0, share * worst, 100 * size)
        for k in range(size):
            used[at, k] = own[k] > 0 or alpha[places[at, k]] > 0 or k in (high, low)
