"""Compiled functions of recursive least squares: one row at a time, without allocations.

See :class:`~mergesvm.methods.recursive.rls_state.RLSState` for the arrays. Only the upper triangle of the inverse is
kept, with full squares along the diagonal. Rank-one updates are collected until there are ``MAX_PENDING`` of them, so
that most rows read the triangle once and do not write to it. Importing this module loads numba.
"""

from __future__ import annotations

import numpy as np

from mergesvm.jit import compiled
from mergesvm.methods.proximal.factor import EPSILON
from mergesvm.methods.recursive.state_layout import (
    ANCHOR,
    DEVIATION,
    GAIN,
    INACCURATE,
    INVERSE_MEAN,
    LANES,
    LEARNED,
    MAX_PENDING,
    MAX_PREDICTED_ROUNDING,
    MEAN,
    MIN_REMAINING,
    N_HELD,
    N_PENDING,
    NOT_FINITE,
    OLDEST,
    RIDGE,
    RIDGE_CURSOR,
    ROUNDING,
    SCALE,
    TOTAL_WEIGHT,
)

AMPLIFYING_PIVOT = 0.1
"""Below this pivot, subtracting a row amplifies earlier rounding errors by its reciprocal."""

MAX_SQUARED_DISTANCE = 1e200
"""Rows at a larger squared distance are rejected as not finite."""

FASTMATH = {"reassoc", "contract", "nsz"}

EXACT = {"nsz"}
"""For functions in which the order of operations matters: without a value they would inherit that of their callers."""


@compiled(fastmath=FASTMATH, inline="always")
def dot(one, other):  # type: ignore[no-untyped-def] # pragma: no cover
    """Inner product."""
    total = 0.0
    for l in range(one.size):  # noqa: E741
        total += one[l] * other[l]
    return total


@compiled(fastmath=FASTMATH, inline="always")
def is_finite(row, anchor):  # type: ignore[no-untyped-def] # pragma: no cover
    """Whether the squared distance of a row from the anchor is finite, and not too large."""
    size = 0.0
    for l in range(row.size):  # noqa: E741
        size += (row[l] - anchor[l]) * (row[l] - anchor[l])
    return size < MAX_SQUARED_DISTANCE


@compiled(fastmath=EXACT)
def centre(row, stretch, vectors):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write stretch (row - anchor - mean) to ``vectors[DEVIATION]``; zero beyond the row.

    Reassociated to row - (anchor + mean), rows far from the origin would lose digits.
    """
    anchor, mean, deviation = vectors[ANCHOR], vectors[MEAN], vectors[DEVIATION]
    for l in range(row.size):  # noqa: E741
        deviation[l] = stretch * ((row[l] - anchor[l]) - mean[l])
    deviation[row.size :] = 0.0


@compiled(fastmath=FASTMATH)
def times_inverse(inverse, pending, signs, n_pending, scale, deviation, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """``out`` = scale (inverse - sum of signs r r') deviation, from the upper triangle and the pending updates r."""
    width = deviation.size
    out[:] = 0.0
    for j in range(0, width, LANES):
        n0, n1, n2, n3 = deviation[j], deviation[j + 1], deviation[j + 2], deviation[j + 3]
        p0, p1, p2, p3 = inverse[j, j:], inverse[j + 1, j:], inverse[j + 2, j:], inverse[j + 3, j:]
        corner = out[j:]
        for l in range(LANES):  # noqa: E741
            corner[l] += n0 * p0[l] + n1 * p1[l] + n2 * p2[l] + n3 * p3[l]
        p0, p1 = inverse[j, j + LANES :], inverse[j + 1, j + LANES :]
        p2, p3 = inverse[j + 2, j + LANES :], inverse[j + 3, j + LANES :]
        right, behind = out[j + LANES :], deviation[j + LANES :]
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
    for b in range(n_pending):
        factor = signs[b] * dot(pending[b], deviation)
        line = pending[b]
        for l in range(width):  # noqa: E741
            out[l] -= factor * line[l]
    if scale != 1.0:
        for l in range(width):  # noqa: E741
            out[l] *= scale


@compiled(fastmath=FASTMATH)
def write_pending(inverse, pending, signs, scalars, counters):  # type: ignore[no-untyped-def] # pragma: no cover
    """Write the pending updates and the scale into the upper triangle of the inverse."""
    width, n_pending, scale = inverse.shape[0], counters[N_PENDING], scalars[SCALE]
    pending[n_pending:] = 0.0
    signs[n_pending:] = 1.0
    for j in range(0, width, LANES):  # four rows by four updates, so that each loaded number is used four times
        p0, p1, p2, p3 = inverse[j, j:], inverse[j + 1, j:], inverse[j + 2, j:], inverse[j + 3, j:]
        for b in range(0, n_pending, LANES):
            w0, w1, w2, w3 = pending[b, j:], pending[b + 1, j:], pending[b + 2, j:], pending[b + 3, j:]
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
    scalars[SCALE], counters[N_PENDING] = 1.0, 0


@compiled(fastmath=FASTMATH)
def update_inverse(factor, inverse, pending, signs, vectors, scalars, counters):  # type: ignore[no-untyped-def] # pragma: no cover
    """Subtract factor s s' from the inverse, for s in ``vectors[GAIN]``, as a pending update."""
    if factor == 0.0:
        return
    n_pending = counters[N_PENDING]
    root = np.sqrt(abs(factor) / scalars[SCALE])
    line, gain = pending[n_pending], vectors[GAIN]
    for l in range(gain.size):  # noqa: E741
        line[l] = root * gain[l]
    signs[n_pending] = 1.0 if factor > 0 else -1.0
    counters[N_PENDING] = n_pending + 1
    if n_pending + 1 == MAX_PENDING:
        write_pending(inverse, pending, signs, scalars, counters)


@compiled(fastmath=FASTMATH)
def update(  # type: ignore[no-untyped-def] # pragma: no cover
    row, code, weight, inverse, pending, signs, coefs, vectors, target_means, scalars, counters
):
    """Add a row of positive weight, or subtract one of negative weight."""
    anchor, mean = vectors[ANCHOR], vectors[MEAN]
    inverse_mean, deviation, gain = vectors[INVERSE_MEAN], vectors[DEVIATION], vectors[GAIN]
    before = scalars[TOTAL_WEIGHT]
    after = before + weight
    if before == 0.0:
        if not is_finite(row, anchor):
            return NOT_FINITE
        for l in range(row.size):  # noqa: E741
            anchor[l], mean[l], deviation[l] = row[l], 0.0, row[l]
        times_inverse(inverse, pending, signs, counters[N_PENDING], scalars[SCALE], deviation, inverse_mean)
        for c in range(target_means.size):
            target_means[c] = 1.0 if c == code else -1.0
        scalars[TOTAL_WEIGHT] = after
        return LEARNED
    if weight > 0:
        stretch, kappa, theta = 1.0, before * weight / after, weight / after
    elif after > MIN_REMAINING * before:
        stretch, kappa, theta = before / after, after * weight / before, weight / before
    else:
        return INACCURATE
    centre(row, stretch, vectors)
    size = place = 0.0
    for l in range(row.size):  # noqa: E741
        size += deviation[l] * deviation[l]
        place += mean[l] * mean[l]
    if not size < MAX_SQUARED_DISTANCE:
        return NOT_FINITE
    times_inverse(inverse, pending, signs, counters[N_PENDING], scalars[SCALE], deviation, gain)
    rest = 1.0 + kappa * dot(deviation, gain)
    if not rest > MIN_REMAINING or not rest < np.inf:
        return INACCURATE
    factor = kappa / rest
    for c in range(target_means.size):
        target = stretch * ((1.0 if c == code else -1.0) - target_means[c])
        line = coefs[c]
        step = factor * (target - dot(line, deviation))
        for l in range(line.size):  # noqa: E741
            line[l] += step * gain[l]
        target_means[c] += theta * target
    step = theta / rest - factor * dot(deviation, inverse_mean)
    for l in range(deviation.size):  # noqa: E741
        inverse_mean[l] += step * gain[l]
        mean[l] += theta * deviation[l]
    scalars[TOTAL_WEIGHT] = after
    rounding = EPSILON * stretch * (1.0 + np.sqrt(place / size)) if size > 0 else EPSILON
    if rest < AMPLIFYING_PIVOT:
        scalars[ROUNDING] = (scalars[ROUNDING] + rounding + EPSILON) / rest
    else:
        scalars[ROUNDING] += rounding + EPSILON * max(rest, 1.0 / rest)
    update_inverse(factor, inverse, pending, signs, vectors, scalars, counters)
    return LEARNED


@compiled(fastmath=FASTMATH)
def decay(forgetting, ridge, restored, inverse, pending, signs, coefs, vectors, scalars, counters, width):  # type: ignore[no-untyped-def] # pragma: no cover
    """Multiply all weights and the ridge by ``forgetting``, and restore some coordinates of the ridge in turn."""
    scalars[TOTAL_WEIGHT] *= forgetting
    scalars[SCALE] /= forgetting
    inverse_mean, gain = vectors[INVERSE_MEAN], vectors[GAIN]
    for l in range(width):  # noqa: E741
        inverse_mean[l] /= forgetting
        vectors[RIDGE, l] *= forgetting
    for _ in range(restored):
        at = counters[RIDGE_CURSOR]
        counters[RIDGE_CURSOR] = (at + 1) % width
        deficit = ridge - vectors[RIDGE, at]
        vectors[RIDGE, at] = ridge
        # Row ``at`` of the inverse.
        for l in range(gain.size):  # noqa: E741
            gain[l] = inverse[l, at] if l < at else inverse[at, l]
        for b in range(counters[N_PENDING]):
            factor = signs[b] * pending[b, at]
            for l in range(gain.size):  # noqa: E741
                gain[l] -= factor * pending[b, l]
        for l in range(gain.size):  # noqa: E741
            gain[l] *= scalars[SCALE]
        factor = deficit / (1.0 + deficit * gain[at])
        for c in range(coefs.shape[0]):
            step = factor * coefs[c, at]
            for l in range(gain.size):  # noqa: E741
                coefs[c, l] -= step * gain[l]
        step = factor * inverse_mean[at]
        for l in range(gain.size):  # noqa: E741
            inverse_mean[l] -= step * gain[l]
        update_inverse(factor, inverse, pending, signs, vectors, scalars, counters)


@compiled(fastmath=FASTMATH)
def score_row(row, intercept_penalty, coefs, vectors, target_means, scalars, scores):  # type: ignore[no-untyped-def] # pragma: no cover
    """Scores of a row for all classes; ``intercept_penalty`` is C, infinity for a free intercept, or 0."""
    anchor, mean, inverse_mean = vectors[ANCHOR], vectors[MEAN], vectors[INVERSE_MEAN]
    deviation, count = vectors[DEVIATION], scalars[TOTAL_WEIGHT]
    centre(row, 1.0, vectors)
    along, square = dot(deviation, inverse_mean), 0.0
    for l in range(row.size):  # noqa: E741
        square += (anchor[l] + mean[l]) * inverse_mean[l]
    for c in range(scores.size):
        line = coefs[c]
        score = target_means[c] + dot(deviation, line)
        origin = 0.0
        for l in range(row.size):  # noqa: E741
            origin += (anchor[l] + mean[l]) * line[l]
        if count > 0:
            score += (target_means[c] - origin) / (intercept_penalty + square + 1.0 / count) * (along - 1.0 / count)
        scores[c] = score


@compiled(fastmath=FASTMATH)
def best_class(  # type: ignore[no-untyped-def] # pragma: no cover
    row, intercept_penalty, coefs, vectors, target_means, class_rows, scalars, ranks, scores
):
    """Class with the highest score among those with rows; -1 if there is none, -2 if the row is not finite.

    ``ranks`` are the places of the classes in sorted order. Ties are decided as by a one-vs-rest model: the first of
    several classes, and the second of two.
    """
    if not is_finite(row, vectors[ANCHOR]):
        return -2
    score_row(row, intercept_penalty, coefs, vectors, target_means, scalars, scores)
    present, best, last = 0, -1, -1
    for c in range(scores.size):
        if class_rows[c] > 0:
            present += 1
            if best < 0 or scores[c] > scores[best] or (scores[c] == scores[best] and ranks[c] < ranks[best]):
                best = c
            if last < 0 or ranks[c] > ranks[last]:
                last = c
    return last if present == 2 and scores[last] == scores[best] else best


@compiled(fastmath=FASTMATH)
def learn_row(  # type: ignore[no-untyped-def] # pragma: no cover
    row, code, weight, inverse, pending, signs, coefs, vectors, target_means, class_rows, scalars, counters
):
    """Learn one row, without forgetting or a window: calls with few arguments are faster."""
    status = LEARNED if is_finite(row, vectors[ANCHOR]) else NOT_FINITE
    if status == LEARNED and weight > 0:
        status = update(row, code, weight, inverse, pending, signs, coefs, vectors, target_means, scalars, counters)
    if status != NOT_FINITE:
        class_rows[code] += 1
    return status


@compiled(fastmath=FASTMATH)
def learn_rows(  # type: ignore[no-untyped-def] # pragma: no cover
    block,
    codes,
    weights,
    forgetting,
    ridge,
    restored,
    intercept_penalty,
    class_weights,
    inverse,
    pending,
    signs,
    coefs,
    vectors,
    target_means,
    class_rows,
    scalars,
    counters,
    ring,
    ring_codes,
    ring_weights,
    ring_state,
    ranks,
    scores,
    predicted,
):
    """Learn rows one by one, each optionally predicted before. Returns how many were learned, and the last status."""
    window, width = ring.shape[0], block.shape[1]
    faded = forgetting**window
    for i in range(block.shape[0]):
        row, code, weight = block[i], codes[i], weights[i]
        if forgetting != 1.0 and not is_finite(row, vectors[ANCHOR]):
            return i, NOT_FINITE  # before it makes other rows decay
        if predicted.size > 0:
            if scalars[ROUNDING] > MAX_PREDICTED_ROUNDING:
                return i, INACCURATE
            predicted[i] = best_class(
                row, intercept_penalty, coefs, vectors, target_means, class_rows, scalars, ranks, scores
            )
        if forgetting != 1.0:
            decay(forgetting, ridge, restored, inverse, pending, signs, coefs, vectors, scalars, counters, width)
        status, full = LEARNED, weight * class_weights[code]
        if full > 0:
            status = update(row, code, full, inverse, pending, signs, coefs, vectors, target_means, scalars, counters)
        elif not is_finite(row, vectors[ANCHOR]):
            status = NOT_FINITE
        if status == NOT_FINITE:
            return i, status
        class_rows[code] += 1
        if window > 0:
            at = (ring_state[OLDEST] + ring_state[N_HELD]) % window
            if ring_state[N_HELD] == window:
                old, gone = ring_codes[at], ring_weights[at] * faded * class_weights[ring_codes[at]]
                if gone > 0 and status == LEARNED:
                    status = update(
                        ring[at], old, -gone, inverse, pending, signs, coefs, vectors, target_means, scalars, counters
                    )
                class_rows[old] -= 1
                ring_state[OLDEST] = (at + 1) % window
            else:
                ring_state[N_HELD] += 1
            ring[at], ring_codes[at], ring_weights[at] = row, code, weight
        if status != LEARNED:
            return i + 1, INACCURATE
    return block.shape[0], LEARNED
