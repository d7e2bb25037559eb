"""Find the ends of fields in delimited text, compiled. Importing this module loads numba."""

from __future__ import annotations

from numba import uint64

from mergesvm.data.text_parser.lines import NEWLINE
from mergesvm.data.text_parser.simd import SEARCH_BYTES, separators
from mergesvm.data.text_parser.words import WORD_BYTES, byte, count_ones, put, trailing_zeros
from mergesvm.jit import compiled

_UNCONDITIONAL_STORES = 8
"""This many field ends are stored without a branch on how many there are."""


@compiled
def find_ends(at, stop, delimiter, ends, room, breaks):  # type: ignore[no-untyped-def] # pragma: no cover
    """Find the addresses at which fields end, from ``at`` on, and which of them end lines.

    They are stored at the address ``ends``, with room for ``room`` of them and ``SEARCH_BYTES`` more; the indices of
    those that end lines are stored at ``breaks``. Returns the number of complete lines.
    """
    known, lines = uint64(0), uint64(0)
    while at < stop and known <= room:
        found, newline = separators(at, delimiter) if stop - at >= uint64(SEARCH_BYTES) else _last(at, stop, delimiter)
        count = count_ones(found)
        while newline:
            until = newline ^ (newline - uint64(1))
            put(breaks + WORD_BYTES * lines, known + count_ones(found & until) - uint64(1))
            lines += uint64(1)
            newline &= newline - uint64(1)
        # The number varies, and a branch on it would often be mispredicted.
        for index in range(uint64(_UNCONDITIONAL_STORES)):
            put(ends + WORD_BYTES * (known + index), at + trailing_zeros(found))
            found &= found - uint64(1)
        for index in range(uint64(_UNCONDITIONAL_STORES), count):
            put(ends + WORD_BYTES * (known + index), at + trailing_zeros(found))
            found &= found - uint64(1)
        known += count
        at += uint64(SEARCH_BYTES)
    return lines


@compiled
def _last(at, stop, delimiter):  # type: ignore[no-untyped-def] # pragma: no cover
    """Do the same as :func:`separators` for fewer bytes."""
    found = newline = uint64(0)
    for place in range(stop - at):
        here = byte(at + place)
        newline |= uint64(here == NEWLINE) << place
        found |= uint64(here == delimiter) << place
    return found | newline, newline
