"""Compiled functions of working-set selection: statistics of problems, violators, proposals and shrinking.

They read v = y - f of a unit's rows in many problems at once; see :mod:`mergesvm.methods.kernel.jit.smo` for v, I_up
and I_low. The rows of problem p on side s (0: y = -1, 1: y = +1) have the entries starts[p, s] to
starts[p, s] + counts[p, s] of score, alpha and bound.

All functions release the GIL. Array indices are unsigned: numba then omits the test for negative indices.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.jit import compiled
from mergesvm.methods.kernel.jit.smo import solve_subproblem
from mergesvm.methods.kernel.stats import ALPHAS, FREE, FREE_SUM, LOSS, LOW, SQUARE, SUPPORT, TOTAL, UP
from mergesvm.models.kernel_values_jit import kernel_matrix


@compiled
def problem_stats(problems, starts, counts, score, alpha, bound, intercepts, stats):  # type: ignore[no-untyped-def] # pragma: no cover
    """Compute the statistics of some problems, into stats (problems, N_STATS)."""
    for at in range(problems.size):
        p = problems[at]
        row = stats[at]
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


@compiled(inline="always")
def hashed_uniform(seed, number):  # type: ignore[no-untyped-def] # pragma: no cover
    """A pseudo-random number in [0, 1), computed with splitmix64 from the arguments alone."""
    z = uint64(seed) * uint64(0xD1342543DE82EF95) + uint64(number) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return np.float64(z >> uint64(40)) / 16777216.0


@compiled
def kth_largest(values, k):  # type: ignore[no-untyped-def] # pragma: no cover
    """The k-th largest value (1 for the largest), by quickselect, which reorders the values."""
    low, high, wanted = 0, values.size - 1, k - 1
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


@compiled
def keep_largest(values, entries, room, selected, count):  # type: ignore[no-untyped-def] # pragma: no cover
    """Append the entries with the largest values, at most ``room``, to ``selected``; returns the new count."""
    least = kth_largest(values.copy(), room) if values.size > room else -np.inf
    above = 0
    for k in range(values.size):
        above += values[k] > least
    ties = room - above  # the number of entries with the least value that still fit
    for k in range(values.size):
        if values[k] > least or (values[k] == least and ties > 0):
            if values[k] == least:
                ties -= 1
            selected[count] = entries[k]
            count += 1
    return count


@compiled
def select_violators(  # type: ignore[no-untyped-def]
    problems, starts, counts, score, alpha, bound, intercepts, max_rows, noise, seed, rows, excluded, selected, found
):  # pragma: no cover
    """Select the worst violators of each problem: up to max_rows[p] that should increase, and that should decrease.

    Entries go to selected (problems, 2 x the largest max_rows), of which the first found (problems,) are used. A
    violator is on the wrong side of the intercept; if there is none, the row nearest to it is selected. The worst
    violators alone are often outliers: so each violation but the largest is reduced by a random fraction of up to
    ``noise``, the same for a row in all problems, so that problems select common rows. Excluded rows, which are in the
    working set already, are not selected.
    """
    for at in range(problems.size):
        p = problems[at]
        total = counts[p, 0] + counts[p, 1]
        violations, entries = np.empty(total), np.empty(total, dtype=np.int64)
        count, only = 0, -1  # a row that may move both ways is selected once
        for direction in range(2):
            size, worst, last = 0, -np.inf, -1
            for side in range(2):
                y = 2.0 * side - 1.0
                start = starts[p, side]
                for t in range(start, start + counts[p, side]):
                    movable = alpha[t] < bound[t] if side == direction else alpha[t] > 0
                    if movable and not excluded[t] and t != only:
                        violation = (y - score[t] - intercepts[at]) * (2.0 * direction - 1.0)
                        if violation > worst:
                            worst, last = violation, t
                        if violation > 0:
                            violations[size] = violation * (1 - noise * hashed_uniform(seed, rows[t]))
                            entries[size] = t
                            size += 1
            if size == 0 and last >= 0:
                known = False
                for k in range(count):
                    known |= selected[at, k] == last
                if not known:
                    violations[0], entries[0], size = worst, last, 1
                    only = last
            for k in range(size):
                if entries[k] == last:
                    violations[k] = worst  # the worst violator is always selected
            count = keep_largest(violations[:size], entries[:size], max_rows[p], selected[at], count)
        found[at] = count


@compiled
def prefilter(  # type: ignore[no-untyped-def]
    problems, starts, score, alpha, bound, intercepts, selected, found, lifted, offsets, kernel, relative_tol, kept
):  # pragma: no cover
    """Find which selected rows are support vectors of the problem of these rows alone, with a fixed intercept.

    The problem is solved to ``relative_tol`` times the largest violation. Current support vectors and the worst
    violator in each direction are also kept. ``kept`` has the shape of ``selected``. Entry t of problem p and side s is
    the lifted row offsets[p, s] + t - starts[p, s].
    """
    for at in range(problems.size):
        p, size = problems[at], found[at]
        if size == 0:
            continue
        rows = np.empty((size, lifted.shape[1]), dtype=lifted.dtype)
        y, v, own, upper = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
        high, low = 0, 0
        for k in range(size):
            t = selected[at, k]
            side = 1 if t >= starts[p, 1] else 0
            row = offsets[p, side] + t - starts[p, side]
            for d in range(lifted.shape[1]):
                rows[k, d] = lifted[row, d]
            y[k] = 2.0 * side - 1.0
            v[k] = y[k] - score[t] - intercepts[at]
            own[k], upper[k] = alpha[t], bound[t]
            high, low = (k if v[k] > v[high] else high), (k if v[k] < v[low] else low)
        K = kernel_matrix(rows, kernel)
        worst = max(abs(v[high]), abs(v[low]))
        solve_subproblem(K, y, v, own, upper, 0.0, 0.0, relative_tol * worst, 100 * size)
        for k in range(size):
            kept[at, k] = own[k] > 0 or alpha[selected[at, k]] > 0 or k in (high, low)


@compiled
def write_proposals(entries, at, heads, active, starts, score, alpha, bound, rows, keys, values):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write row, v, alpha, bound and y of entries of active problems at the heads of the problems, which advance."""
    for k in range(entries.size):
        t, to = entries[k], heads[at[k]]
        y = 1.0 if t >= starts[active[at[k]], 1] else -1.0
        keys[to] = rows[t]
        values[to, 0], values[to, 1], values[to, 2], values[to, 3] = y - score[t], alpha[t], bound[t], y
        heads[at[k]] += 1


@compiled
def gather_proposals(chosen, starts, keys, values, heads, indices, v, alpha, bound, sign):  # type: ignore[no-untyped-def] # pragma: no cover
    """Append the rows that a unit proposes, (v, alpha, bound, y), at the heads of the problems, which advance.

    Problem chosen[k] has the entries from starts[chosen[k]] on, and head k.
    """
    for k in range(chosen.size):
        to = heads[k]
        for entry in range(starts[chosen[k]], starts[chosen[k] + 1]):
            indices[to] = keys[entry]
            v[to], alpha[to] = values[entry, 0], values[entry, 1]
            bound[to], sign[to] = values[entry, 2], values[entry, 3]
            to += 1
        heads[k] = to


@compiled
def find_shrinkable(starts, sides, count, score, alpha, bound, limits, shrinkable):  # type: ignore[no-untyped-def] # pragma: no cover
    """Find rows of one class that are at a bound in all problems, with v beyond the limits of the rows that can move.

    The class is side sides[k] of problem k, from starts[k] on; limits are those of the request.
    """
    for k in range(starts.size):
        y = 2.0 * sides[k] - 1.0
        high, low = limits[k, 0], limits[k, 1]
        for t in range(count):
            at = starts[k] + t
            v = y - score[at]
            up = alpha[at] < bound[at] if sides[k] else alpha[at] > 0
            down = alpha[at] > 0 if sides[k] else alpha[at] < bound[at]
            shrinkable[t] &= (not up or v < low) and (not down or v > high)


@compiled
def score_moments(starts, counts, score, weights, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Count, mean and sum of squared deviations of the scores of each side, (problems, 2, 3); empty weights are 1."""
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
