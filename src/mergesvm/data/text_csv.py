"""The compiled parser of plain CSV: no quotation marks, numbers that are numbers. Importing this module loads numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from mergesvm.data.text_numbers import NEWLINE, RETURN, number

SKIPPED, NUMBER, WORD = range(3)

FINE, UNUSUAL = range(2)

_QUOTE = 34


@njit(nogil=True, error_model="numpy", cache=True)
def parse(text, delimiter, kinds, places, numbers, words):  # type: ignore[no-untyped-def] # pragma: no cover
    """Parse whole lines into columns; stop at the first that is unusual.

    ``kinds`` tells for each field whether it is skipped, a number or a word, and ``places`` its row in ``numbers``, or
    in ``words`` (first and last byte). An empty number is missing, and becomes NaN. Returns how many lines were
    parsed, and whether all of them were.
    """
    rows = at = 0
    end, fields = text.size, kinds.size
    while at < end:
        if text[at] == NEWLINE or (text[at] == RETURN and at + 1 < end and text[at + 1] == NEWLINE):
            at += 1 if text[at] == NEWLINE else 2
            continue
        for field in range(fields):
            first, kind = at, kinds[field]
            if kind == NUMBER:
                value, at, certain = number(text, at, end)
                if at == first:
                    value = np.nan
                elif not certain:
                    return rows, UNUSUAL
                numbers[places[field], rows] = value
            else:
                while at < end and text[at] != delimiter and text[at] != NEWLINE:
                    if text[at] == _QUOTE:
                        return rows, UNUSUAL
                    at += 1
                if kind == WORD:
                    last = at - 1 if field == fields - 1 and at > first and text[at - 1] == RETURN else at
                    words[places[field], rows, 0], words[places[field], rows, 1] = first, last
            if field < fields - 1:
                if at >= end or text[at] != delimiter:
                    return rows, UNUSUAL
                at += 1
        if at < end and text[at] == RETURN:
            at += 1
        if at >= end or text[at] != NEWLINE:
            return rows, UNUSUAL
        at += 1
        rows += 1
    return rows, FINE


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
