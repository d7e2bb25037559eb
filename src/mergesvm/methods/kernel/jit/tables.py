"""What rows that moved do to the scores of small problems, compiled: by tables of kernel values that are not kept.

Importing this module loads numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from mergesvm.models.kernel_values_jit import table

AT_ONCE = 1024
"""A table has the kernel values of at most so many rows that moved."""


@njit(nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy", cache=True)
def add_within(score, heads, spans, starts, counts, offsets, lifted, firsts, ids, steps, known, used, bounds, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add what rows that moved do to the scores of rows of their own class, in many problems.

    Problem k has the entries firsts[k] to firsts[k + 1] of ids, which are those of known rows, turned, and of steps.
    All ids of class c that there are among them are those of used from bounds[c] to bounds[c + 1]; the sides of
    problems that are of this class, as 2 k + side, are the heads from spans[c] to spans[c + 1]. The rows of a side are
    the lines of ``lifted`` from offsets[k, side] on, and their scores begin at starts[k, side]. Kernel values are
    computed once for all problems of a class.
    """
    places = np.full(known.shape[0], -1)
    for c in range(bounds.size - 1):
        for first in range(bounds[c], bounds[c + 1], AT_ONCE):
            mine = used[first : min(first + AT_ONCE, bounds[c + 1])]
            k, side = divmod(heads[spans[c]], 2)
            size = uint64(counts[k, side])
            if size == 0:  # this unit has no rows of the class
                break
            values = table(known[mine], lifted[offsets[k, side] : offsets[k, side] + counts[k, side]], kernel)
            part = np.empty(size, lifted.dtype)
            for place in range(mine.size):
                places[mine[place]] = place
            for head in range(spans[c], spans[c + 1]):
                k, side = divmod(heads[head], 2)
                part[:] = 0
                for entry in range(firsts[k], firsts[k + 1]):
                    if places[ids[entry]] >= 0:
                        step, line = lifted.dtype.type(steps[entry]), values[places[ids[entry]]]
                        for t in range(size):
                            part[t] += step * line[t]
                out = score[starts[k, side] :]
                for t in range(size):
                    out[t] += part[t]
            places[mine] = -1


@njit(nogil=True, error_model="numpy", cache=True)
def add_between(score, pairs, codes, starts, counts, offsets, lifted, firsts, ids, steps, known, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add what rows that moved do to the scores of rows of the other class: see :func:`add_within`.

    ``pairs`` are the classes of the problems, and ``codes`` those of known rows. These kernel values are of no other
    problem.
    """
    for k in range(starts.shape[0]):
        here = slice(firsts[k], firsts[k + 1])
        for side in range(2):
            across = np.flatnonzero(codes[ids[here]] != pairs[k, side])
            size, start, offset = counts[k, side], starts[k, side], offsets[k, side]
            for first in range(0, across.size if size else 0, AT_ONCE):
                moved = across[first : first + AT_ONCE]
                values = table(known[ids[here][moved]], lifted[offset : offset + size], kernel)
                score[start : start + size] += np.dot(steps[here][moved].astype(lifted.dtype), values)
