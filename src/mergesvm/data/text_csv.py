"""The compiled parser of plain CSV: no quotation marks, numbers that are numbers. Importing this module loads numba."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from mergesvm.data.text_numbers import NEWLINE, RETURN, number
from mergesvm.data.text_words import byte

SKIPPED, NUMBER, WORD = range(3)

FINE, UNUSUAL = range(2)

_QUOTE = 34


@njit(nogil=True, error_model="numpy", cache=True)
def parse(text, delimiter, runs, numbers, words):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse whole lines into columns; stop at the first that is unusual.

    ``runs`` are the fields of a line, in order: (kind, first, stop) of numbers that go to these rows of ``numbers``, of
    a word whose first and last byte go to a row of ``words``, or of a field that is skipped. An empty number is
    missing, and becomes NaN. Returns how many lines were parsed, and whether all of them were.
    """
    begin, one = uint64(text.ctypes.data), uint64(1)
    at, end = begin, begin + uint64(text.size)
    rows = 0
    if at < end and byte(end - one) != NEWLINE:  # nothing below looks whether the text goes on within a line
        return rows, UNUSUAL
    while at < end:
        if byte(at) == NEWLINE or (byte(at) == RETURN and byte(at + one) == NEWLINE):
            at += one if byte(at) == NEWLINE else one + one
            continue
        for run in range(len(runs)):
            kind, first, stop = runs[run]
            if kind == NUMBER:
                at = _numbers(at, begin, end, delimiter, uint64(first), uint64(stop), numbers, uint64(rows))
            else:
                start, at = at, _end_of_word(at, delimiter)
                if kind == WORD and at != uint64(0):
                    returned = run == len(runs) - 1 and at > start and byte(at - one) == RETURN
                    words[first, rows, 0] = start - begin
                    words[first, rows, 1] = at - begin - uint64(returned)
            if run < len(runs) - 1 and at != uint64(0):
                at = at + one if byte(at) == delimiter else uint64(0)
            if at == uint64(0):
                return rows, UNUSUAL
        if byte(at) == RETURN:
            at += one
        if byte(at) != NEWLINE:
            return rows, UNUSUAL
        at += one
        rows += 1
    return rows, FINE


@njit(nogil=True, error_model="numpy", cache=True, inline="always")
def _numbers(at, begin, end, delimiter, first, stop, numbers, row):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse a run of numbers; returns the address behind it, or 0 if one is unusual."""
    place = first
    while True:
        start = at
        value, at, certain = number(start, begin, end)
        if at == start:
            value = np.nan
        elif not certain:
            return uint64(0)
        next_byte = byte(at)
        numbers[place, row] = value
        place += uint64(1)
        if place == stop:
            return at
        if next_byte != delimiter:
            return uint64(0)
        at += uint64(1)


@njit(nogil=True, error_model="numpy", cache=True)
def _end_of_word(at, delimiter):  # type: ignore[no-untyped-def] # pragma: no cover
    """The address behind a word; 0 if there is a quotation mark in it, or a return that ends a line elsewhere."""
    while byte(at) != delimiter and byte(at) != NEWLINE:
        if byte(at) == _QUOTE or (byte(at) == RETURN and byte(at + uint64(1)) != NEWLINE):
            return uint64(0)
        at += uint64(1)
    return at


@njit(nogil=True, error_model="numpy", cache=True)
def count_lines(text):  # type: ignore[no-untyped-def] # pragma: no cover
    """How many lines end in a text."""
    count = 0
    for at in range(text.size):
        count += text[at] == NEWLINE
    return count


@njit(nogil=True, error_model="numpy", cache=True)
def copy_words(text, spans, offsets, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """The words one behind the other, and where each begins."""
    at = 0
    for row in range(len(spans)):
        offsets[row] = at
        for place in range(spans[row, 0], spans[row, 1]):
            out[at] = text[place]
            at += 1
    offsets[len(spans)] = at
    return at
