"""The compiled parser of libsvm text. Importing this module loads numba: only the reader of such files does so.

Numbers of up to 15 digits and small powers of ten are exact products or quotients of two numbers that float64 holds, so
that they are rounded once and rightly. All others, and whatever is not a number, are left to Python, by their place.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FINE, NO_VALUE, NO_INDEX, ORDER, TOO_LARGE, ZERO = range(6)

_SPACE, _TAB, _RETURN, _NEWLINE, _HASH, _COLON = 32, 9, 13, 10, 35, 58
_PLUS, _MINUS, _POINT, _LETTER_E, _LETTER_CAPITAL_E, _DIGIT_0, _DIGIT_9, _LETTER_Q = 43, 45, 46, 101, 69, 48, 57, 113
_POWERS = 10.0 ** np.arange(23)


@njit(nogil=True, error_model="numpy", cache=True)
def _blank(byte):  # type: ignore[no-untyped-def] # pragma: no cover
    return byte in (_SPACE, _TAB, _RETURN)


@njit(nogil=True, error_model="numpy", cache=True)
def _number(text, at, stop):  # type: ignore[no-untyped-def] # pragma: no cover
    """A number, the place behind it, and whether it is exact; it ends at a blank, a colon or a hash."""
    start, negative = at, False
    if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
        negative = text[at] == _MINUS
        at += 1
    digits = power = count = 0
    seen = point = False
    while at < stop:
        byte = text[at]
        if _DIGIT_0 <= byte <= _DIGIT_9:
            seen = True
            if count < 18:
                digits = digits * 10 + (byte - _DIGIT_0)
                count += digits > 0
                power -= point
            else:
                count += 1
        elif byte == _POINT and not point:
            point = True
        else:
            break
        at += 1
    exact = seen and count <= 15
    if at < stop and seen and (text[at] == _LETTER_E or text[at] == _LETTER_CAPITAL_E):
        at += 1
        sign = 1
        if at < stop and (text[at] == _PLUS or text[at] == _MINUS):
            sign = -1 if text[at] == _MINUS else 1
            at += 1
        exponent = figures = 0
        while at < stop and _DIGIT_0 <= text[at] <= _DIGIT_9:
            exponent = min(exponent * 10 + (text[at] - _DIGIT_0), 9999)
            figures += 1
            at += 1
        exact = exact and figures > 0
        power += sign * exponent
    while at < stop and not (_blank(text[at]) or text[at] == _COLON or text[at] == _HASH or text[at] == _NEWLINE):
        exact = False
        at += 1
    exact = exact and -22 <= power <= 22 and at > start
    value = 0.0
    if exact:
        value = digits * _POWERS[power] if power >= 0 else digits / _POWERS[-power]
        value = -value if negative else value
    return value, at, exact


@njit(nogil=True, error_model="numpy", cache=True)
def parse(text, base, labels, starts, columns, values, hard):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse whole lines ``label index:value ... # comment`` into CSR.

    ``hard`` takes (slot, first byte, last byte) of numbers left to Python; slot is that of the value, or -1 - row for a
    label. Returns rows, values, hard numbers, what was wrong, and where.
    """
    rows = stored = left = at = 0
    end = text.size
    while at < end:
        while at < end and (_blank(text[at]) or text[at] == _NEWLINE):
            at += 1
        if at < end and text[at] == _HASH:
            while at < end and text[at] != _NEWLINE:
                at += 1
            continue
        if at >= end:
            break
        first = at
        value, at, exact = _number(text, at, end)
        labels[rows] = value
        if not exact:
            hard[left, 0], hard[left, 1], hard[left, 2] = -1 - rows, first, at
            left += 1
        last = -1
        while at < end and text[at] != _NEWLINE:
            if _blank(text[at]):
                at += 1
                continue
            if text[at] == _HASH:
                while at < end and text[at] != _NEWLINE:
                    at += 1
                break
            if text[at] == _LETTER_Q:  # qid:7 tells which rows belong together when ranking
                while at < end and text[at] != _NEWLINE and not _blank(text[at]):
                    at += 1
                continue
            column, figures, token = 0, 0, at
            while at < end and _DIGIT_0 <= text[at] <= _DIGIT_9 and figures < 12:
                column = column * 10 + (text[at] - _DIGIT_0)
                figures += 1
                at += 1
            if figures == 0 or at >= end or text[at] != _COLON:
                return rows, stored, left, NO_INDEX, token
            column -= base
            if column < 0:
                return rows, stored, left, ZERO, token
            if column > 2147483646:
                return rows, stored, left, TOO_LARGE, token
            if column <= last:
                return rows, stored, left, ORDER, token
            last = column
            first = at + 1
            value, at, exact = _number(text, first, end)
            if at == first:
                return rows, stored, left, NO_VALUE, token
            columns[stored], values[stored] = column, value
            if not exact:
                hard[left, 0], hard[left, 1], hard[left, 2] = stored, first, at
                left += 1
            stored += 1
        rows += 1
        starts[rows] = stored
    return rows, stored, left, FINE, at


@njit(nogil=True, error_model="numpy", cache=True)
def largest_index(text):  # type: ignore[no-untyped-def] # pragma: no cover
    """The largest index before a colon, over whole lines: columns ascend, so that the last of each line is enough."""
    largest = number = last = 0
    comment = digit = False
    for at in range(text.size):
        byte = text[at]
        if _DIGIT_0 <= byte <= _DIGIT_9:
            number = min((number if digit else 0) * 10 + (byte - _DIGIT_0), 1 << 40)
            digit = True
            continue
        if byte == _COLON and digit and not comment:
            last = number
        elif byte == _HASH:
            comment = True
        elif byte == _NEWLINE:
            largest, last, comment = max(largest, last), 0, False
        digit = False
    return max(largest, last)
