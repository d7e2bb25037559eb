"""Parse decimal numbers, compiled. Importing this module loads numba.

Numbers of up to 19 digits are rounded correctly by the method of Eisel and Lemire: the digits, as a 64-bit integer,
times the first 128 bits of a power of five. The rare cases in which that leaves the last bit open, numbers of more
digits, and words that are not numbers are left to Python.
"""

from __future__ import annotations

import numpy as np
from numba import types, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

from mergesvm.data.text_parser.simd import BEFORE, DIGITS, WINDOW, digits_and_points, digits_before
from mergesvm.data.text_parser.words import byte, high_product, leading_zeros, trailing_zeros
from mergesvm.jit import compiled

SPACE, TAB, RETURN, HASH, COLON = 32, 9, 13, 35, 58
_PLUS, MINUS, _POINT, _LETTER_E, _CAPITAL_E, DIGIT_0, DIGIT_9 = 43, 45, 46, 101, 69, 48, 57

_LOWEST, _HIGHEST = -342, 308
"""With powers of ten outside of this range, every number of 19 digits is zero or infinite."""

_ONES = 0xFFFFFFFFFFFFFFFF

MARGIN = BEFORE + WINDOW
"""Number of bytes that a text must have around the start of a number for it to be loaded as a vector."""


def _powers_of_five() -> NDArray[np.uint64]:
    """Return the first 128 bits of each power of five, as two words; negative powers are rounded up."""
    table = np.empty((_HIGHEST - _LOWEST + 1, 2), dtype=np.uint64)
    for power in range(_LOWEST, _HIGHEST + 1):
        five = 5 ** abs(power)
        length = five.bit_length()
        inverse = 2 ** (length + 127 if power >= -27 else 2 * length + 128) // five + 1
        bits = inverse if power < 0 else five << 128
        bits >>= max(0, bits.bit_length() - 128)
        table[power - _LOWEST] = bits >> 64, bits & _ONES
    return table


_FIVES = _powers_of_five()
_TENS = 10.0 ** np.arange(23)


@compiled
def _rounded(digits, power):  # type: ignore[no-untyped-def] # pragma: no cover
    """Return the bits of digits x 10^power as float64, and whether they are certain; ``digits`` is not zero."""
    if power < _LOWEST or power > _HIGHEST:
        return uint64(0), False
    shift = leading_zeros(digits)
    digits <<= shift
    place = uint64(power - _LOWEST)
    high, low = high_product(digits, _FIVES[place, 0]), digits * _FIVES[place, 0]
    if high & uint64(0x1FF) == uint64(0x1FF):
        more = high_product(digits, _FIVES[place, 1])
        low += more
        if more > low:
            high += uint64(1)
    if low == uint64(_ONES) and not -27 <= power <= 55:
        return uint64(0), False
    upper = high >> uint64(63)
    mantissa = high >> (upper + uint64(9))
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - np.int64(shift) + 1023
    if exponent <= 0 or exponent >= 2046:
        return uint64(0), False  # very small or large, which is rare
    halfway = low <= uint64(1) and -4 <= power <= 23 and mantissa & uint64(3) == uint64(1)
    if halfway and mantissa << (upper + uint64(9)) == high:
        mantissa &= ~uint64(1)  # exactly between two numbers: round to even
    mantissa += mantissa & uint64(1)
    mantissa >>= uint64(1)
    if mantissa >> uint64(53):
        mantissa = uint64(1) << uint64(52)
        exponent += 1
    return (mantissa & ~(uint64(1) << uint64(52))) | (uint64(exponent) << uint64(52)), True


@intrinsic
def _from_bits(context, bits):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """Reinterpret 64 bits as a float64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), generate


@compiled
def _value(digits, power):  # type: ignore[no-untyped-def] # pragma: no cover
    """Return digits x 10^power, and whether it is certain."""
    if digits < uint64(1) << uint64(53) and -22 <= power <= 22:
        # Both factors are exact, so that the product or quotient is rounded correctly.
        whole = np.float64(np.int64(digits))
        return (whole / _TENS[-power] if power < 0 else whole * _TENS[power]), True
    bits, certain = _rounded(digits, power)
    return _from_bits(bits), certain


@compiled(inline="always")
def number(at, begin, stop):  # type: ignore[no-untyped-def] # pragma: no cover
    """Return the number that starts at an address, the address after it, and whether both are certain."""
    # One unsigned comparison for both ends: addresses before the first wrap around. A short text has no room.
    room = stop - begin - uint64(MARGIN) if stop - begin > uint64(MARGIN) else uint64(0)
    if at - begin - uint64(BEFORE) < room:
        value, end, certain = _common(at)
        if certain:
            return value, end, True
    return _any(at, stop)


@compiled(inline="always")
def _common(at):  # type: ignore[no-untyped-def] # pragma: no cover
    """Do the same for numbers of up to 19 digits without an exponent, without loops.

    Branches on sign and length would often be mispredicted. The end is computed first, so that the next number does not
    depend on the value of this one.
    """
    digit, point = digits_and_points(at)
    sign = uint64(byte(at) == MINUS)
    length = trailing_zeros(~(digit | point | sign))  # at most the window
    end, point = at + length, point & ((uint64(1) << length) - uint64(1))
    plain = point & (point - uint64(1)) == uint64(0) and length < uint64(WINDOW)
    behind = length - uint64(1) - trailing_zeros(point) if point else uint64(WINDOW)
    count = length - sign - uint64(point != uint64(0))
    digits = digits_before(end, behind, count)
    if count > uint64(DIGITS):
        passed = uint64(behind < uint64(DIGITS))  # whether the point is among the last digits
        rest = uint64(WINDOW) if passed else behind - uint64(DIGITS)
        digits += digits_before(end - uint64(DIGITS) - passed, rest, count - uint64(DIGITS)) * uint64(10**DIGITS)
    behind &= uint64(WINDOW - 1)
    certain = plain and uint64(0) < count <= uint64(19) and byte(end) | 32 != _LETTER_E
    value = np.float64(np.int64(digits)) / _TENS[min(behind, uint64(22))]
    if certain and digits >> uint64(53):
        value, certain = _value(digits, -np.int64(behind))
    return -value if sign else value, end, certain


@compiled
def _any(at, stop):  # type: ignore[no-untyped-def] # pragma: no cover
    """Do the same for any number, byte by byte."""
    zero, nine, ten = uint64(DIGIT_0), uint64(9), uint64(10)
    negative = False
    if at < stop and (byte(at) == MINUS or byte(at) == _PLUS):
        negative = byte(at) == MINUS
        at += uint64(1)
    first, digits = at, uint64(0)
    while at < stop:
        digit = uint64(byte(at)) - zero  # bytes below "0" wrap around
        if digit > nine:
            break
        digits = digits * ten + digit
        at += uint64(1)
    seen, power = np.int64(at - first), 0
    if at < stop and byte(at) == _POINT:
        at += uint64(1)
        behind = at
        while at < stop:
            digit = uint64(byte(at)) - zero
            if digit > nine:
                break
            digits = digits * ten + digit
            at += uint64(1)
        power = -np.int64(at - behind)
        seen -= power
    if seen > 19:  # too many, unless there are leading zeros
        while first < at and (byte(first) == DIGIT_0 or byte(first) == _POINT):
            seen -= byte(first) == DIGIT_0
            first += uint64(1)
    certain = at > first and seen <= 19 and (seen > 0 or digits == 0) and (at - first > 1 or byte(first) != _POINT)
    if certain and at < stop and (byte(at) == _LETTER_E or byte(at) == _CAPITAL_E):
        at += uint64(1)
        sign = 1
        if at < stop and (byte(at) == MINUS or byte(at) == _PLUS):
            sign = -1 if byte(at) == MINUS else 1
            at += uint64(1)
        exponent, begin = 0, at
        while at < stop and DIGIT_0 <= byte(at) <= DIGIT_9:
            exponent = min(exponent * 10 + (byte(at) - DIGIT_0), 9999)
            at += uint64(1)
        certain = at > begin
        power += sign * exponent
    value = 0.0
    if certain and digits:
        value, certain = _value(digits, power)
    return -value if negative else value, at, certain
