"""Parse adjacent numbers of a line, compiled. Importing this module loads numba.

The end of each number is known, so that they can be parsed independently. The digits of short numbers are collected and
converted several at a time. All others, the hard words, are only listed.
"""

from __future__ import annotations

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from mergesvm.data.text_parser.numbers import MINUS
from mergesvm.data.text_parser.simd import BATCH_NUMBERS, BEFORE, DIGITS, behind_point, lay_digits, quotients
from mergesvm.data.text_parser.words import WORD_BYTES, byte, put, word
from mergesvm.jit import compiled

STAGE_LINES = 4
"""Rows of the stage: upper and lower digits, divisors, and the numbers."""

_MAX_SHORT_DIGITS = 15
"""Integers of up to this many digits, and the powers of ten they are divided by, are exact as float64."""


def _shapes() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return tables, by the length of a number without its sign and the number of bytes after its point.

    The first holds the lanes of its digits, as :func:`lay_digits` takes them; the second the bits of the divisor, first
    for positive, then for negative numbers, and zero if the number is not short or has no digits.
    """
    lanes = np.zeros((DIGITS + 1, 2 * DIGITS), dtype=np.uint64)
    divisors = np.zeros((2, DIGITS + 1, 2 * DIGITS))
    for length in range(DIGITS + 1):
        for behind in range(DIGITS + 1):
            pointed = behind < length  # otherwise the point belongs to an earlier number
            count = length - pointed
            taken, wanted = (2**DIGITS - 2 ** (DIGITS - last) for last in (behind, count))
            lanes[length, behind] = taken | wanted << DIGITS
            if 0 < count <= _MAX_SHORT_DIGITS:
                power = 10.0 ** (behind * pointed)
                divisors[:, length, behind] = power, -power
    return lanes.ravel(), divisors.ravel().view(np.uint64)


_LANES, _DIVISORS = _shapes()

_MISSING = uint64(np.array(np.nan).view(np.uint64))


HARD_BYTES = uint64(3) * WORD_BYTES
"""Size of an entry of the list of hard words."""


@compiled
def parse_run(at, begin, ends, count, stage, apart, place, step, hard):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse ``count`` numbers, the first of which starts at an address; returns the address after the last hard word.

    An empty number becomes NaN. ``begin`` is the start of the text, ``ends`` the address of the field ends, and
    ``apart`` the distance of the rows of the ``stage``. Results are stored at ``place``, ``step`` bytes apart. Numbers
    that are not short are not parsed; their place, start and end are stored at ``hard``.
    """
    uppers, lowers, divisors, values = stage, stage + apart, stage + uint64(2) * apart, stage + uint64(3) * apart
    start, odd = at, False
    near = word(ends) - begin < uint64(BEFORE)  # too near to the start of the text to load bytes before it
    for index in range(count):
        stop = word(ends + WORD_BYTES * index)
        length = stop - start
        if length - uint64(1) < uint64(DIGITS) and not near:
            minus = uint64(byte(start) == MINUS)
            shape = (length - minus) * uint64(2 * DIGITS) + behind_point(stop)
            divisor = _DIVISORS[shape + minus * uint64(_LANES.size)]
            if not lay_digits(stop, _LANES[shape], uppers + WORD_BYTES * index, apart):
                divisor = uint64(0)
        else:
            divisor = uint64(0) if length else _MISSING
        odd |= divisor == uint64(0)
        put(divisors + WORD_BYTES * index, divisor)
        start = stop + uint64(1)
    for index in range(uint64(0), count, uint64(BATCH_NUMBERS)):
        here = WORD_BYTES * index
        quotients(uppers + here, lowers + here, divisors + here, values + here)
    for index in range(count):
        put(place + step * index, word(values + WORD_BYTES * index))
    if odd:
        start = at
        for index in range(count):
            stop = word(ends + WORD_BYTES * index)
            if word(divisors + WORD_BYTES * index) == uint64(0):
                put(hard, place + step * index)
                put(hard + WORD_BYTES, start)
                put(hard + uint64(2) * WORD_BYTES, stop)
                hard += HARD_BYTES
            start = stop + uint64(1)
    return hard
