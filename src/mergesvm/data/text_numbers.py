"""Decimal numbers in text, compiled. Importing this module loads numba: only readers of large text do so.

A number of up to 19 digits is rounded rightly by the method of Eisel and Lemire: its digits, as a 64-bit number, times
the first 128 bits of a power of five. In the rare cases where that leaves the last bit open, as with more digits and
with words that are no numbers, the text is left to Python.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64
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


@njit(nogil=True, error_model="numpy", cache=True)
def number(text, at, stop):  # type: ignore[no-untyped-def] # pragma: no cover
    """The bits of the number that begins here, the place behind it, and whether both are certain."""
    negative = False
    if at < stop and (text[at] == _MINUS or text[at] == _PLUS):
        negative = text[at] == _MINUS
        at += 1
    digits, power, count, seen = uint64(0), 0, 0, 0
    while at < stop and DIGIT_0 <= text[at] <= DIGIT_9:
        digits = digits * uint64(10) + uint64(text[at] - DIGIT_0)
        count += digits > 0
        seen += 1
        at += 1
    if at < stop and text[at] == _POINT:
        at += 1
        while at < stop and DIGIT_0 <= text[at] <= DIGIT_9:
            digits = digits * uint64(10) + uint64(text[at] - DIGIT_0)
            count += digits > 0
            seen += 1
            power -= 1
            at += 1
    certain = seen > 0 and count <= 19
    if certain and at < stop and (text[at] == _LETTER_E or text[at] == _CAPITAL_E):
        at += 1
        sign = 1
        if at < stop and (text[at] == _MINUS or text[at] == _PLUS):
            sign = -1 if text[at] == _MINUS else 1
            at += 1
        exponent, first = 0, at
        while at < stop and DIGIT_0 <= text[at] <= DIGIT_9:
            exponent = min(exponent * 10 + (text[at] - DIGIT_0), 9999)
            at += 1
        certain = at > first
        power += sign * exponent
    bits = uint64(0)
    if certain and digits:
        bits, certain = _rounded(digits, power)
    if negative:
        bits |= uint64(1) << uint64(63)
    return bits, at, certain
