"""Compiled kernel values of lifted rows. Importing this module imports numba.

``kernel`` is always ``Kernel.jit_parameters``: its code in ``KERNELS``, gamma, degree and coef0.
All functions release the GIL. Array indices are unsigned: numba then omits the test for negative indices.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import float32, uint64
from numba.extending import intrinsic

from mergesvm.jit import compiled

RBF, LINEAR, POLY, SIGMOID = range(4)
"""Jit codes of the kernel functions in ``KERNELS``."""

LOG2E = np.float32(1.44269504)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
"""ln 2 as a sum: products of the first part and whole numbers are exact."""

C2, C3, C4, C5, C6 = (np.float32(1 / f) for f in (2, 6, 24, 120, 720))
"""Coefficients of the Taylor series of exp."""

HALF, ONE, MIN_EXPONENT = np.float32(0.5), np.float32(1), np.float32(-87)


@intrinsic
def power_of_two(context, exponent):  # type: ignore[no-untyped-def] # noqa: ARG001
    """2^n in float32, for whole n from -126 to 127, by writing n to the exponent bits."""

    def generate(_, builder, signature, values):  # type: ignore[no-untyped-def] # noqa: ARG001
        bits = ir.IntType(32)
        biased = builder.add(builder.fptosi(values[0], bits), ir.Constant(bits, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(bits, 23)), ir.FloatType())

    return float32(float32), generate


@compiled(fastmath={"contract", "nsz"})
def exponentials_single(values):  # type: ignore[no-untyped-def] # pragma: no cover
    """exp(min(x, 0)) of float32 values (m, n), in place, with a relative error of at most 3e-7; vectorised.

    x = n ln 2 + r with |r| <= ln 2 / 2, and exp(r) by its Taylor series.
    """
    for i in range(values.shape[0]):
        part = values[i]
        for t in range(uint64(part.size)):
            x = max(min(part[t], np.float32(0)), MIN_EXPONENT)
            n = np.floor(x * LOG2E + HALF)
            r = x - n * LN2_HIGH - n * LN2_LOW
            part[t] = power_of_two(n) * (ONE + r * (ONE + r * (C2 + r * (C3 + r * (C4 + r * (C5 + r * C6))))))


@compiled
def exponentials(values):  # type: ignore[no-untyped-def] # pragma: no cover
    """exp(min(x, 0)) of values (m, n), in place."""
    if values.itemsize == 4:
        exponentials_single(values)
    else:
        for i in range(values.shape[0]):
            for j in range(uint64(values.shape[1])):
                values[i, j] = np.exp(min(values[i, j], 0.0))


@compiled
def powers(values, gamma, degree, coef0):  # type: ignore[no-untyped-def] # pragma: no cover
    """(gamma x + coef0)^degree of values (m, n), in place."""
    for i in range(values.shape[0]):
        for j in range(uint64(values.shape[1])):
            values[i, j] = (gamma * values[i, j] + coef0) ** degree


@compiled
def hyperbolic_tangents(values, gamma, coef0):  # type: ignore[no-untyped-def] # pragma: no cover
    """tanh(gamma x + coef0) of values (m, n), in place."""
    for i in range(values.shape[0]):
        for j in range(uint64(values.shape[1])):
            values[i, j] = np.tanh(gamma * values[i, j] + coef0)


@compiled
def apply_kernel(values, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Turn products of lifted rows (m, n) into kernel values, in place."""
    if kernel[0] == RBF:
        exponentials(values)
    elif kernel[0] == POLY:
        powers(values, kernel[1], kernel[2], kernel[3])
    elif kernel[0] == SIGMOID:
        hyperbolic_tangents(values, kernel[1], kernel[3])


@compiled
def kernel_block(turned, rows, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values between turned lifted dense rows and lifted dense rows, (turned, rows)."""
    values = np.dot(turned, rows.T)
    apply_kernel(values, kernel)
    return values


@compiled
def kernel_matrix(rows, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """The kernel matrix of lifted dense rows, (n, n)."""
    turned = rows.copy()
    if kernel[0] == RBF:
        last = rows.shape[1] - 1
        for i in range(rows.shape[0]):
            turned[i, last - 1], turned[i, last] = rows[i, last], rows[i, last - 1]
    return kernel_block(turned, rows, kernel)


@compiled(fastmath={"contract", "nsz"})
def kernel_row(out, row, columns, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """Kernel values between one lifted row and transposed lifted rows (width, n), into ``out`` (1, n).

    This is the fastest way for narrow rows if a single row of the kernel matrix is needed.
    """
    width, values = row.size, out[0]
    size = uint64(values.size)
    for t in range(size):
        values[t] = 0
    last = width - 2 if kernel[0] == RBF else width
    k = 0
    while k + 3 < last:  # four at a time, to load and store the sums less often
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
    if kernel[0] == RBF:  # the last two columns are swapped, as in a turned row
        a, b, one, two = row[width - 1], row[width - 2], columns[width - 2], columns[width - 1]
        for t in range(size):
            values[t] += a * one[t] + b * two[t]
    apply_kernel(out, kernel)


@compiled
def kernel_diagonal(columns, kernel):  # type: ignore[no-untyped-def] # pragma: no cover
    """The diagonal of the kernel matrix of transposed lifted rows (width, n), (n,)."""
    values = np.zeros((1, columns.shape[1]), columns.dtype)
    if kernel[0] == RBF:
        values[:] = 1
        return values[0]
    for k in range(columns.shape[0]):
        for t in range(uint64(values.size)):
            values[0, t] += columns[k, t] * columns[k, t]
    apply_kernel(values, kernel)
    return values[0]
