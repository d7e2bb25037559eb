"""Compiled updates of scores f = K (y alpha), of alpha, and of cached kernel values.

All functions release the GIL. Array indices are unsigned: numba then omits the test for negative indices.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.jit import compiled
from mergesvm.methods.kernel.jit.smo import BOUND_TOLERANCE
from mergesvm.models.kernel_values_jit import kernel_block

SUM_MATH = {"reassoc", "contract", "nsz"}
"""Compiler flags: sums may be reordered, but NaN and infinity are respected."""

MAX_BLOCK_ROWS = 1024
"""Kernel values of at most this number of changed rows are computed at a time."""


@compiled
def change_alphas(alpha, bound, moved, starts, ids, steps, pairs, codes, entry_starts, rows, positions):  # type: ignore[no-untyped-def] # pragma: no cover
    """Change alpha of a unit's own rows by steps of y alpha; an alpha next to a bound is set to the bound.

    Problem moved[k] has the steps starts[k] to starts[k + 1]. ``codes`` are the classes of the shared rows, ``rows``
    the rows of this unit that they are, or -1, and ``positions`` the positions of these within their class.
    """
    for k in range(moved.size):
        p = moved[k]
        for entry in range(starts[k], starts[k + 1]):
            row = rows[ids[entry]]
            if row < 0:
                continue
            side = 1 if pairs[p, 1] == codes[ids[entry]] else 0
            at = entry_starts[p, side] + positions[row]
            step = steps[entry] if side else -steps[entry]
            new = alpha[at] + step
            if new < BOUND_TOLERANCE * min(bound[at], alpha[at] + abs(step)):
                new = 0.0
            alpha[at] = bound[at] if new > bound[at] * (1 - BOUND_TOLERANCE) else new


@compiled(fastmath=SUM_MATH)
def add_columns(score, score_starts, starts, slots, steps, columns, count):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add columns of the kernel matrix times steps of y alpha to the scores of one class, for many problems.

    Problem k has the entries starts[k] to starts[k + 1] of slots and steps, and its scores begin at score_starts[k].
    """
    block = 2048
    part = np.empty(block, dtype=columns.dtype)
    for begin in range(0, count, block):
        size = uint64(min(block, count - begin))
        for k in range(score_starts.size):
            if starts[k] == starts[k + 1]:
                continue
            for t in range(size):
                part[t] = 0
            entry = starts[k]
            while entry + 3 < starts[k + 1]:  # four columns at a time, to load and store the sums less often
                one, two = columns[slots[entry], begin:], columns[slots[entry + 1], begin:]
                three, four = columns[slots[entry + 2], begin:], columns[slots[entry + 3], begin:]
                d = columns.dtype.type(steps[entry])
                e = columns.dtype.type(steps[entry + 1])
                f = columns.dtype.type(steps[entry + 2])
                g = columns.dtype.type(steps[entry + 3])
                for t in range(size):
                    part[t] += d * one[t] + e * two[t] + f * three[t] + g * four[t]
                entry += 4
            while entry < starts[k + 1]:
                one = columns[slots[entry], begin:]
                d = columns.dtype.type(steps[entry])
                for t in range(size):
                    part[t] += d * one[t]
                entry += 1
            out = score[score_starts[k] + begin :]
            for t in range(size):
                out[t] += part[t]


@compiled(fastmath=SUM_MATH)
def add_within_classes(  # type: ignore[no-untyped-def]
    score, sides, side_starts, score_starts, counts, offsets, own, starts, ids, steps, shared, used, used_starts, kernel
):  # pragma: no cover
    """Add the effect of steps on the scores of rows of the same class, for many problems, without caching.

    Problem k has the entries starts[k] to starts[k + 1] of ids (of the turned ``shared`` rows) and of steps. The ids of
    class c among them are used[used_starts[c] : used_starts[c + 1]]; the problems and sides of class c, as
    2 k + side, are sides[side_starts[c] : side_starts[c + 1]]. The rows of a side are those of ``own``, the lifted rows
    of the unit, from offsets[k, side] on, and their scores begin at score_starts[k, side]. Kernel values are computed
    once for all problems of a class.
    """
    positions = np.full(shared.shape[0], -1)
    for c in range(used_starts.size - 1):
        for first in range(used_starts[c], used_starts[c + 1], MAX_BLOCK_ROWS):
            block = used[first : min(first + MAX_BLOCK_ROWS, used_starts[c + 1])]
            k, side = divmod(sides[side_starts[c]], 2)
            size = uint64(counts[k, side])
            if size == 0:  # this unit has no rows of the class
                break
            rows = own[offsets[k, side] : offsets[k, side] + counts[k, side]]
            values = kernel_block(shared[block], rows, kernel)
            part = np.empty(size, own.dtype)
            for position in range(block.size):
                positions[block[position]] = position
            for at in range(side_starts[c], side_starts[c + 1]):
                k, side = divmod(sides[at], 2)
                part[:] = 0
                for entry in range(starts[k], starts[k + 1]):
                    if positions[ids[entry]] >= 0:
                        step, row = own.dtype.type(steps[entry]), values[positions[ids[entry]]]
                        for t in range(size):
                            part[t] += step * row[t]
                out = score[score_starts[k, side] :]
                for t in range(size):
                    out[t] += part[t]
            positions[block] = -1


@compiled
def add_between_classes(  # type: ignore[no-untyped-def]
    score, pairs, codes, score_starts, counts, offsets, own, starts, ids, steps, shared, kernel
):  # pragma: no cover
    """Add the effect of steps on the scores of rows of the other class: see :func:`add_within_classes`.

    ``pairs`` are the classes of the problems, ``codes`` those of the shared rows. No other problem needs these kernel
    values.
    """
    for k in range(score_starts.shape[0]):
        here = slice(starts[k], starts[k + 1])
        for side in range(2):
            across = np.flatnonzero(codes[ids[here]] != pairs[k, side])
            size, start, offset = counts[k, side], score_starts[k, side], offsets[k, side]
            for first in range(0, across.size if size else 0, MAX_BLOCK_ROWS):
                block = across[first : first + MAX_BLOCK_ROWS]
                values = kernel_block(shared[ids[here][block]], own[offset : offset + size], kernel)
                score[start : start + size] += np.dot(steps[here][block].astype(own.dtype), values)


@compiled
def permute_columns(columns, slots, order):  # type: ignore[no-untyped-def] # pragma: no cover
    """Permute the first values of some cached columns, in place."""
    part = np.empty(order.size, dtype=columns.dtype)
    for k in range(slots.size):
        column = columns[slots[k]]
        for t in range(uint64(order.size)):
            part[t] = column[order[t]]
        for t in range(uint64(order.size)):
            column[t] = part[t]


@compiled
def assemble_matrix(K, old, old_positions, positions, part, fresh):  # type: ignore[no-untyped-def] # pragma: no cover
    """Assemble a symmetric matrix from an old one, whose rows moved to new positions, and the rows that are fresh."""
    for a in range(positions.size):
        row, known = K[positions[a]], old[old_positions[a]]
        for b in range(positions.size):
            row[positions[b]] = known[old_positions[b]]
    for a in range(fresh.size):
        column = fresh[a]
        for b in range(part.shape[1]):
            K[column, b] = part[a, b]
            K[b, column] = part[a, b]
