"""The compiled parser of libsvm text. Importing this module loads numba."""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.data.text_parser.lines import NEWLINE
from mergesvm.data.text_parser.numbers import COLON, DIGIT_0, DIGIT_9, HASH, RETURN, SPACE, TAB, number
from mergesvm.jit import compiled

FINE, NO_VALUE, NO_INDEX, ORDER, TOO_LARGE, ZERO = range(6)

_QID = tuple(b"qid")


@compiled
def _blank(byte):  # type: ignore[no-untyped-def] # pragma: no cover
    return byte in (SPACE, TAB, RETURN)


@compiled
def _end_of_word(text, at):  # type: ignore[no-untyped-def] # pragma: no cover
    while at < text.size and text[at] != NEWLINE and text[at] != HASH and not _blank(text[at]):
        at += 1
    return at


@compiled
def _end_of_line(text, at):  # type: ignore[no-untyped-def] # pragma: no cover
    while at < text.size and text[at] != NEWLINE:
        at += 1
    return at


@compiled
def _number(text, at):  # type: ignore[no-untyped-def] # pragma: no cover
    begin = uint64(text.ctypes.data)
    value, end, certain = number(begin + uint64(at), begin, begin + uint64(text.size))
    return value, np.int64(end - begin), certain


@compiled(inline="always")
def _index(text, at):  # type: ignore[no-untyped-def] # pragma: no cover
    """The index of up to 12 digits at a position, and the position after it."""
    index, stop = 0, min(at + 12, text.size)
    while at < stop and DIGIT_0 <= text[at] <= DIGIT_9:
        index = index * 10 + (text[at] - DIGIT_0)
        at += 1
    return index, at


@compiled
def parse(text, base, labels, starts, columns, values, hard):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse whole lines ``label index:value ... # comment`` into CSR.

    ``hard`` receives (slot, start, stop) of words left to Python; slot is the index of the value, or -1 - row for a
    label. Returns the numbers of rows, values and hard words, the state, and the position of an error.
    """
    rows = stored = left = at = 0
    end = text.size
    while at < end:
        while at < end and (_blank(text[at]) or text[at] == NEWLINE):
            at += 1
        if at < end and text[at] == HASH:
            at = _end_of_line(text, at)
            continue
        if at >= end:
            break
        first = at
        labels[rows], at, certain = _number(text, at)
        stop = _end_of_word(text, at)
        if not certain or stop > at:
            hard[left, 0], hard[left, 1], hard[left, 2] = -1 - rows, first, stop
            left += 1
        at, last = stop, -1
        while at < end and text[at] != NEWLINE:
            if _blank(text[at]):
                at += 1
                continue
            if text[at] == HASH:
                at = _end_of_line(text, at)
                break
            token = at
            if at + 4 <= end and text[at] == _QID[0] and text[at + 1] == _QID[1] and text[at + 2] == _QID[2]:
                at = _end_of_word(text, at)  # qid:7 groups rows for ranking, and is skipped
                if text[token + 3] == COLON:
                    continue
                return rows, stored, left, NO_INDEX, token
            column, at = _index(text, at)
            if at == token or at >= end or text[at] != COLON:
                return rows, stored, left, NO_INDEX, token
            column -= base
            if column < 0:
                return rows, stored, left, ZERO, token
            if column > 2147483646:
                return rows, stored, left, TOO_LARGE, token
            if column <= last:
                return rows, stored, left, ORDER, token
            last, first = column, at + 1
            columns[stored] = column
            values[stored], at, certain = _number(text, first)
            stop = _end_of_word(text, at)
            if stop == first:
                return rows, stored, left, NO_VALUE, token
            if not certain or stop > at:
                hard[left, 0], hard[left, 1], hard[left, 2] = stored, first, stop
                left += 1
            at = stop
            stored += 1
        rows += 1
        starts[rows] = stored
    return rows, stored, left, FINE, at


@compiled
def largest_index(text):  # type: ignore[no-untyped-def] # pragma: no cover
    """Return the largest index before a colon; the last of each line is enough, because indices ascend."""
    largest = number = last = 0
    comment = digit = False
    for at in range(text.size):
        byte = text[at]
        if DIGIT_0 <= byte <= DIGIT_9:
            number = min((number if digit else 0) * 10 + (byte - DIGIT_0), 1 << 40)
            digit = True
            continue
        if byte == COLON and digit and not comment:
            last = number
        elif byte == HASH:
            comment = True
        elif byte == NEWLINE:
            largest, last, comment = max(largest, last), 0, False
        digit = False
    return max(largest, last)
