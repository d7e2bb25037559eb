"""Where the fields of text with separators end, compiled. Importing this module loads numba."""

from __future__ import annotations

from numba import njit, uint64

from mergesvm.data.text_parser.lines import NEWLINE
from mergesvm.data.text_parser.simd import STRETCH, WORD_BYTES, byte, ones, put, separators, zeros_behind

_USUAL = 8
"""So many ends of fields in a stretch are written down without a look at how many there are."""


@njit(nogil=True, error_model="numpy", cache=True)
def find_ends(at, stop, delimiter, ends, room, breaks):  # type: ignore[no-untyped-def] # pragma: no cover
    """Find the addresses at which fields end from ``at`` on, and which of them end lines.

    They are written to the address ``ends``, where there is room for ``room`` of them and ``STRETCH`` more, and the
    places there of those that end lines to the address ``breaks``. Returns how many lines were found whole.
    """
    known, lines = uint64(0), uint64(0)
    while at < stop and known <= room:
        found, newline = separators(at, delimiter) if stop - at >= uint64(STRETCH) else _last(at, stop, delimiter)
        count = ones(found)
        while newline:
            until = newline ^ (newline - uint64(1))
            put(breaks + WORD_BYTES * lines, known + ones(found & until) - uint64(1))
            lines += uint64(1)
            newline &= newline - uint64(1)
        # As many as there usually are at once, be there fewer or not: how many there are cannot be guessed.
        for index in range(uint64(_USUAL)):
            put(ends + WORD_BYTES * (known + index), at + zeros_behind(found))
            found &= found - uint64(1)
        for index in range(uint64(_USUAL), count):
            put(ends + WORD_BYTES * (known + index), at + zeros_behind(found))
            found &= found - uint64(1)
        known += count
        at += uint64(STRETCH)
    return lines


@njit(nogil=True, error_model="numpy", cache=True)
def _last(at, stop, delimiter):  # type: ignore[no-untyped-def] # pragma: no cover
    """The same as :func:`separators` where fewer bytes are left."""
    found = newline = uint64(0)
    for place in range(stop - at):
        here = byte(at + place)
        newline |= uint64(here == NEWLINE) << place
        found |= uint64(here == delimiter) << place
    return found | newline, newline
