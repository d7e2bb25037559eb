"""The compiled parser of plain CSV, without quotation marks. Importing this module loads numba."""

from __future__ import annotations

import numpy as np
from numba import uint64

from mergesvm.data.text_parser.fields import find_ends
from mergesvm.data.text_parser.numbers import RETURN, number
from mergesvm.data.text_parser.runs import HARD_BYTES, STAGE_LINES, parse_run
from mergesvm.data.text_parser.simd import SEARCH_BYTES
from mergesvm.data.text_parser.words import WORD_BYTES, byte, put, word
from mergesvm.jit import compiled

SKIPPED, NUMBER, WORD = range(3)

FINE, UNUSUAL, FULL = range(3)

FIELDS_AHEAD = 4096
"""Minimum number of fields whose ends are found at a time."""

_QUOTE = 34


@compiled
def parse(text, at, delimiter, runs, numbers, words, rows, hard):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse whole lines from an offset on into columns; stop at the first line that is not plain.

    ``runs`` are the fields of a line, in order, as (kind, first, stop): numbers for these rows of ``numbers``, a word
    whose start and end go to a row of ``words``, or a skipped field. The first line is stored in column ``rows``. An
    empty number becomes NaN. ``hard`` receives the addresses (destination, start, end) of numbers that are not short,
    for :func:`parse_hard`. Returns the column and the offset of the next line, the bytes stored in ``hard``, and
    whether all lines are parsed, the next is not plain, or ``hard`` has no room for it.
    """
    fields, one = uint64(0), uint64(1)
    for run in range(len(runs)):
        fields += uint64(runs[run, 2] - runs[run, 1])
    room = max(uint64(FIELDS_AHEAD), uint64(4) * fields)
    # One array, which its named rows keep alive: numba frees an array of which only the address is used.
    memory = np.empty((2 + STAGE_LINES, room + uint64(SEARCH_BYTES)), dtype=np.uint64)
    ends, breaks, apart = memory[0], memory[1], uint64(memory.strides[0])
    begin = uint64(text.ctypes.data)
    at, end = begin + uint64(at), begin + uint64(text.size)
    # Addresses from here on, because numba would count references to arrays for each line.
    place = uint64(memory.ctypes.data)
    layout = uint64(runs.ctypes.data), uint64(len(runs))
    steps = place + uint64(2) * apart, apart, uint64(numbers.strides[0]), uint64(words.strides[0])
    first_hard = next_hard = uint64(hard.ctypes.data)
    last_hard = first_hard + HARD_BYTES * uint64(len(hard) - len(numbers))
    while at < end:
        lines = find_ends(at, end, uint64(delimiter), place, room, place + apart)
        if lines == 0:  # more fields than there is room for, or no line break at the end
            return rows, at - begin, next_hard - first_hard, UNUSUAL
        used = uint64(0)
        for line in range(lines):
            last = breaks[line]
            following = ends[last] + one
            if ends[last] > at and byte(ends[last] - one) == RETURN:
                ends[last] -= one
            if last != used or ends[last] != at:  # the line is not empty
                if next_hard > last_hard:
                    return rows, at - begin, next_hard - first_hard, FULL
                here = uint64(numbers.ctypes.data + 8 * rows), uint64(words.ctypes.data + 16 * rows)
                stored = uint64(0)
                if last + one - used == fields:
                    stored = _line(at, begin, place + WORD_BYTES * used, layout, steps, here, next_hard)
                if stored == uint64(0):
                    return rows, at - begin, next_hard - first_hard, UNUSUAL
                next_hard = stored
                rows += 1
            at, used = following, last + one
    return rows, at - begin, next_hard - first_hard, FINE


@compiled
def _line(at, begin, ends, layout, steps, here, hard):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse the fields of the line that starts at an address; returns the address after its last hard word.

    Returns zero if the line is not plain. All arguments are addresses and sizes in bytes: ``begin`` the start of the
    text, ``ends`` the array of field ends, ``layout`` the runs and their number, ``steps`` the stage and the strides of
    stage, numbers and words, ``here`` the current row in the first column of numbers and of words, and ``hard`` the
    place of the next hard word.
    """
    stage, apart, step, leap = steps
    runs, count = layout
    for _ in range(count):
        kind, first, stop = word(runs), word(runs + WORD_BYTES), word(runs + uint64(2) * WORD_BYTES)
        runs += uint64(3) * WORD_BYTES
        if kind == NUMBER:
            hard = parse_run(at, begin, ends, stop - first, stage, apart, here[0] + first * step, step, hard)
        else:
            if not _plain(at, word(ends)):
                return uint64(0)
            if kind == WORD:
                put(here[1] + first * leap, at - begin)
                put(here[1] + first * leap + WORD_BYTES, word(ends) - begin)
        ends += WORD_BYTES * (stop - first)
        at = word(ends - WORD_BYTES) + uint64(1)
    return hard


@compiled
def _plain(at, stop):  # type: ignore[no-untyped-def] # pragma: no cover
    """Return whether a word has neither a quotation mark nor a carriage return."""
    while at < stop:
        if byte(at) == _QUOTE or byte(at) == RETURN:
            return False
        at += uint64(1)
    return True


@compiled
def parse_hard(text, hard):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse the words that :func:`parse` left; returns the number of words before the first that is not a number."""
    begin = uint64(text.ctypes.data)
    stop = begin + uint64(text.size)
    for index in range(len(hard)):
        value, end, certain = number(hard[index, 1], begin, stop)
        if not certain or end != hard[index, 2]:
            return index
        put(hard[index, 0], value)
    return len(hard)


@compiled
def copy_words(text, spans, offsets, out):  # type: ignore[no-untyped-def] # pragma: no cover
    """Copy words to adjacent memory, with the offset of each."""
    at = 0
    for row in range(len(spans)):
        offsets[row] = at
        for place in range(spans[row, 0], spans[row, 1]):
            out[at] = text[place]
            at += 1
    offsets[len(spans)] = at
    return at
