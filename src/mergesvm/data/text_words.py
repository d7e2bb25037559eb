"""Eight bytes of text at a time, compiled. Importing this module loads numba: only readers of large text do so.

Text is read as 64-bit words whose lowest byte is the first, and the digits of a word are added up by three
multiplications instead of eight, with no branch that depends on how many there are. It is named by addresses, not as
an array: of arrays numba counts the references, at times for each number anew. Whoever has an address has to hold the
array as long.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types, uint64
from numba.extending import intrinsic

_ZEROS = 0x3030303030303030
_NINES_FREE = 0x7676767676767676
"""Added to bytes that were made 0 to 9 for digits, it sets the highest bit of the first that was none."""

_HIGHEST_BITS = 0x8080808080808080
_EVERY_FOURTH = 0x000000FF000000FF

TENS = 10 ** np.arange(9, dtype=np.uint64)


@intrinsic
def byte(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The byte at an address."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.uint64), generate


@intrinsic
def _word(context, address):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The eight bytes from an address on, which need not be a multiple of anything."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        word = builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(types.uint64), generate


@intrinsic
def _zeros_behind(context, word):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
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


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def word(at):  # type: ignore[no-untyped-def] # pragma: no cover
    """Eight bytes from an address on, in which digits have become 0 to 9."""
    return _word(at) ^ uint64(_ZEROS)


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def digits_ahead(word):  # type: ignore[no-untyped-def] # pragma: no cover
    """How many digits a word begins with, up to eight."""
    others = ((word + uint64(_NINES_FREE)) | word) & uint64(_HIGHEST_BITS)
    return _zeros_behind(others) >> uint64(3)


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def number_ahead(word, count):  # type: ignore[no-untyped-def] # pragma: no cover
    """The number that the first ``count`` bytes of a word are the digits of; 0 where there are none."""
    half = uint64(32) - (count << uint64(2))
    word = (word << half) << half  # what follows the digits goes; two shifts, because one cannot shift by 64
    word = word * uint64(10) + (word >> uint64(8))
    fours = (word & uint64(_EVERY_FOURTH)) * uint64(100 + (1000000 << 32))
    fours += ((word >> uint64(16)) & uint64(_EVERY_FOURTH)) * uint64(1 + (10000 << 32))
    return fours >> uint64(32)
