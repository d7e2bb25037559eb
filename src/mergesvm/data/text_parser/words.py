"""Loads, stores and bit operations on 64-bit words, compiled. Importing this module loads numba.

Text is referred to by address, not as an array, because numba counts references to arrays, at times for each number.
Whoever passes an address has to keep the array alive.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

WORD_BYTES = uint64(8)

_BYTE, _WORD = ir.IntType(8), ir.IntType(64)


@intrinsic
def byte(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Load the byte at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.load(builder.inttoptr(arguments[0], _BYTE.as_pointer()))

    return types.uint8(types.uint64), generate


@intrinsic
def word(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Load the 64-bit word at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.uint64(types.uint64), generate


@intrinsic
def put(context, address, value):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Store a 64-bit word or a float64 at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        address, value = arguments
        builder.store(value, builder.inttoptr(address, value.type.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.uint64, value), generate


@intrinsic
def trailing_zeros(context, word):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Count trailing zero bits of a word; 64 if all are zero."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def leading_zeros(context, word):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Count leading zero bits of a word; 64 if all are zero."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def count_ones(context, word):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Count the bits of a word that are set."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def high_product(context, a, b):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Return the upper 64 bits of the product of two words."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        long = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, long) for argument in arguments))
        return builder.trunc(builder.lshr(product, ir.Constant(long, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate
