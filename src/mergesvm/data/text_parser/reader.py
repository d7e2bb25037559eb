"""Read plain CSV with the compiled parser, several times faster than a general reader."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mergesvm.data.prefetch import map_ahead
from mergesvm.data.text_parser.buffers import BufferPool
from mergesvm.data.text_parser.dictionary import LABEL_TYPE, encode_words, number_column
from mergesvm.data.text_parser.lines import NEWLINE, count_byte, whole_lines

WORKERS = 2
"""Number of chunks of text parsed at the same time, besides learning."""

MAX_HARD_WORDS = 2**13
"""Number of numbers that are listed, because they are not short, before they are parsed; at least those of a line."""

MAX_PYTHON_WORDS = 2**9
"""Up to this many of them are parsed by Python."""

_NUMBER = re.compile(rb"(?=.{1,20}$)[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?")
"""Numbers that no parser rounds differently: not too long, and neither too large nor too small."""


class NotPlainError(Exception):
    """The text is not plain, from here on."""


def plain_batches(
    stream: Any, delimiter: str, header: bool, names: Sequence[str], types: dict[str, Any]
) -> Iterator[Any]:
    """Yield record batches of the columns in ``types``, as long as the text is plain.

    A plain line has no quotation marks, one field per column, and numbers or nothing in numeric columns. All lines
    before the first that is not plain have been yielded when :class:`NotPlainError` is raised. Labels are encoded as a
    dictionary, or text if there are many different ones.
    """
    from mergesvm.data.text_parser import csv as parser

    layout = _Fields(names, types)
    if not layout.plain or any("\n" in name for name in names):
        raise NotPlainError
    chunks = whole_lines(stream, WORKERS + 1)
    first = next(chunks, np.zeros(0, dtype=np.uint8))
    if header:
        end = int(np.argmax(first == 10)) + 1
        if (first[: max(1, end - 2)] == 13).any() or first[:1].tobytes() == b"\n":  # the end of the header is unclear
            raise NotPlainError
        first = first[end:]
    elif first[: len(BOM_UTF8)].tobytes() == BOM_UTF8:
        raise NotPlainError

    def parse(text: NDArray[np.uint8]) -> tuple[Any, bool]:
        return layout.parse(text, delimiter, parser)

    for batch, complete in map_ahead(parse, chain([first], chunks), WORKERS):
        if batch.num_rows:
            yield batch
        if not complete:
            raise NotPlainError


class _Fields:
    """The fields of a line: which are numbers, which are words, and the columns they belong to."""

    def __init__(self, names: Sequence[str], types: dict[str, Any]) -> None:
        from mergesvm.data.text_parser import csv as parser

        numeric = [name for name in names if name in types and types[name] == pa.float64()]
        words = [name for name in names if name in types and types[name] in (pa.string(), LABEL_TYPE)]
        self.types, self.numeric, self.words = types, numeric, words
        self.plain = len(numeric) + len(words) == len(types) and len(set(names)) == len(names)
        place = {name: index for group in (numeric, words) for index, name in enumerate(group)}
        kinds = dict.fromkeys(numeric, parser.NUMBER) | dict.fromkeys(words, parser.WORD)
        runs: list[tuple[int, int, int]] = []
        for name in names:
            kind = kinds.get(name, parser.SKIPPED)
            at = place.get(name, 0)
            if kind == parser.NUMBER and runs and runs[-1][0] == kind:  # adjacent numbers are one run
                runs[-1] = kind, runs[-1][1], at + 1
            else:
                runs.append((kind, at, at + 1))
        self._runs = np.array(runs)
        self._memory = BufferPool()

    def parse(self, text: NDArray[np.uint8], delimiter: str, parser: Any) -> tuple[Any, bool]:
        """Parse whole lines; returns a record batch, and whether it is complete."""
        lines = count_byte(text, NEWLINE)
        numbers = self._memory.empty((len(self.numeric), lines))
        spans = np.empty((len(self.words), lines, 2), dtype=np.int64)
        hard = np.empty((max(MAX_HARD_WORDS, len(self.numeric)), 3), dtype=np.uint64)
        rows = at = 0
        state = parser.FULL
        while state == parser.FULL:
            rows, at, used, state = parser.parse(text, at, ord(delimiter), self._runs, numbers, spans, rows, hard)
            words = hard[: used // hard.strides[0]]
            parsed = _parse_hard(text, numbers, words, parser)
            if parsed < len(words):  # the row of this word is not plain
                rows = (int(words[parsed, 0]) - numbers.ctypes.data) % numbers.strides[0] // numbers.itemsize
                state = parser.UNUSUAL
        columns = {}
        for name, line in zip(self.numeric, numbers[:, :rows], strict=True):
            columns[name] = number_column(line)
        for name, span in zip(self.words, spans[:, :rows], strict=True):
            encoded = encode_words(text, span) if self.types[name] == LABEL_TYPE else None
            columns[name] = _words(text, span, parser) if encoded is None else encoded
        return pa.record_batch([columns[name] for name in self.types], list(self.types)), state == parser.FINE


def _parse_hard(text: NDArray[np.uint8], numbers: NDArray[np.float64], hard: NDArray[np.uint64], parser: Any) -> int:
    """Store the numbers of hard words; returns the number of words before the first that is not a number.

    Few words are left to Python, so that its compiled parser is compiled only for files with many.
    """
    if len(hard) <= MAX_PYTHON_WORDS:
        addresses = hard.astype(np.int64) - [numbers.ctypes.data, text.ctypes.data, text.ctypes.data]
        words = [text[start:stop].tobytes() for _, start, stop in addresses.tolist()]
        if all(_NUMBER.fullmatch(word) for word in words):
            numbers.ravel()[addresses[:, 0] // numbers.itemsize] = [float(word) for word in words]
            return len(hard)
    return int(parser.parse_hard(text, hard))


def _words(text: NDArray[np.uint8], spans: NDArray[np.int64], parser: Any) -> Any:
    offsets = np.empty(len(spans) + 1, dtype=np.int32)
    letters = np.empty(int((spans[:, 1] - spans[:, 0]).sum()), dtype=np.uint8)
    parser.copy_words(text, spans, offsets, letters)
    words = pa.StringArray.from_buffers(len(spans), pa.py_buffer(offsets), pa.py_buffer(letters))
    words.validate(full=True)
    return words
