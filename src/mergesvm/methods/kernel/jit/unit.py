"""The compiled kernels of units. Importing this module loads numba: only modules beside it do so.

They release the GIL. Array indices are unsigned because numba then need not test them for counting from the end.

What they look at is v = y - f of their rows, in many problems at once: see :mod:`mergesvm.methods.kernel.jit.dual`.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from mergesvm.methods.kernel.jit.dual import ascend
from mergesvm.models.kernel_values_jit import small_matrix

SUMS = {"reassoc", "contract", "nsz"}
"""What the compiler may assume: sums may change their order, but NaN and infinity have to pass."""

UP, LOW, ALPHAS, SQUARE, FREE, FREE_SUM, LOSS, TOTAL, SUPPORT = range(9)
"""What is told of a problem: the highest v that may rise, the lowest that may fall, the sum of alpha, alpha' Q alpha,
how many alpha are free and the sum of their v, the weighted hinge loss, y'alpha, and how many alpha are not zero."""

TOLD = 9


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
def shift(alpha, bound, moved, firsts, ids, steps, pairs, codes, starts, rows, place, nearness):  # type: ignore[no-untyped-def] # pragma: no cover
    """Move alpha of a unit's own rows by steps of y alpha; next to a bound, by this share of it, it is on it.

    Of the known rows ``codes`` are the classes, and ``rows`` which of its own each is, or -1; each of these has a place
    within its class.
    """
    for k in range(moved.size):
        p = moved[k]
        for entry in range(firsts[k], firsts[k + 1]):
            row = rows[ids[entry]]
            if row < 0:
                continue
            side = 1 if pairs[p, 1] == codes[ids[entry]] else 0
            at = starts[p, side] + place[row]
            step = steps[entry] if side else -steps[entry]
            new = alpha[at] + step
            if new < nearness * min(bound[at], alpha[at] + abs(step)):
                new = 0.0
            alpha[at] = bound[at] if new > bound[at] * (1 - nearness) else new


@njit(nogil=True, error_model="numpy", cache=True)
def describe(flat, at, heads, live, starts, score, alpha, bound, rows, keys, values):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write of rows, each of one of the live problems, which they are, v, alpha, its bound and y, where heads say.

    The heads of the problems advance.
    """
    for k in range(flat.size):
        t, to = flat[k], heads[at[k]]
        y = 1.0 if t >= starts[live[at[k]], 1] else -1.0
        keys[to] = rows[t]
        values[to, 0], values[to, 1], values[to, 2], values[to, 3] = y - score[t], alpha[t], bound[t], y
        heads[at[k]] += 1


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
def moments(starts, counts, score, weights, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Count, mean and scatter of the scores of either side of all problems, (problems, 2, 3); no weights are all 1."""
    for p in range(starts.shape[0]):
        for side in range(2):
            count, total, scatter = 0.0, 0.0, 0.0
            for t in range(starts[p, side], starts[p, side] + counts[p, side]):
                weight = weights[t] if weights.size else 1.0
                count, total = count + weight, total + weight * score[t]
            if count == 0:
                continue
            for t in range(starts[p, side], starts[p, side] + counts[p, side]):
                weight = weights[t] if weights.size else 1.0
                scatter += weight * (score[t] - total / count) ** 2
            out[p, side, 0], out[p, side, 1], out[p, side, 2] = count, total / count, scatter


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
        K = small_matrix(rows, kernel)
        worst = max(abs(v[high]), abs(v[low]))
        ascend(K, y, v, own, most, 0.0, 0.0, share * worst, 100 * size)
        for k in range(size):
            used[at, k] = own[k] > 0 or alpha[places[at, k]] > 0 or k in (high, low)
