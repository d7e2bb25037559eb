"""Compiled steps for many pieces at once, one after another, with nothing allocated a piece.

A stack holds one Gram matrix a piece, of which only the upper triangle counts. Its lines are filled up with zeros, to
the right to a multiple of :data:`ALIGNED`, and to the left of the diagonal to such a multiple too: so all that is done
along lines is done in whole vectors. All kernels release the GIL, so that threads share the pieces.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

GROUP = 4
"""So many rows are worked on together."""

ALIGNED = 16
"""Lines begin and end at multiples of this."""

PANEL = 16
"""So many rows of a factor are done before those below are changed; a multiple of GROUP."""

FAST = {"reassoc", "contract", "nsz"}


def padded(width: int) -> int:
    """The length of the lines of a stack.

    >>> padded(54)
    64
    """
    return -(-width // ALIGNED) * ALIGNED


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def pool(grams, out, total, begun):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write the upper triangle of a sum of matrices, (classes, width, width), or add it to what has begun.

    What is written is added to ``total`` as well.
    """
    classes, width = grams.shape[0], grams.shape[1]
    for i in range(width):
        if not begun:
            out[i, i - i % ALIGNED :] = 0.0
        line, sums = out[i, i:width], total[i, i:width]
        for c in range(0, classes, GROUP):
            if c + 3 < classes:
                g0, g1, g2, g3 = grams[c, i, i:], grams[c + 1, i, i:], grams[c + 2, i, i:], grams[c + 3, i, i:]
                for l in range(line.size):  # noqa: E741
                    value = (g0[l] + g1[l]) + (g2[l] + g3[l])
                    line[l] += value
                    sums[l] += value
            elif c + 2 < classes:
                g0, g1, g2 = grams[c, i, i:], grams[c + 1, i, i:], grams[c + 2, i, i:]
                for l in range(line.size):  # noqa: E741
                    value = (g0[l] + g1[l]) + g2[l]
                    line[l] += value
                    sums[l] += value
            else:
                g0, g1 = grams[c, i, i:], grams[classes - 1, i, i:]
                share = 1.0 if c + 1 < classes else 0.0
                for l in range(line.size):  # noqa: E741
                    value = g0[l] + share * g1[l]
                    line[l] += value
                    sums[l] += value


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def take_off(system, length, k, i):  # type: ignore[no-untyped-def] # pragma: no cover
    """Take the products with four rows of the factor, from ``k`` on, off four rows from ``i`` on.

    Four of each, because a short loop takes as long to begin as to run. What is written to the left of the diagonal is
    never read.
    """
    start = i - i % ALIGNED
    p0, p1 = system[k, start:length], system[k + 1, start:length]
    p2, p3 = system[k + 2, start:length], system[k + 3, start:length]
    a0, a1, a2, a3 = system[k, i], system[k + 1, i], system[k + 2, i], system[k + 3, i]
    b0, b1, b2, b3 = system[k, i + 1], system[k + 1, i + 1], system[k + 2, i + 1], system[k + 3, i + 1]
    c0, c1, c2, c3 = system[k, i + 2], system[k + 1, i + 2], system[k + 2, i + 2], system[k + 3, i + 2]
    d0, d1, d2, d3 = system[k, i + 3], system[k + 1, i + 3], system[k + 2, i + 3], system[k + 3, i + 3]
    one, two = system[i, start:length], system[i + 1, start:length]
    three, four = system[i + 2, start:length], system[i + 3, start:length]
    for l in range(one.size):  # noqa: E741
        q0, q1, q2, q3 = p0[l], p1[l], p2[l], p3[l]
        one[l] -= (a0 * q0 + a1 * q1) + (a2 * q2 + a3 * q3)
        two[l] -= (b0 * q0 + b1 * q1) + (b2 * q2 + b3 * q3)
        three[l] -= (c0 * q0 + c1 * q1) + (c2 * q2 + c3 * q3)
        four[l] -= (d0 * q0 + d1 * q1) + (d2 * q2 + d3 * q3)


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def cholesky(system, length):  # type: ignore[no-untyped-def] # pragma: no cover
    """Factor [S B] into [U U^-T B] in place, with U'U = S, row by row; False if S is not positive definite.

    The number of rows is a multiple of :data:`GROUP`.
    """
    rows = system.shape[0]
    for panel in range(0, rows, PANEL):
        end = min(panel + PANEL, rows)
        for k in range(panel, end, GROUP):
            for p in range(k, k + GROUP):
                if not system[p, p] > 0.0:
                    return False
                root = np.sqrt(system[p, p])
                inverse, pivot = 1.0 / root, system[p, p - p % ALIGNED : length]
                for l in range(pivot.size):  # noqa: E741
                    pivot[l] *= inverse
                system[p, p] = root
                for r in range(p + 1, k + GROUP):
                    share, line = system[p, r], system[r, p - p % ALIGNED : length]
                    for l in range(line.size):  # noqa: E741
                        line[l] -= share * pivot[l]
            for i in range(k + GROUP, end, GROUP):
                take_off(system, length, k, i)
        # The rows below are fetched once for the whole panel.
        for i in range(end, rows, GROUP):
            for k in range(panel, end, GROUP):
                take_off(system, length, k, i)
    return True


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def solve_without(at, stack, whole, left, right, ridge, columns, squares, after):  # type: ignore[no-untyped-def] # pragma: no cover
    """Solve the systems of all but one piece, in place of their columns, for each of the pieces ``at``.

    The system is whole - gram - left'right - right'left + diag(ridge). ``squares`` gets its diagonal without the ridge,
    and ``after`` the diagonal of its factor, or zeros where there is none.
    """
    width, count = whole.shape[0], columns.shape[1]
    rows = (width + GROUP - 1) // GROUP * GROUP
    length = (rows + count + ALIGNED - 1) // ALIGNED * ALIGNED
    system = np.zeros((rows, length + 8))  # no power of two, at which rows would get into each other's way in the cache
    for row in range(at.size):
        gram = stack[at[row]]
        l0, l1, r0, r1 = left[row, 0], left[row, 1], right[row, 0], right[row, 1]
        system[:] = 0.0
        for i in range(width, rows):
            system[i, i] = 1.0
        for i in range(width):
            a0, a1, b0, b1 = l0[i], l1[i], r0[i], r1[i]
            line, source, own = system[i, i:width], whole[i, i:], gram[i, i:width]
            u0, u1, v0, v1 = l0[i:], l1[i:], r0[i:], r1[i:]
            for l in range(line.size):  # noqa: E741
                line[l] = source[l] - own[l] - (a0 * v0[l] + b0 * u0[l]) - (a1 * v1[l] + b1 * u1[l])
            squares[row, i] = system[i, i]
            system[i, i] += ridge[row, i]
            for c in range(count):
                system[i, rows + c] = columns[row, c, i]
        if not cholesky(system, length):
            after[row] = 0.0
            continue
        for k in range(width - 1, -1, -1):
            after[row, k] = system[k, k]
            inverse, line = 1.0 / system[k, k], system[k, k + 1 : width]
            for c in range(count):
                known, total = columns[row, c, k + 1 :], 0.0
                for l in range(line.size):  # noqa: E741
                    total += line[l] * known[l]
                columns[row, c, k] = (system[k, rows + c] - total) * inverse


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def quadratic_forms(at, stack, coefs, out, full):  # type: ignore[no-untyped-def] # pragma: no cover
    """W M W' of the matrix of each piece, (pieces, models, planes, planes), or its diagonal only, in the first line.

    With T = W U, for the upper triangle U with half of the diagonal, it is T W' + W T'.
    """
    width, length, models, planes = stack.shape[1], stack.shape[2], coefs.shape[1], coefs.shape[2]
    turned, filled = np.empty(length), np.zeros((planes, length))
    even = width - width % GROUP
    for row in range(at.size):
        gram = stack[at[row]]
        for m in range(models):
            filled[:, :width] = coefs[row, m]
            for p in range(planes):
                w = filled[p]
                turned[:] = 0.0
                for i in range(0, width, GROUP):
                    start = i - i % ALIGNED
                    line, g0 = turned[start:], gram[i, start:]
                    if i < even:
                        g1, g2, g3 = gram[i + 1, start:], gram[i + 2, start:], gram[i + 3, start:]
                        w0, w1, w2, w3 = w[i], w[i + 1], w[i + 2], w[i + 3]
                        for l in range(line.size):  # noqa: E741
                            line[l] += (w0 * g0[l] + w1 * g1[l]) + (w2 * g2[l] + w3 * g3[l])
                    else:
                        for last in range(i, width):
                            w0, g0 = w[last], gram[last, start:]
                            for l in range(line.size):  # noqa: E741
                                line[l] += w0 * g0[l]
                for i in range(width):
                    turned[i] -= 0.5 * gram[i, i] * w[i]
                for q in range(planes if full else 1):
                    other, total = filled[q if full else p], 0.0
                    for l in range(length):  # noqa: E741
                        total += turned[l] * other[l]
                    if full:
                        out[row, m, p, q] = total
                    else:
                        out[row, m, 0, p] = 2.0 * total
            if full:
                for p in range(planes):
                    for q in range(p + 1):
                        total = out[row, m, p, q] + out[row, m, q, p]
                        out[row, m, p, q] = out[row, m, q, p] = total


@njit(nogil=True, error_model="numpy", cache=True)
def highest(means, covariances, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """The probability that the score of class c is the highest in class c, by the steps of ``orthant.all_above``.

    ``means`` (many, classes, classes), ``covariances`` (many, classes or 1, classes, classes), ``out`` (many, classes).
    """
    classes = means.shape[1]
    size = classes - 1
    mean, spread, z = np.empty(size), np.empty((size, size)), np.empty(size)
    order = np.empty(size, dtype=np.intp)
    for row in range(means.shape[0]):
        for c in range(classes):
            centre = means[row, c]
            covariance = covariances[row, c if covariances.shape[1] > 1 else 0]
            for a in range(size):
                rival = a if a < c else a + 1
                gap = centre[c] - centre[rival]
                variance = covariance[c, c] - 2.0 * covariance[c, rival] + covariance[rival, rival]
                score = gap / np.sqrt(variance) if variance > 0.0 else (np.inf if gap > 0.0 else -np.inf)
                place = a
                while place > 0 and z[place - 1] > score:
                    z[place], order[place] = z[place - 1], order[place - 1]
                    place -= 1
                z[place], order[place] = score, rival
            for a in range(size):
                one = order[a]
                mean[a] = centre[c] - centre[one]
                for b in range(a, size):
                    two = order[b]
                    spread[a, b] = covariance[c, c] - covariance[c, one] - covariance[c, two] + covariance[one, two]
            out[row, c] = _all_above(mean, spread)


@njit(nogil=True, error_model="numpy", cache=True)
def _all_above(mean, spread):  # type: ignore[no-untyped-def] # pragma: no cover
    """The probability that all are above zero, in this order; of the covariance the upper triangle is read."""
    share = 1.0
    for a in range(mean.size):
        variance = spread[a, a]
        if not variance > 0.0:
            # What does not vary is above zero, or not, and tells nothing of the others.
            if mean[a] <= 0.0:
                share *= 0.5 if mean[a] == 0.0 else 0.0
            continue
        inverse = 1.0 / np.sqrt(variance)
        z = mean[a] * inverse
        below = 0.5 * math.erfc(-z * math.sqrt(0.5))
        share *= below
        if share == 0.0:
            return 0.0
        hazard = math.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * below)
        shrunk = hazard * (hazard + z) * inverse * inverse
        for b in range(a + 1, mean.size):
            mean[b] += spread[a, b] * inverse * hazard
            slope = spread[a, b] * shrunk
            for d in range(b, mean.size):
                spread[b, d] -= slope * spread[a, d]
    return share
