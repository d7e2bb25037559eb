"""Compiled steps of recursive least squares: one row at a time, with nothing allocated.

The arrays of the state are described in :class:`~mergesvm.methods.recursive.rls.RecursiveLeastSquares`. Of the inverse
only the
upper triangle is kept, with whole squares of four along the diagonal, and changes of rank one wait until there are
:data:`DEPTH` of them: so most rows only read the triangle, once.
"""

from __future__ import annotations

import numpy as np
from numba import njit

DEPTH = 8
"""So many changes of rank one wait before they are written into the inverse."""

GROUP = 4
"""The width is filled up to a multiple of this."""

ANCHOR, MEAN, PULL, NEAR, GAIN, RIDGE = range(6)
"""The lines of ``vectors``: a point among the rows, their mean from there on, ..."""

COUNT, SCALE, LOSS = range(3)
"""The places of ``scalars``."""

FILLED, CURSOR = range(2)
"""The places of ``whole``."""

OLDEST, HELD = range(2)
"""The places of ``ring_state``."""

DONE, REFUSED, LOST = range(3)
"""What became of a row: it was taken; it was not finite; or the inverse has to be computed afresh."""

LEAST = 1e-9
"""A row is not taken back that weighs so much, or on which so much depends, that only this share would be left."""

STEEP = 0.1
"""Where a row that goes leaves less than this share, errors made before grow by as much."""

LARGEST = 1e200
"""Squared distances beyond this are refused."""

EPSILON = 2.0**-52

FAST = {"reassoc", "contract", "nsz"}


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True, inline="always")
def dot(one, other):  # type: ignore[no-untyped-def] # pragma: no cover
    """The inner product."""
    total = 0.0
    for l in range(one.size):  # noqa: E741
        total += one[l] * other[l]
    return total


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True, inline="always")
def is_finite(row, anchor):  # type: ignore[no-untyped-def] # pragma: no cover
    """Whether a row is of numbers that can be squared."""
    size = 0.0
    for l in range(row.size):  # noqa: E741
        size += (row[l] - anchor[l]) * (row[l] - anchor[l])
    return size < LARGEST


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def times_inverse(inverse, waiting, signs, filled, scale, near, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """``out`` = scale (inverse - sum of signs r r') near, of the upper triangle."""
    width = near.size
    out[:] = 0.0
    for j in range(0, width, GROUP):
        n0, n1, n2, n3 = near[j], near[j + 1], near[j + 2], near[j + 3]
        p0, p1, p2, p3 = inverse[j, j:], inverse[j + 1, j:], inverse[j + 2, j:], inverse[j + 3, j:]
        corner = out[j:]
        for l in range(GROUP):  # noqa: E741
            corner[l] += n0 * p0[l] + n1 * p1[l] + n2 * p2[l] + n3 * p3[l]
        p0, p1 = inverse[j, j + GROUP :], inverse[j + 1, j + GROUP :]
        p2, p3 = inverse[j + 2, j + GROUP :], inverse[j + 3, j + GROUP :]
        right, behind = out[j + GROUP :], near[j + GROUP :]
        s0 = s1 = s2 = s3 = 0.0
        for l in range(right.size):  # noqa: E741
            right[l] += n0 * p0[l] + n1 * p1[l] + n2 * p2[l] + n3 * p3[l]
            s0 += p0[l] * behind[l]
            s1 += p1[l] * behind[l]
            s2 += p2[l] * behind[l]
            s3 += p3[l] * behind[l]
        out[j] += s0
        out[j + 1] += s1
        out[j + 2] += s2
        out[j + 3] += s3
    for b in range(filled):
        share = signs[b] * dot(waiting[b], near)
        line = waiting[b]
        for l in range(width):  # noqa: E741
            out[l] -= share * line[l]
    if scale != 1.0:
        for l in range(width):  # noqa: E741
            out[l] *= scale


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def write_waiting(inverse, waiting, signs, scalars, whole):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write the changes that wait into the upper triangle of the inverse, and its scale."""
    width, filled, scale = inverse.shape[0], whole[FILLED], scalars[SCALE]
    waiting[filled:] = 0.0
    signs[filled:] = 1.0
    for j in range(
        0, width, GROUP
    ):  # four lines by four changes at a time: each number that is loaded is used four times
        p0, p1, p2, p3 = inverse[j, j:], inverse[j + 1, j:], inverse[j + 2, j:], inverse[j + 3, j:]
        for b in range(0, filled, GROUP):
            w0, w1, w2, w3 = waiting[b, j:], waiting[b + 1, j:], waiting[b + 2, j:], waiting[b + 3, j:]
            s0, s1, s2, s3 = signs[b], signs[b + 1], signs[b + 2], signs[b + 3]
            a0, a1, a2, a3 = s0 * w0[0], s1 * w1[0], s2 * w2[0], s3 * w3[0]
            b0, b1, b2, b3 = s0 * w0[1], s1 * w1[1], s2 * w2[1], s3 * w3[1]
            c0, c1, c2, c3 = s0 * w0[2], s1 * w1[2], s2 * w2[2], s3 * w3[2]
            d0, d1, d2, d3 = s0 * w0[3], s1 * w1[3], s2 * w2[3], s3 * w3[3]
            for l in range(p0.size):  # noqa: E741
                v0, v1, v2, v3 = w0[l], w1[l], w2[l], w3[l]
                p0[l] -= a0 * v0 + a1 * v1 + a2 * v2 + a3 * v3
                p1[l] -= b0 * v0 + b1 * v1 + b2 * v2 + b3 * v3
                p2[l] -= c0 * v0 + c1 * v1 + c2 * v2 + c3 * v3
                p3[l] -= d0 * v0 + d1 * v1 + d2 * v2 + d3 * v3
        if scale != 1.0:
            for l in range(p0.size):  # noqa: E741
                p0[l] *= scale
                p1[l] *= scale
                p2[l] *= scale
                p3[l] *= scale
    scalars[SCALE], whole[FILLED] = 1.0, 0


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def change_inverse(share, inverse, waiting, signs, vectors, scalars, whole):  # type: ignore[no-untyped-def] # pragma: no cover
    """Inverse - share s s', for s in ``vectors[GAIN]``; it waits with others."""
    if share == 0.0:
        return
    filled = whole[FILLED]
    root = np.sqrt(abs(share) / scalars[SCALE])
    line, gain = waiting[filled], vectors[GAIN]
    for l in range(gain.size):  # noqa: E741
        line[l] = root * gain[l]
    signs[filled] = 1.0 if share > 0 else -1.0
    whole[FILLED] = filled + 1
    if filled + 1 == DEPTH:
        write_waiting(inverse, waiting, signs, scalars, whole)


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def change_row(  # type: ignore[no-untyped-def] # pragma: no cover
    row, code, weight, inverse, waiting, signs, coefs, vectors, target_means, scalars, whole
):
    """Add a row of positive weight, or take back one of negative weight."""
    anchor, mean = vectors[ANCHOR], vectors[MEAN]
    pull, near, gain = vectors[PULL], vectors[NEAR], vectors[GAIN]
    before = scalars[COUNT]
    after = before + weight
    if before == 0.0:
        if not is_finite(row, anchor):
            return REFUSED
        for l in range(row.size):  # noqa: E741
            anchor[l], mean[l], near[l] = row[l], 0.0, row[l]
        times_inverse(inverse, waiting, signs, whole[FILLED], scalars[SCALE], near, pull)
        for c in range(target_means.size):
            target_means[c] = 1.0 if c == code else -1.0
        scalars[COUNT] = after
        return DONE
    if weight > 0:
        stretch, kappa, theta = 1.0, before * weight / after, weight / after
    elif after > LEAST * before:
        stretch, kappa, theta = before / after, after * weight / before, weight / before
    else:
        return LOST
    size = place = 0.0
    for l in range(row.size):  # noqa: E741
        near[l] = stretch * ((row[l] - anchor[l]) - mean[l])
        size += near[l] * near[l]
        place += mean[l] * mean[l]
    if not size < LARGEST:
        return REFUSED
    times_inverse(inverse, waiting, signs, whole[FILLED], scalars[SCALE], near, gain)
    rest = 1.0 + kappa * dot(near, gain)
    if not rest > LEAST or not rest < np.inf:
        return LOST
    share = kappa / rest
    for c in range(target_means.size):
        target = stretch * ((1.0 if c == code else -1.0) - target_means[c])
        line = coefs[c]
        step = share * (target - dot(line, near))
        for l in range(line.size):  # noqa: E741
            line[l] += step * gain[l]
        target_means[c] += theta * target
    step = theta / rest - share * dot(near, pull)
    for l in range(near.size):  # noqa: E741
        pull[l] += step * gain[l]
        mean[l] += theta * near[l]
    scalars[COUNT] = after
    rounding = EPSILON * stretch * (1.0 + np.sqrt(place / size)) if size > 0 else EPSILON
    if rest < STEEP:
        scalars[LOSS] = (scalars[LOSS] + rounding + EPSILON) / rest
    else:
        scalars[LOSS] += rounding + EPSILON * max(rest, 1.0 / rest)
    change_inverse(share, inverse, waiting, signs, vectors, scalars, whole)
    return DONE


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def fade(forgetting, ridge, restored, inverse, waiting, signs, coefs, vectors, scalars, whole, width):  # type: ignore[no-untyped-def] # pragma: no cover
    """Let all rows fade by a factor, and with them the penalty, of which some coordinates are restored in turn."""
    scalars[COUNT] *= forgetting
    scalars[SCALE] /= forgetting
    pull, gain = vectors[PULL], vectors[GAIN]
    for l in range(width):  # noqa: E741
        pull[l] /= forgetting
        vectors[RIDGE, l] *= forgetting
    for _ in range(restored):
        at = whole[CURSOR]
        whole[CURSOR] = (at + 1) % width
        lack = ridge - vectors[RIDGE, at]
        vectors[RIDGE, at] = ridge
        # A line of the inverse: what a row of one entry would be multiplied to.
        for l in range(gain.size):  # noqa: E741
            gain[l] = inverse[l, at] if l < at else inverse[at, l]
        for b in range(whole[FILLED]):
            share = signs[b] * waiting[b, at]
            for l in range(gain.size):  # noqa: E741
                gain[l] -= share * waiting[b, l]
        for l in range(gain.size):  # noqa: E741
            gain[l] *= scalars[SCALE]
        share = lack / (1.0 + lack * gain[at])
        for c in range(coefs.shape[0]):
            step = share * coefs[c, at]
            for l in range(gain.size):  # noqa: E741
                coefs[c, l] -= step * gain[l]
        step = share * pull[at]
        for l in range(gain.size):  # noqa: E741
            pull[l] -= step * gain[l]
        change_inverse(share, inverse, waiting, signs, vectors, scalars, whole)


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def score_row(row, penalty, coefs, vectors, target_means, scalars, scores):  # type: ignore[no-untyped-def] # pragma: no cover
    """Scores of a row for all classes; ``penalty`` is that of the intercept, C or infinity."""
    anchor, mean, pull = vectors[ANCHOR], vectors[MEAN], vectors[PULL]
    width, count = row.size, scalars[COUNT]
    along = square = 0.0
    for l in range(width):  # noqa: E741
        along += ((row[l] - anchor[l]) - mean[l]) * pull[l]
        square += (anchor[l] + mean[l]) * pull[l]
    for c in range(scores.size):
        score = target_means[c]
        origin = 0.0
        for l in range(width):  # noqa: E741
            score += ((row[l] - anchor[l]) - mean[l]) * coefs[c, l]
            origin += (anchor[l] + mean[l]) * coefs[c, l]
        if count > 0:
            score += (target_means[c] - origin) / (penalty + square + 1.0 / count) * (along - 1.0 / count)
        scores[c] = score


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def best_class(row, penalty, coefs, vectors, target_means, rows, scalars, scores):  # type: ignore[no-untyped-def] # pragma: no cover
    """The class of the highest score among those that have rows; -1 if none has, -2 for what is no row of numbers."""
    if not is_finite(row, vectors[ANCHOR]):
        return -2
    score_row(row, penalty, coefs, vectors, target_means, scalars, scores)
    best, highest = -1, -np.inf
    for c in range(scores.size):
        if rows[c] > 0 and (best < 0 or scores[c] > highest):
            best, highest = c, scores[c]
    return best


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def learn_row(  # type: ignore[no-untyped-def] # pragma: no cover
    row, code, weight, factors, inverse, waiting, signs, coefs, vectors, target_means, rows, scalars, whole
):
    """Learn one row, where nothing fades and nothing leaves a window: a call with few arguments is soon made."""
    status = DONE if is_finite(row, vectors[ANCHOR]) else REFUSED
    if status == DONE and weight * factors[code] > 0:
        status = change_row(
            row, code, weight * factors[code], inverse, waiting, signs, coefs, vectors, target_means, scalars, whole
        )
    if status != REFUSED:
        rows[code] += 1
    return status


@njit(nogil=True, error_model="numpy", fastmath=FAST, cache=True)
def learn_rows(  # type: ignore[no-untyped-def] # pragma: no cover
    block,
    codes,
    weights,
    forgetting,
    ridge,
    restored,
    penalty,
    factors,
    inverse,
    waiting,
    signs,
    coefs,
    vectors,
    target_means,
    rows,
    scalars,
    whole,
    ring,
    ring_codes,
    ring_weights,
    ring_state,
    scores,
    predicted,
):
    """Learn rows one after another; each may be predicted before it is learned. Returns how many, and what ended it."""
    window, width = ring.shape[0], block.shape[1]
    faded = forgetting**window
    for i in range(block.shape[0]):
        row, code = block[i], codes[i]
        if forgetting != 1.0 and not is_finite(row, vectors[ANCHOR]):
            return i, REFUSED  # before anything fades for it
        if predicted.size > 0:
            predicted[i] = best_class(row, penalty, coefs, vectors, target_means, rows, scalars, scores)
        if code < 0:
            continue
        weight = weights[i] if weights.size > 0 else 1.0
        if forgetting != 1.0:
            fade(forgetting, ridge, restored, inverse, waiting, signs, coefs, vectors, scalars, whole, width)
        status = DONE
        if weight * factors[code] > 0:
            status = change_row(
                row,
                code,
                weight * factors[code],
                inverse,
                waiting,
                signs,
                coefs,
                vectors,
                target_means,
                scalars,
                whole,
            )
        elif not is_finite(row, vectors[ANCHOR]):
            status = REFUSED
        if status == REFUSED:
            return i, status
        rows[code] += 1
        if window > 0:
            at = (ring_state[OLDEST] + ring_state[HELD]) % window
            if ring_state[HELD] == window:
                old, gone = ring_codes[at], ring_weights[at] * faded * factors[ring_codes[at]]
                if gone > 0 and status == DONE:
                    status = change_row(
                        ring[at], old, -gone, inverse, waiting, signs, coefs, vectors, target_means, scalars, whole
                    )
                    if status == REFUSED:
                        status = LOST
                rows[old] -= 1
                ring_state[OLDEST] = (at + 1) % window
            else:
                ring_state[HELD] += 1
            ring[at] = row
            ring_codes[at] = code
            ring_weights[at] = weight
        if status == LOST:
            return i + 1, status
    return block.shape[0], DONE
