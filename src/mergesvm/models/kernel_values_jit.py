"""The compiled kernels of kernel values. Importing this module loads numba: only modules beside it do so.

They release the GIL. Array indices are unsigned because numba then need not test them for counting from the end.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import float32, njit, uint64
from numba.extending import intrinsic

LOG2E = np.float32(1.44269504)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""ln 2 in two parts, of which whole multiples of the first are exact."""

C2, C3, C4, C5, C6 = (np.float32(1 / f) for f in (2, 6, 24, 120, 720))

HALF, ONE, LEAST = np.float32(0.5), np.float32(1), np.float32(-87)


@intrinsic
def power_of_two(context, exponent):  # type: ignore[no-untyped-def] # noqa: ARG001
    """2^n in float32, for whole n from -126 to 127: the number that has n in its exponent, and nothing else."""

    def generate(_, builder, signature, values):  # type: ignore[no-untyped-def] # noqa: ARG001
        bits = ir.IntType(32)
        biased = builder.add(builder.fptosi(values[0], bits), ir.Constant(bits, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(bits, 23)), ir.FloatType())

    return float32(float32), generate


@njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy", cache=True)
def exponentials_single(values):  # type: ignore[no-untyped-def] # pragma: no cover
    """exp(min(x, 0)) of all values (m, n) in float32, in place, to 3e-7; several times as fast as one by one.

    x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) by its Taylor series.
    """
    for i in range(values.shape[0]):
        part = values[i]
        for t in range(uint64(part.size)):
            x = max(min(part[t], np.float32(0)), LEAST)
            n = np.floor(x * LOG2E + HALF)
            r = x - n * LN2_HIGH - n * LN2_LOW
            part[t] = power_of_two(n) * (ONE + r * (ONE + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * C6))))))


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
def powers(values, gamma, degree, coef0):  # type: ignore[no-untyped-def] # pragma: no cover
    """(gamma x + coef0)^degree of all values (m, n), in place."""
    for i in range(values.shape[0]):
        for j in range(uint64(values.shape[1])):
            values[i, j] = (gamma * values[i, j] + coef0) ** degree


@njit(nogil=True, error_model="numpy", cache=True)
def present(values, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values (m, n) from products of lifted rows, in place; kernel is its place in ``KERNELS``, and numbers."""
    if kernel[0] == 0:
        exponentials(values)
    elif kernel[0] == 2:
        powers(values, kernel[1], kernel[2], kernel[3])


@njit(nogil=True, error_model="numpy", cache=True)
def table(turned, rows, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values of turned lifted dense rows with lifted ones, (turned, rows)."""
    values = np.dot(turned, rows.T)
    present(values, kernel)
    return values


@njit(nogil=True, error_model="numpy", cache=True)
def small_matrix(rows, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values of lifted dense rows with one another."""
    turned = rows.copy()
    if kernel[0] == 0:
        last = rows.shape[1] - 1
        for i in range(rows.shape[0]):
            turned[i, last - 1], turned[i, last] = rows[i, last], rows[i, last - 1]
    return table(turned, rows, kernel)


@njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy", cache=True)
def line(out, row, columns, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values of one lifted row with rows that are columns (width, n), into ``out`` (1, n).

    There is no faster way for narrow rows, if no more than this line is wanted.
    """
    width, values = row.size, out[0]
    size = uint64(values.size)
    for t in range(size):
        values[t] = 0
    last = width - 2 if kernel[0] == 0 else width
    k = 0
    while k + 3 < last:  # four at a time: the sums are then loaded and stored less often
        a, b, c, d = row[k], row[k + 1], row[k + 2], row[k + 3]
        one, two, three, four = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        for t in range(size):
            values[t] += a * one[t] + b * two[t] + c * three[t] + d * four[t]
        k += 4
    while k < last:
        a, one = row[k], columns[k]
        for t in range(size):
            values[t] += a * one[t]
        k += 1
    if kernel[0] == 0:  # the last two are turned
        a, b, one, two = row[width - 1], row[width - 2], columns[width - 2], columns[width - 1]
        for t in range(size):
            values[t] += a * one[t] + b * two[t]
    present(out, kernel)


@njit(nogil=True, error_model="numpy", cache=True)
def diagonal(columns, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values of lifted rows, which are columns (width, n), with themselves, (n,)."""
    values = np.zeros((1, columns.shape[1]), columns.dtype)
    if kernel[0] == 0:
        values[:] = 1
        return values[0]
    for k in range(columns.shape[0]):
        for t in range(uint64(values.size)):
            values[0, t] += columns[k, t] * columns[k, t]
    present(values, kernel)
    return values[0]
