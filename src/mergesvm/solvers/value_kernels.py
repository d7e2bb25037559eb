"""The compiled kernels of kernel values. Importing this module loads numba: only modules beside it do so.

They release the GIL. Array indices are unsigned because numba then need not test them for counting from the end.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

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
