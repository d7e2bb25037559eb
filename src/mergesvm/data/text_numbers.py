"""Decimal numbers in text, compiled. Importing this module loads numba: only readers of large text do so.

A number of up to 19 digits is rounded rightly by the method of Eisel and Lemire: its digits, as a 64-bit number, times
the first 128 bits of a power of five. In the rare cases where that leaves the last bit open, as with more digits and
with words that are no numbers, the text is left to Python.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types, uint64
from numba.extending import intrinsic
from numpy.typing import NDArray

SPACE, TAB, RETURN, NEWLINE, HASH, COLON = 32, 9, 13, 10, 35, 58
_PLUS, _MINUS, _POINT, _LETTER_E, _CAPITAL_E, DIGIT_0, DIGIT_9 = 43, 45, 46, 101, 69, 48, 57

_LOWEST, _HIGHEST = -342, 308
"""Powers of ten outside of these make every number of 19 digits zero or infinite."""

_ONES = 0xFFFFFFFFFFFFFFFF


def _powers_of_five() -> NDArray[np.uint64]:
    """The first 128 bits of each power of five, as two words; those of negative powers are rounded up."""
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


@njit(nogil=True, error_model="numpy", cache=True)
def _product(a, b):  # type: ignore[no-untyped-def] # pragma: no cover
    """The two words of a product of two words."""
    half, low = uint64(32), uint64(0xFFFFFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & low, b >> half, b & low
    cross = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (cross & low)
    return a_high * b_high + (cross >> half) + (other >> half), a * b


@njit(nogil=True, error_model="numpy", cache=True)
def _rounded(digits, power):  # type: ignore[no-untyped-def] # pragma: no cover
    """The bits of digits x 10^power as float64, and whether they are certain; ``digits`` is not zero."""
    if power < _LOWEST or power > _HIGHEST:
        return uint64(0), False
    shift = uint64(0)
    for step in (32, 16, 8, 4, 2, 1):
        if digits >> uint64(64 - step) == 0:
            digits <<= uint64(step)
            shift += uint64(step)
    five = _FIVES[power - _LOWEST]
    high, low = _product(digits, five[0])
    if high & uint64(0x1FF) == uint64(0x1FF):
        more, _ = _product(digits, five[1])
        low += more
        if more > low:
            high += uint64(1)
    if low == uint64(_ONES) and not -27 <= power <= 55:
        return uint64(0), False
    upper = high >> uint64(63)
    mantissa = high >> (upper + uint64(9))
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - np.int64(shift) + 1023
    if exponent <= 0 or exponent >= 2046:
        return uint64(0), False  # very small or large: rare enough
    halfway = low <= uint64(1) and -4 <= power <= 23 and mantissa & uint64(3) == uint64(1)
    if halfway and mantissa << (upper + uint64(9)) == high:
        mantissa &= ~uint64(1)  # exactly between two numbers: to the even one
    mantissa += mantissa & uint64(1)
    mantissa >>= uint64(1)
    if mantissa >> uint64(53):
        mantissa = uint64(1) << uint64(52)
        exponent += 1
    return (mantissa & ~(uint64(1) << uint64(52))) | (uint64(exponent) << uint64(52)), True


@intrinsic
def _from_bits(context, bits):  # type: ignore[no-untyped-def] # pragma: no cover # noqa: ARG001
    """The float64 of 64 bits."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def] # noqa: ARG001
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), generate


@njit(nogil=True, error_model="numpy", cache=True)
def _value(digits, power):  # type: ignore[no-untyped-def] # pragma: no cover
    """The number digits x 10^power, and whether it is certain."""
    if digits < uint64(1) << uint64(53) and -22 <= power <= 22:
        # Both factors are exact, and so one product or quotient is rounded rightly.
        whole = np.float64(np.int64(digits))
        return (whole / _TENS[-power] if power < 0 else whole * _TENS[power]), True
    bits, certain = _rounded(digits, power)
    return _from_bits(bits), certain


@njit(nogil=True, error_model="numpy", cache=True)
def number(text, at, stop):  # type: ignore[no-untyped-def] # pragma: no cover
    """The number that begins here, the place behind it, and whether both are certain."""
    at, stop, zero, nine, ten = uint64(at), uint64(stop), uint64(DIGIT_0), uint64(9), uint64(10)
    negative = False
    if at < stop and (text[at] == _MINUS or text[at] == _PLUS):
        negative = text[at] == _MINUS
        at += uint64(1)
    first, digits = at, uint64(0)
    while at < stop:
        digit = uint64(text[at]) - zero  # what is below "0" becomes very large
        if digit > nine:
            break
        digits = digits * ten + digit
        at += uint64(1)
    seen, power = np.int64(at - first), 0
    if at < stop and text[at] == _POINT:
        at += uint64(1)
        behind = at
        while at < stop:
            digit = uint64(text[at]) - zero
            if digit > nine:
                break
            digits = digits * ten + digit
            at += uint64(1)
        power = -np.int64(at - behind)
        seen -= power
    if seen > 19:  # unless they begin with zeros, these are too many
        while first < at and (text[first] == DIGIT_0 or text[first] == _POINT):
            seen -= text[first] == DIGIT_0
            first += uint64(1)
    certain = at > first and seen <= 19 and (seen > 0 or digits == 0) and (at - first > 1 or text[first] != _POINT)
    if certain and at < stop and (text[at] == _LETTER_E or text[at] == _CAPITAL_E):
        at += uint64(1)
        sign = 1
        if at < stop and (text[at] == _MINUS or text[at] == _PLUS):
            sign = -1 if text[at] == _MINUS else 1
            at += uint64(1)
        exponent, begin = 0, at
        while at < stop and DIGIT_0 <= text[at] <= DIGIT_9:
            exponent = min(exponent * 10 + (text[at] - DIGIT_0), 9999)
            at += uint64(1)
        certain = at > begin
        power += sign * exponent
    value = 0.0
    if certain and digits:
        value, certain = _value(digits, power)
    return -value if negative else value, np.int64(at), certain
