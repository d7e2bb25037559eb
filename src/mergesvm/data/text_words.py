"""Many bytes of text at a time, compiled. Importing this module loads numba: only readers of large text do so.

Text is looked at as vectors of bytes, by plain vector operations of LLVM, which every processor has in some form. It is
named by addresses, not as an array: of arrays numba counts the references, at times for each number anew. Whoever has
an address has to hold the array as long. The lowest byte of a word is taken to be the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WINDOW = 32
"""So many bytes are looked at from where a number begins."""

DIGITS = 16
"""So many digits are added up at a time."""

BEFORE = DIGITS + 1
"""So many bytes before the end of digits are loaded to add them up."""

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)
_ZERO = ord("0")


@intrinsic
def byte(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The byte at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.load(builder.inttoptr(arguments[0], _BYTE.as_pointer()))

    return types.uint8(types.uint64), generate


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
        point = builder.icmp_unsigned("==", window, _same(ord("."), WINDOW))
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
        for bits in (16, 32, 64):  # neighbours are added up: 1 digit and 1, then 2 and 2, then 4 and 4
            half, lanes = bits // 2, 8 * DIGITS // bits
            kind = ir.IntType(bits)
            pairs = builder.bitcast(value, ir.VectorType(kind, lanes))
            first = builder.and_(pairs, _vector([2**half - 1] * lanes, kind))
            second = builder.lshr(pairs, _vector([half] * lanes, kind))
            value = builder.add(builder.mul(first, _vector([10 ** (half // 8)] * lanes, kind)), second)
        upper, lower = (builder.extract_element(value, ir.Constant(ir.IntType(32), lane)) for lane in (0, 1))
        return builder.add(builder.mul(upper, ir.Constant(_WORD, 10**8)), lower)

    return types.uint64(types.uint64, types.uint64, types.uint64), generate


def _load(builder: Any, address: Any, count: int) -> Any:  # pragma: no cover
    """So many bytes from an address on, which need not be a multiple of anything."""
    vector = builder.load(builder.inttoptr(address, ir.VectorType(_BYTE, count).as_pointer()))
    vector.align = 1
    return vector


def _vector(values: Sequence[int], kind: Any) -> Any:  # pragma: no cover
    return ir.Constant(ir.VectorType(kind, len(values)), [ir.Constant(kind, value) for value in values])


def _same(value: int, count: int) -> Any:  # pragma: no cover
    return _vector([value] * count, _BYTE)


def _spread(builder: Any, word: Any) -> Any:  # pragma: no cover
    """A vector of bytes that are all the lowest of a word."""
    index, empty = ir.IntType(32), ir.Constant(ir.VectorType(_BYTE, DIGITS), ir.Undefined)
    one = builder.insert_element(empty, builder.trunc(word, _BYTE), ir.Constant(index, 0))
    return builder.shuffle_vector(one, empty, _vector([0] * DIGITS, index))
