"""The compiled parser of plain CSV: no quotation marks, numbers that are numbers. Importing this module loads numba."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from mergesvm.data.text_numbers import NEWLINE, RETURN, number
from mergesvm.data.text_words import byte

SKIPPED, NUMBER, WORD = range(3)

FINE, UNUSUAL = range(2)

_QUOTE = 34


TILE_ROWS = 64
"""Numbers are put together so many lines at a time, in the cache, and then written column by column."""


@njit(nogil=True, error_model="numpy", cache=True)
def parse(text, delimiter, runs, numbers, words):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse whole lines into columns; stop at the first that is unusual.

    ``runs`` are the fields of a line, in order: (kind, first, stop) of numbers that go to these rows of ``numbers``, of
    a word whose first and last byte go to a row of ``words``, or of a field that is skipped. An empty number is
    missing, and becomes NaN. Returns how many lines were parsed, and whether all of them were.
    """
    begin, one = uint64(text.ctypes.data), uint64(1)
    at, end = begin, begin + uint64(text.size)
    tile = np.empty((TILE_ROWS, numbers.shape[0]))
    rows = written = 0
    state = FINE
    while at < end:
        if byte(at) == NEWLINE or (byte(at) == RETURN and at + one < end and byte(at + one) == NEWLINE):
            at += one if byte(at) == NEWLINE else one + one
            continue
        at = _line(at, begin, end, delimiter, runs, tile, rows - written, words, rows)
        if at == uint64(0):
            state = UNUSUAL
            break
        rows += 1
        if rows - written == TILE_ROWS:
            _write(tile, numbers, written, rows)
            written = rows
    _write(tile, numbers, written, rows)
    return rows, state


@njit(nogil=True, error_model="numpy", cache=True)
def _line(at, begin, end, delimiter, runs, tile, line, words, row):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse one line; returns the address behind it, or 0 if it is unusual."""
    one, last = uint64(1), runs.shape[0] - 1
    for run in range(runs.shape[0]):
        kind, first, stop = runs[run]
        if kind == NUMBER:
            for place in range(first, stop):
                start = at
                value, at, certain = number(start, end)
                if at == start:
                    value = np.nan
                elif not certain:
                    return uint64(0)
                tile[line, place] = value
                if place < stop - 1:
                    if at >= end or byte(at) != delimiter:
                        return uint64(0)
                    at += one
        else:
            start = at
            while at < end and byte(at) != delimiter and byte(at) != NEWLINE:
                alone = byte(at) == RETURN and (at + one >= end or byte(at + one) != NEWLINE)  # ends a line elsewhere
                if byte(at) == _QUOTE or alone:
                    return uint64(0)
                at += one
            if kind == WORD:
                returned = run == last and at > start and byte(at - one) == RETURN
                words[first, row, 0] = start - begin
                words[first, row, 1] = at - begin - uint64(returned)
        if run < last:
            if at >= end or byte(at) != delimiter:
                return uint64(0)
            at += one
    if at < end and byte(at) == RETURN:
        at += one
    return at + one if at < end and byte(at) == NEWLINE else uint64(0)


@njit(nogil=True, error_model="numpy", cache=True)
def _write(tile, numbers, first, last):  # type: ignore[no-untyped-def] # pragma: no cover
    for column in range(numbers.shape[0]):
        for line in range(last - first):
            numbers[column, first + line] = tile[line, column]


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
