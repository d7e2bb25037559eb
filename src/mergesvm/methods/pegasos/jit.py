"""The compiled kernels of Pegasos. Importing this module loads numba: only :mod:`mergesvm.methods.pegasos.sgd` does so.

They release the GIL. Array indices are unsigned because numba then need not test them for counting from the end. Rows
are a tuple: of an array and the edges of its rows, or of the values, columns and starts of CSR; all that differs
between the two is in ``fetch_row``, ``dot`` and ``add``. Random rows cost what memory takes to bring them, so that the
zeros with which rows begin and end are left there: of images, that is a good part.

A walk is kept as w = c v / (lambda t). The factor (1 - 1/t) by which step t shrinks w is in t, and costs nothing; c is
1 unless steps are projected. Its numbers are in two small arrays, so that the next call goes on where this one stopped.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic, overload

SUMS = {"reassoc", "contract", "nsz"}
"""What the compiler may assume: sums may change their order, but NaN and infinity have to pass."""

STEPS, DRAWN, MEANT = 0, 1, 2
"""Whole numbers of a walk: t, how many rows were drawn, and how many steps are in the mean."""

FACTOR, SQUARE, TOTAL = 0, 1, 2
"""Real numbers of a walk: c, the square of the length of v, and S, the sum of c / (lambda t) over steps in the mean."""

AHEAD, FETCHED = uint64(4), uint64(3)
"""So many rows before their turn rows are drawn, and fetched from memory: they lie where no cache foresees them."""

RING = uint64(7)
"""Drawn rows wait in a ring of eight places."""

LINE = 64
"""Bytes that memory gives at a time."""

SMALLEST = 1e-3
"""A factor below this is multiplied into v, so that what is added to it stays of the size of rows."""


@intrinsic
def fetch(typingctx, array, place):  # type: ignore[no-untyped-def] # noqa: ARG001 # pragma: no cover
    """Ask for the line of memory in which one place of an array is, into the second cache, without waiting for it."""

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


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def draw(seed, number, count):  # type: ignore[no-untyped-def] # pragma: no cover
    """Draw ``number`` of a sequence: a whole number below ``count`` < 2^32, by splitmix64.

    The high word of the product of 64 random bits and the count is as good as even: no number is more likely than
    another by more than one part in 2^32.
    """
    z = uint64(seed) + (uint64(number) + uint64(1)) * uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> uint64(27))) * uint64(0x94D049BB133111EB)
    z = z ^ (z >> uint64(31))
    low, high = z & uint64(0xFFFFFFFF), z >> uint64(32)
    return (high * uint64(count) + ((low * uint64(count)) >> uint64(32))) >> uint64(32)


@njit(nogil=True, error_model="numpy", cache=True)
def draws(seed, first, count, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Fill ``out`` with the draws from number ``first`` on."""
    for i in range(out.size):
        out[i] = draw(seed, first + i, count)


def fetch_row(rows, row):  # type: ignore[no-untyped-def] # pragma: no cover
    """Ask for a row."""


def dot(rows, row, v):  # type: ignore[no-untyped-def] # pragma: no cover
    """The product of a row and v."""


def add(rows, row, a, v):  # type: ignore[no-untyped-def] # pragma: no cover
    """Add a times a row to v; returns by how much the square of its length has grown."""


COMPILED = {"fastmath": SUMS, "error_model": "numpy", "nogil": True}


@overload(fetch_row, jit_options=COMPILED)
def _fetch_row(rows, row):  # type: ignore[no-untyped-def] # noqa: ARG001 # pragma: no cover
    def dense(rows, row):  # type: ignore[no-untyped-def]
        matrix, edges = rows
        line = matrix[row]
        for k in range(uint64(edges[row, 0]), uint64(edges[row, 1]), uint64(LINE // matrix.itemsize)):
            fetch(line, k)

    def csr(rows, row):  # type: ignore[no-untyped-def]
        values, columns, starts = rows
        for k in range(uint64(starts[row]), uint64(starts[row + uint64(1)]), uint64(LINE // values.itemsize)):
            fetch(values, k)
        for k in range(uint64(starts[row]), uint64(starts[row + uint64(1)]), uint64(LINE // columns.itemsize)):
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
            place = uint64(columns[k])
            change = a * real(values[k])
            growth += change * (v[place] + v[place] + change)
            v[place] += change
        return growth

    return dense if len(rows) == 2 else csr


@njit(nogil=True, fastmath=SUMS, error_model="numpy", cache=True)
def walk(  # type: ignore[no-untyped-def] # pragma: no cover
    rows, order, codes, span, seed, weights, bias, lambda_, batch, radius, begin, stop, v, u, whole, reals
):
    """Go on to step ``stop``.

    Parameters
    ----------
    rows : tuple
        (matrix, edges), or (values, columns, starts).
    order, codes : arrays of shape (rows,)
        The rows in the order of their classes, and the classes.
    span : array of shape (4,)
        How many rows take part; how many of them are in the first run, and where in ``order`` that begins; and by how
        much the place of those in the second run differs from their number.
    seed : uint64
    weights : array of shape (classes,)
        The weight of each class, times its sign.
    bias : v.dtype
        The value of a constant feature, whose coefficient makes the intercept; 0 for none.
    batch : int
        How many rows a step draws.
    radius : float
        Of the ball onto which w is projected; 0 for no projection.
    begin : int
        Steps behind this one are in the mean. Its sum over steps is S v - u: u grows by S times the change of v, and so
        at violations only.
    v, u : arrays of shape (features + 1,)
    whole, reals : arrays of shape (3,)
        The numbers of the walk.
    """
    real, end = v.dtype.type, uint64(v.size - 1)
    count, first_count, first, shift = uint64(span[0]), uint64(span[1]), uint64(span[2]), uint64(span[3])
    factor, square, total = reals[FACTOR], reals[SQUARE], reals[TOTAL]
    waiting, signed = np.empty(8, dtype=np.uint64), np.empty(8, dtype=v.dtype)
    violators, shares = np.empty(batch, dtype=np.uint64), np.empty(batch, dtype=v.dtype)
    drawn, ahead = uint64(whole[DRAWN]), uint64(whole[DRAWN])
    for step in range(whole[STEPS] + 1, stop + 1):
        # w is zero before the first step, and what is zero is on the wrong side of every margin.
        margin = real(lambda_ * (step - 1) / factor) if step > 1 else real(np.inf)
        found = uint64(0)
        for _ in range(batch):
            while ahead <= drawn + AHEAD:
                number = draw(seed, ahead, count)
                place = number + first if number < first_count else number + shift
                waiting[ahead & RING] = uint64(order[place])
                signed[ahead & RING] = weights[uint64(codes[place])]
                ahead += uint64(1)
            fetch_row(rows, waiting[(drawn + FETCHED) & RING])
            row, weight = waiting[drawn & RING], signed[drawn & RING]
            drawn += uint64(1)
            score = dot(rows, row, v) + bias * v[end]
            if not abs(score) < np.inf:  # np.isfinite is folded away where sums may change their order
                v[end] = np.nan  # no margin can be told from it: the walk ends in an error
            if (score if weight > 0 else -score) < margin:
                violators[found] = row
                shares[found] = weight
                found += uint64(1)
        meant = step > begin
        for k in range(found):
            a = real(shares[k] / (batch * factor))
            growth = add(rows, violators[k], a, v)
            change = a * bias
            square += growth + change * (v[end] + v[end] + change)
            v[end] += change
            if meant:
                add(rows, violators[k], real(a * total), u)
                u[end] += real(a * total) * bias
        if radius > 0 and found > 0:
            length = factor * np.sqrt(max(square, 0.0)) / (lambda_ * step)
            if length > radius:
                factor *= radius / length
                if factor < SMALLEST:
                    # The mean so far goes into u as well: counted in another unit, S and u would lose it to rounding.
                    for k in range(v.size):
                        u[k] -= real(total) * v[k]
                        v[k] *= real(factor)
                    square *= factor * factor
                    factor, total = 1.0, 0.0
        if meant:
            total += factor / (lambda_ * step)
            whole[MEANT] += 1
    whole[STEPS], whole[DRAWN] = stop, drawn
    reals[FACTOR], reals[SQUARE], reals[TOTAL] = factor, square, total
