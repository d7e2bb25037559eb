"""Compiled steps of Pegasos. Importing this module loads numba: only :mod:`mergesvm.methods.pegasos.sgd` does so.

All functions release the GIL. Array indices are unsigned: numba then omits the test for negative indices. Rows are a
tuple, either (matrix, edges) or, for CSR, (values, columns, starts); only ``fetch_row``, ``dot`` and ``add`` depend on
which. Access to random rows is limited by memory, so leading and trailing zeros of dense rows are not read: in images
these are a large part.

The coefficients are kept as w = c v / (lambda t). The factor (1 - 1/t) by which step t shrinks w is then part of t; c
is 1 unless steps are projected. The state is in two small arrays, from which the next call continues.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic, overload

from mergesvm.jit import compiled

SUMS = {"reassoc", "contract", "nsz"}
"""Fast-math flags: sums may be reordered, but NaN and infinity are respected."""

STEPS, DRAWN, AVERAGED = 0, 1, 2
"""Integers of the state: t, the number of rows drawn, and the number of steps in the average."""

FACTOR, SQUARE, TOTAL = 0, 1, 2
"""Floats of the state: c, the squared norm of v, and S, the sum of c / (lambda t) over the averaged steps."""

DRAW_AHEAD, FETCH_AHEAD = uint64(4), uint64(3)
"""How far ahead, in rows, rows are drawn and then prefetched.

The hardware prefetcher cannot predict random access.
"""

RING_MASK = uint64(7)
"""Drawn rows wait in a ring buffer of eight entries."""

CACHE_LINE_BYTES = 64

MIN_FACTOR = 1e-3
"""A smaller factor c is multiplied into v, so that changes of v stay of the size of rows."""


@intrinsic
def fetch(typingctx, array, index):  # type: ignore[no-untyped-def] # noqa: ARG001 # pragma: no cover
    """Prefetch the cache line of one element of an array into the second-level cache."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        )
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(function, [address, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@compiled(inline="always")
def random_bits(seed, number):  # type: ignore[no-untyped-def] # pragma: no cover
    """64 random bits: element ``number`` of the sequence splitmix64."""
    z = uint64(seed) + (uint64(number) + uint64(1)) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    return z ^ (z >> uint64(31))


@compiled(inline="always")
def draw(seed, number, count):  # type: ignore[no-untyped-def] # pragma: no cover
    """Element ``number`` of a random sequence: an integer below ``count`` < 2^32.

    It is the high word of the product of 64 random bits and the count: probabilities differ by at most one part in
    2^32.
    """
    z = random_bits(seed, number)
    low, high = z & uint64(0xFFFFFFFF), z >> uint64(32)
    return (high * uint64(count) + ((low * uint64(count)) >> uint64(32))) >> uint64(32)


@compiled
def draws(seed, first, count, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Fill ``out`` with the elements of the sequence from number ``first`` on."""
    for i in range(out.size):
        out[i] = draw(seed, first + i, count)


@compiled(inline="always")
def draw_weighted(seed, number, cumulative, count, first_count, first, shift):  # type: ignore[no-untyped-def] # pragma: no cover
    """A position in the two runs of a problem, with a probability proportional to its weight.

    ``cumulative`` has the sum of the weights before each position, and at the end the sum of all.
    """
    in_first = cumulative[first + first_count] - cumulative[first]
    in_second = cumulative[count + shift] - cumulative[first_count + shift]
    at = float(random_bits(seed, number) >> uint64(11)) * 2.0**-53 * (in_first + in_second)
    low, high = first, first + first_count
    if at >= in_first and count > first_count:
        at -= in_first
        low, high = first_count + shift, count + shift
    at += cumulative[low]
    while high - low > uint64(1):
        middle = (low + high) >> uint64(1)
        if cumulative[middle] <= at:
            low = middle
        else:
            high = middle
    return low


def fetch_row(rows, row):  # type: ignore[no-untyped-def] # pragma: no cover
    """Prefetch a row."""


def dot(rows, row, v):  # type: ignore[no-untyped-def] # pragma: no cover
    """The product of a row and v."""


def add(rows, row, a, v):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add a times a row to v; return the change of the squared norm of v."""


COMPILED = {"fastmath": SUMS, "error_model": "numpy", "nogil": True}


@overload(fetch_row, jit_options=COMPILED)
def _fetch_row(rows, row):  # type: ignore[no-untyped-def] # noqa: ARG001 # pragma: no cover
    def dense(rows, row):  # type: ignore[no-untyped-def]
        matrix, edges = rows
        line = matrix[row]
        for k in range(uint64(edges[row, 0]), uint64(edges[row, 1]), uint64(CACHE_LINE_BYTES // matrix.itemsize)):
            fetch(line, k)

    def csr(rows, row):  # type: ignore[no-untyped-def]
        values, columns, starts = rows
        for k in range(
            uint64(starts[row]), uint64(starts[row + uint64(1)]), uint64(CACHE_LINE_BYTES // values.itemsize)
        ):
            fetch(values, k)
        for k in range(
            uint64(starts[row]), uint64(starts[row + uint64(1)]), uint64(CACHE_LINE_BYTES // columns.itemsize)
        ):
            fetch(columns, k)

    return dense if len(rows) == 2 else csr


@overload(dot, jit_options=COMPILED)
def _dot(rows, row, v):  # type: ignore[no-untyped-def] # noqa: ARG001 # pragma: no cover
    def dense(rows, row, v):  # type: ignore[no-untyped-def]
        matrix, edges = rows
        line, real = matrix[row], v.dtype.type
        score = real(0)
        for k in range(uint64(edges[row, 0]), uint64(edges[row, 1])):
            score += real(line[k]) * v[k]
        return score

    def csr(rows, row, v):  # type: ignore[no-untyped-def]
        values, columns, starts = rows
        real = v.dtype.type
        score = real(0)
        for k in range(uint64(starts[row]), uint64(starts[row + uint64(1)])):
            score += real(values[k]) * v[uint64(columns[k])]
        return score

    return dense if len(rows) == 2 else csr


@overload(add, jit_options=COMPILED)
def _add(rows, row, a, v):  # type: ignore[no-untyped-def] # noqa: ARG001 # pragma: no cover
    def dense(rows, row, a, v):  # type: ignore[no-untyped-def]
        matrix, edges = rows
        line, real = matrix[row], v.dtype.type
        growth = real(0)
        for k in range(uint64(edges[row, 0]), uint64(edges[row, 1])):
            change = a * real(line[k])
            growth += change * (v[k] + v[k] + change)
            v[k] += change
        return growth

    def csr(rows, row, a, v):  # type: ignore[no-untyped-def]
        values, columns, starts = rows
        real = v.dtype.type
        growth = real(0)
        for k in range(uint64(starts[row]), uint64(starts[row + uint64(1)])):
            column = uint64(columns[k])
            change = a * real(values[k])
            growth += change * (v[column] + v[column] + change)
            v[column] += change
        return growth

    return dense if len(rows) == 2 else csr


@compiled(fastmath=SUMS, inline="always")
def draw_rows(  # type: ignore[no-untyped-def] # pragma: no cover
    order, codes, cumulative, span, seed, weights, last, ahead, ring, ring_weights
):
    """Draw rows up to number ``last`` into the ring; return the number of the next draw."""
    count, first_count, first, shift = uint64(span[0]), uint64(span[1]), uint64(span[2]), uint64(span[3])
    while ahead <= last:
        if cumulative.size > 0:
            position = draw_weighted(seed, ahead, cumulative, count, first_count, first, shift)
        else:
            number = draw(seed, ahead, count)
            position = number + first if number < first_count else number + shift
        ring[ahead & RING_MASK] = uint64(order[position])
        ring_weights[ahead & RING_MASK] = weights[uint64(codes[position])]
        ahead += uint64(1)
    return ahead


@compiled(fastmath=SUMS, inline="always")
def violates(rows, row, weight, bias, margin, v):  # type: ignore[no-untyped-def] # pragma: no cover
    """Whether a row is on the wrong side of its margin; sets the intercept to NaN if its score is not finite."""
    end = uint64(v.size - 1)
    score = dot(rows, row, v) + bias * v[end]
    if not abs(score) < np.inf:  # np.isfinite is optimised away where sums may be reordered
        v[end] = np.nan  # reported as an error after the last step
    return (score if weight > 0 else -score) < margin


@compiled(fastmath=SUMS, inline="always")
def add_row(rows, row, a, bias, v):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add a times a row with its constant feature to v; return the change of the squared norm of v."""
    end = uint64(v.size - 1)
    growth = add(rows, row, a, v)
    change = a * bias
    growth_of_last = change * (v[end] + v[end] + change)
    v[end] += change
    return growth + growth_of_last


@compiled(fastmath=SUMS)
def project(shrink, radius, factor, square, total, v, u):  # type: ignore[no-untyped-def] # pragma: no cover
    """Project w = factor v / shrink onto the ball; return factor, squared norm of v and S."""
    norm = factor * np.sqrt(max(square, 0.0)) / shrink
    if not norm > radius:
        return factor, square, total
    factor *= radius / norm
    if factor >= MIN_FACTOR:
        return factor, square, total
    # The average so far goes into u as well: in the new unit, S and u would lose it to rounding.
    for k in range(v.size):
        u[k] -= v.dtype.type(total) * v[k]
        v[k] *= v.dtype.type(factor)
    return 1.0, square * (factor * factor), 0.0


@compiled(fastmath=SUMS)
def make_steps(  # type: ignore[no-untyped-def] # pragma: no cover
    rows,
    order,
    codes,
    cumulative,
    span,
    seed,
    weights,
    bias,
    lambda_,
    batch,
    radius,
    begin,
    stop,
    v,
    u,
    integers,
    floats,
):
    """Continue to step ``stop``.

    Parameters
    ----------
    rows : tuple
        (matrix, edges), or (values, columns, starts).
    order, codes : arrays of shape (rows,)
        Row numbers sorted by class, and their classes.
    cumulative : array of shape (rows + 1,)
        Sums of the weights of all earlier rows in that order; of shape (0,) if rows have no weights.
    span : array of shape (4,)
        The number of rows of the problem; how many of them are in the first run, and where it begins in ``order``; and
        the difference between position and number of rows in the second run.
    seed : uint64
    weights : array of shape (classes,)
        The weight of each class, times its sign.
    bias : v.dtype
        The value of a constant feature, whose coefficient is the intercept; 0 for none.
    batch : int
        Number of rows per step.
    radius : float
        Radius of the ball onto which w is projected; 0 for no projection.
    begin : int
        Later steps are averaged. The sum of w over them is S v - u: u grows by S times the change of v, and so only at
        violations.
    v, u : arrays of shape (features + 1,)
    integers, floats : arrays of shape (3,)
        The state.
    """
    real = v.dtype.type
    factor, square, total = floats[FACTOR], floats[SQUARE], floats[TOTAL]
    ring, ring_weights = np.empty(8, dtype=np.uint64), np.empty(8, dtype=v.dtype)
    violators, violator_weights = np.empty(batch, dtype=np.uint64), np.empty(batch, dtype=v.dtype)
    drawn, ahead = uint64(integers[DRAWN]), uint64(integers[DRAWN])
    for step in range(integers[STEPS] + 1, stop + 1):
        # w is zero before the first step, so every row violates its margin.
        margin = real(lambda_ * (step - 1) / factor) if step > 1 else real(np.inf)
        found = uint64(0)
        for _ in range(batch):
            ahead = draw_rows(
                order, codes, cumulative, span, seed, weights, drawn + DRAW_AHEAD, ahead, ring, ring_weights
            )
            fetch_row(rows, ring[(drawn + FETCH_AHEAD) & RING_MASK])
            row, weight = ring[drawn & RING_MASK], ring_weights[drawn & RING_MASK]
            drawn += uint64(1)
            if violates(rows, row, weight, bias, margin, v):
                violators[found], violator_weights[found] = row, weight
                found += uint64(1)
        averaged = step > begin
        for k in range(found):
            a = real(violator_weights[k] / (batch * factor))
            square += add_row(rows, violators[k], a, bias, v)
            if averaged:
                add_row(rows, violators[k], real(a * total), bias, u)
        if radius > 0 and found > 0:
            factor, square, total = project(lambda_ * step, radius, factor, square, total, v, u)
        if averaged:
            total += factor / (lambda_ * step)
            integers[AVERAGED] += 1
    integers[STEPS], integers[DRAWN] = stop, drawn
    floats[FACTOR], floats[SQUARE], floats[TOTAL] = factor, square, total
