"""Vector operations on bytes of text, compiled. Importing this module loads numba.

They are generic vector instructions of LLVM, which it translates for every processor. Byte order is little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mergesvm.data.text_parser.lines import NEWLINE

WINDOW = 32
"""Number of bytes inspected from the start of a number."""

DIGITS = 16
"""Number of digits converted at a time."""

BEFORE = DIGITS + 1
"""Number of bytes loaded before the end of a number to convert its digits: one more, for a decimal point."""

SEARCH_BYTES = 64
"""Number of bytes searched for separators at a time."""

BATCH_NUMBERS = 4
"""Number of numbers computed from their digits at a time."""

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_ZERO, _POINT = ord("0"), ord(".")


@intrinsic
def digits_and_points(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Return bit masks of the digits and of the decimal points in a window; the lowest bit is the first byte."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        window = _load(builder, arguments[0], WINDOW)
        digit = builder.icmp_unsigned("<", builder.sub(window, _same(_ZERO, WINDOW)), _same(10, WINDOW))
        point = builder.icmp_unsigned("==", window, _same(_POINT, WINDOW))
        bits = [builder.zext(builder.bitcast(mask, ir.IntType(WINDOW)), _WORD) for mask in (digit, point)]
        return context.make_tuple(builder, signature.return_type, bits)

    return types.UniTuple(types.uint64, 2)(types.uint64), generate


@intrinsic
def digits_before(context, end, behind, count):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Return the integer formed by the last ``count`` digits before an address, ``behind`` of them after a point.

    ``behind`` is at least ``DIGITS`` if there is no point to skip. The ``BEFORE`` bytes before the address are loaded,
    and bytes that are not among the digits count as zero.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        end, behind, count = arguments
        near = _load(builder, builder.sub(end, ir.Constant(_WORD, DIGITS)), DIGITS)
        far = _load(
            builder, builder.sub(end, ir.Constant(_WORD, BEFORE)), DIGITS
        )  # one byte earlier, to skip the point
        back = _vector(range(DIGITS, 0, -1), _BYTE)
        digits = builder.select(builder.icmp_unsigned("<=", back, _spread(builder, behind)), near, far)
        wanted = builder.icmp_unsigned("<=", back, _spread(builder, count))
        value = builder.select(wanted, builder.sub(digits, _same(_ZERO, DIGITS)), _same(0, DIGITS))
        value = _combined_digits(builder, value, DIGITS)
        upper, lower = (builder.extract_element(value, ir.Constant(ir.IntType(32), lane)) for lane in (0, 1))
        return builder.add(builder.mul(upper, ir.Constant(_WORD, 10**8)), lower)

    return types.uint64(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def separators(context, address, delimiter):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Return bit masks of all separators and of the line breaks alone; the lowest bit is the first byte."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, delimiter = arguments
        chunk = _load(builder, address, SEARCH_BYTES)
        ends, breaks = (
            builder.bitcast(builder.icmp_unsigned("==", chunk, other), _WORD)
            for other in (_spread(builder, delimiter, SEARCH_BYTES), _same(NEWLINE, SEARCH_BYTES))
        )
        return context.make_tuple(builder, signature.return_type, [builder.or_(ends, breaks), breaks])

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


@intrinsic
def behind_point(context, end):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Count the bytes between the last decimal point before an address and the address; at most ``DIGITS``."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        near = _load(builder, builder.sub(arguments[0], ir.Constant(_WORD, DIGITS)), DIGITS)
        bits = builder.bitcast(builder.icmp_unsigned("==", near, _same(_POINT, DIGITS)), ir.IntType(DIGITS))
        kind = ir.IntType(32)
        zeros = builder.ctlz(builder.zext(bits, kind), ir.Constant(ir.IntType(1), 0))
        return builder.zext(builder.sub(zeros, ir.Constant(kind, 32 - DIGITS)), _WORD)

    return types.uint64(types.uint64), generate


@intrinsic
def lay_digits(context, end, lanes, place, apart):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Store the values of the digits before an address at ``place``, the last eight ``apart`` bytes further on.

    ``lanes`` are two bit masks of the last ``DIGITS`` bytes: which are after the point, which is skipped, and which of
    the remaining ones are digits; the others become zero. Returns whether all of them were digits.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        end, lanes, place, apart = arguments
        near = _load(builder, builder.sub(end, ir.Constant(_WORD, DIGITS)), DIGITS)
        far = _load(builder, builder.sub(end, ir.Constant(_WORD, BEFORE)), DIGITS)
        digits = builder.select(_lanes(builder, lanes), near, far)
        values = builder.sub(digits, _same(_ZERO, DIGITS))
        wanted = _lanes(builder, builder.lshr(lanes, ir.Constant(_WORD, DIGITS)))
        values = builder.select(wanted, values, _same(0, DIGITS))
        halves = builder.bitcast(values, ir.VectorType(_WORD, 2))
        for lane, there in enumerate((place, builder.add(place, apart))):
            half = builder.extract_element(halves, ir.Constant(ir.IntType(32), lane))
            builder.store(half, builder.inttoptr(there, _WORD.as_pointer()))
        wrong = builder.bitcast(builder.icmp_unsigned(">", values, _same(9, DIGITS)), ir.IntType(DIGITS))
        return builder.icmp_unsigned("==", wrong, ir.Constant(ir.IntType(DIGITS), 0))

    return types.boolean(types.uint64, types.uint64, types.uint64, types.uint64), generate


@intrinsic
def quotients(context, uppers, lowers, divisors, out):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Store the numbers of ``BATCH_NUMBERS`` pairs of eight digits, each divided by its divisor."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        uppers, lowers, divisors, out = arguments
        kind = ir.VectorType(ir.DoubleType(), BATCH_NUMBERS)
        parts = []
        for halves in (uppers, lowers):
            value = _combined_digits(builder, _load(builder, halves, 8 * BATCH_NUMBERS), 8 * BATCH_NUMBERS)
            # Eight digits fit into 32 bits.
            parts.append(builder.sitofp(builder.trunc(value, ir.VectorType(ir.IntType(32), BATCH_NUMBERS)), kind))
        scale = ir.Constant(kind, [ir.Constant(ir.DoubleType(), 1e8)] * BATCH_NUMBERS)
        digits = builder.fadd(builder.fmul(parts[0], scale), parts[1])  # exact, for at most 15 digits
        divisor = builder.load(builder.inttoptr(divisors, kind.as_pointer()))
        store = builder.store(builder.fdiv(digits, divisor), builder.inttoptr(out, kind.as_pointer()))
        divisor.align = store.align = 8
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), generate


def _lanes(builder: Any, bits: Any) -> Any:  # pragma: no cover
    """Return the lowest bits of a word as a mask of ``DIGITS`` lanes."""
    return builder.bitcast(builder.trunc(bits, ir.IntType(DIGITS)), ir.VectorType(ir.IntType(1), DIGITS))


def _combined_digits(builder: Any, value: Any, count: int) -> Any:  # pragma: no cover
    """Return the integer of each group of eight digits."""
    for bits in (16, 32):  # combine neighbours: 1 digit and 1, then 2 and 2
        half, kind, lanes = bits // 2, ir.IntType(bits), 8 * count // bits
        pairs = builder.bitcast(value, ir.VectorType(kind, lanes))
        # The first of the two is in the lower half; times its weight, it is added to the upper half.
        product = builder.mul(pairs, _vector([(10 ** (half // 8) << half) + 1] * lanes, kind))
        value = builder.lshr(product, _vector([half] * lanes, kind))
    lanes = count // 8
    pairs = builder.bitcast(value, ir.VectorType(_WORD, lanes))
    first = builder.mul(builder.and_(pairs, _vector([2**32 - 1] * lanes, _WORD)), _vector([10**4] * lanes, _WORD))
    return builder.add(first, builder.lshr(pairs, _vector([32] * lanes, _WORD)))


def _load(builder: Any, address: Any, count: int) -> Any:  # pragma: no cover
    """Load ``count`` bytes from an unaligned address."""
    vector = builder.load(builder.inttoptr(address, ir.VectorType(_BYTE, count).as_pointer()))
    vector.align = 1
    return vector


def _vector(values: Sequence[int], kind: Any) -> Any:  # pragma: no cover
    return ir.Constant(ir.VectorType(kind, len(values)), [ir.Constant(kind, value) for value in values])


def _same(value: int, count: int) -> Any:  # pragma: no cover
    return _vector([value] * count, _BYTE)


def _spread(builder: Any, word: Any, count: int = DIGITS) -> Any:  # pragma: no cover
    """Return a vector that repeats the lowest byte of a word."""
    index, empty = ir.IntType(32), ir.Constant(ir.VectorType(_BYTE, count), ir.Undefined)
    one = builder.insert_element(empty, builder.trunc(word, _BYTE), ir.Constant(index, 0))
    return builder.shuffle_vector(one, empty, _vector([0] * count, index))
