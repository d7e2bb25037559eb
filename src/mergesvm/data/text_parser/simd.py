"""Many bytes of text at a time, compiled. Importing this module loads numba: only readers of large text do so.

Text is looked at as vectors of bytes, by plain vector operations of LLVM, which every processor has in some form. It is
named by addresses, not as an array: of arrays numba counts the references, at times for each number anew. Whoever has
an address has to hold the array as long. The lowest byte of a word is taken to be the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

from mergesvm.data.text_parser.lines import NEWLINE

WINDOW = 32
"""So many bytes are looked at from where a number begins."""

DIGITS = 16
"""So many digits are added up at a time."""

BEFORE = DIGITS + 1
"""So many bytes before the end of digits are loaded to add them up."""

STRETCH = 64
"""So many bytes are looked at for the ends of fields."""

TOGETHER = 4
"""So many numbers are made of their digits at a time."""

WORD_BYTES = uint64(8)

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_ZERO, _POINT = ord("0"), ord(".")


@intrinsic
def byte(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The byte at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.load(builder.inttoptr(arguments[0], _BYTE.as_pointer()))

    return types.uint8(types.uint64), generate


@intrinsic
def word(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The word of 64 bits at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.uint64(types.uint64), generate


@intrinsic
def put(context, address, value):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Write a word, or a number of float64, to an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        address, value = arguments
        builder.store(value, builder.inttoptr(address, value.type.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.uint64, value), generate


@intrinsic
def zeros_behind(context, word):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """How many zero bits a word ends with: 64 if it has no others."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def zeros_ahead(context, word):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """How many zero bits a word begins with: 64 if it has no others."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def ones(context, word):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """How many bits of a word are one."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def high_product(context, a, b):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The upper of the two words of a product of two words."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        long = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, long) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(long, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def digits_and_points(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Which of the bytes of a window are digits, and which are points: two words, the lowest bit for the first byte."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        window = _load(builder, arguments[0], WINDOW)
        digit = builder.icmp_unsigned("<", builder.sub(window, _same(_ZERO, WINDOW)), _same(10, WINDOW))
        point = builder.icmp_unsigned("==", window, _same(_POINT, WINDOW))
        bits = [builder.zext(builder.bitcast(mask, ir.IntType(WINDOW)), _WORD) for mask in (digit, point)]
        return context.make_tuple(builder, signature.return_type, bits)

    return types.UniTuple(types.uint64, 2)(types.uint64), generate


@intrinsic
def digits_before(context, end, behind, count):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The number that the last ``count`` digits before an address are, of which ``behind`` stand behind a point.

    ``behind`` is at least ``DIGITS`` where there is no point, or none to be passed over. Bytes from ``BEFORE`` bytes
    before the address on are loaded, and those that are not wanted count as zero.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        end, behind, count = arguments
        near = _load(builder, builder.sub(end, ir.Constant(_WORD, DIGITS)), DIGITS)
        far = _load(builder, builder.sub(end, ir.Constant(_WORD, BEFORE)), DIGITS)  # passes over one byte, the point
        back = _vector(range(DIGITS, 0, -1), _BYTE)
        digits = builder.select(builder.icmp_unsigned("<=", back, _spread(builder, behind)), near, far)
        wanted = builder.icmp_unsigned("<=", back, _spread(builder, count))
        value = builder.select(wanted, builder.sub(digits, _same(_ZERO, DIGITS)), _same(0, DIGITS))
        value = _digits_added(builder, value, DIGITS)
        upper, lower = (builder.extract_element(value, ir.Constant(ir.IntType(32), lane)) for lane in (0, 1))
        return builder.add(builder.mul(upper, ir.Constant(_WORD, 10**8)), lower)

    return types.uint64(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def separators(context, address, delimiter):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Which bytes of a stretch are the delimiter or end a line, and which end a line: the lowest bit is the first."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        address, delimiter = arguments
        stretch = _load(builder, address, STRETCH)
        ends, breaks = (
            builder.bitcast(builder.icmp_unsigned("==", stretch, other), _WORD)
            for other in (_spread(builder, delimiter, STRETCH), _same(NEWLINE, STRETCH))
        )
        return context.make_tuple(builder, signature.return_type, [builder.or_(ends, breaks), breaks])

    return types.UniTuple(types.uint64, 2)(types.uint64, types.uint64), generate


@intrinsic
def behind_point(context, end):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """How many bytes there are between the last point before an address and that address; at most ``DIGITS``."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        near = _load(builder, builder.sub(arguments[0], ir.Constant(_WORD, DIGITS)), DIGITS)
        bits = builder.bitcast(builder.icmp_unsigned("==", near, _same(_POINT, DIGITS)), ir.IntType(DIGITS))
        kind = ir.IntType(32)
        zeros = builder.ctlz(builder.zext(bits, kind), ir.Constant(ir.IntType(1), 0))
        return builder.zext(builder.sub(zeros, ir.Constant(kind, 32 - DIGITS)), _WORD)

    return types.uint64(types.uint64), generate


@intrinsic
def lay_digits(context, end, lanes, place, apart):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Write the values of digits before an address to a place, and the last eight of them ``apart`` bytes behind it.

    ``lanes`` are bits for the last ``DIGITS`` bytes: which of them are behind the point, which is passed over, and,
    above these, which of what is left then are digits, the others becoming zero. Returns whether all of them were.
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
    """Write the numbers that ``TOGETHER`` pairs of eight digits are, each divided by its divisor."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        uppers, lowers, divisors, out = arguments
        kind = ir.VectorType(ir.DoubleType(), TOGETHER)
        parts = []
        for halves in (uppers, lowers):
            value = _digits_added(builder, _load(builder, halves, 8 * TOGETHER), 8 * TOGETHER)
            # Eight digits are less than 32 bits.
            parts.append(builder.sitofp(builder.trunc(value, ir.VectorType(ir.IntType(32), TOGETHER)), kind))
        scale = ir.Constant(kind, [ir.Constant(ir.DoubleType(), 1e8)] * TOGETHER)
        digits = builder.fadd(builder.fmul(parts[0], scale), parts[1])  # exact: these are at most 15 digits
        divisor = builder.load(builder.inttoptr(divisors, kind.as_pointer()))
        store = builder.store(builder.fdiv(digits, divisor), builder.inttoptr(out, kind.as_pointer()))
        divisor.align = store.align = 8
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), generate


def _lanes(builder: Any, bits: Any) -> Any:  # pragma: no cover
    """The lowest bits of a word as a mask for ``DIGITS`` lanes."""
    return builder.bitcast(builder.trunc(bits, ir.IntType(DIGITS)), ir.VectorType(ir.IntType(1), DIGITS))


def _digits_added(builder: Any, value: Any, count: int) -> Any:  # pragma: no cover
    """Digits as bytes, in groups of eight, as the number that each group is."""
    for bits in (16, 32):  # neighbours are added up: 1 digit and 1, then 2 and 2
        half, kind, lanes = bits // 2, ir.IntType(bits), 8 * count // bits
        pairs = builder.bitcast(value, ir.VectorType(kind, lanes))
        # The first of the two is in the lower half, and comes to be added, times its weight, to the upper one.
        product = builder.mul(pairs, _vector([(10 ** (half // 8) << half) + 1] * lanes, kind))
        value = builder.lshr(product, _vector([half] * lanes, kind))
    lanes = count // 8
    pairs = builder.bitcast(value, ir.VectorType(_WORD, lanes))
    first = builder.mul(builder.and_(pairs, _vector([2**32 - 1] * lanes, _WORD)), _vector([10**4] * lanes, _WORD))
    return builder.add(first, builder.lshr(pairs, _vector([32] * lanes, _WORD)))


def _load(builder: Any, address: Any, count: int) -> Any:  # pragma: no cover
    """So many bytes from an address on, which need not be a multiple of anything."""
    vector = builder.load(builder.inttoptr(address, ir.VectorType(_BYTE, count).as_pointer()))
    vector.align = 1
    return vector


def _vector(values: Sequence[int], kind: Any) -> Any:  # pragma: no cover
    return ir.Constant(ir.VectorType(kind, len(values)), [ir.Constant(kind, value) for value in values])


def _same(value: int, count: int) -> Any:  # pragma: no cover
    return _vector([value] * count, _BYTE)


def _spread(builder: Any, word: Any, count: int = DIGITS) -> Any:  # pragma: no cover
    """A vector of bytes that are all the lowest of a word."""
    index, empty = ir.IntType(32), ir.Constant(ir.VectorType(_BYTE, count), ir.Undefined)
    one = builder.insert_element(empty, builder.trunc(word, _BYTE), ir.Constant(index, 0))
    return builder.shuffle_vector(one, empty, _vector([0] * count, index))
