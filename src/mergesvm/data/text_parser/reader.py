"""Plain CSV, by the compiled parser: most large files are, and it is several times faster than a general reader."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from mergesvm.data.prefetch import map_ahead
from mergesvm.data.text_parser.buffers import BufferPool
from mergesvm.data.text_parser.lines import whole_lines

WORKERS = 2
"""So many stretches of text are parsed at the same time; learning goes on beside it."""

NOTHING = pa.array(csv.ConvertOptions().null_values)
"""Words that say that a value is missing."""


class NotPlainError(Exception):
    """The text is not plain, or no longer."""


def plain_batches(
    stream: Any, delimiter: str, header: bool, names: Sequence[str], types: dict[str, Any]
) -> Iterator[Any]:
    """Record batches of the columns in ``types``, as long as the text is plain.

    Plain is a line without quotation marks, with a field for each column, and numbers where they are expected or
    nothing. All lines before the first that is not plain have been yielded when :class:`NotPlainError` is raised.
    """
    from mergesvm.data.text_parser import csv as text_csv

    layout = _Layout(names, types)
    if not layout.plain or any("\n" in name for name in names):
        raise NotPlainError
    stretches = whole_lines(stream, WORKERS + 1)
    first = next(stretches, np.zeros(0, dtype=np.uint8))
    if header:
        end = int(np.argmax(first == 10)) + 1
        if (first[: max(1, end - 2)] == 13).any() or first[:1].tobytes() == b"\n":  # where are the names?
            raise NotPlainError
        first = first[end:]
    elif first[: len(BOM_UTF8)].tobytes() == BOM_UTF8:
        raise NotPlainError

    def parse(text: NDArray[np.uint8]) -> tuple[Any, bool]:
        return layout.parse(text, delimiter, text_csv)

    for batch, whole in map_ahead(parse, chain([first], stretches), WORKERS):
        if batch is not None and batch.num_rows:
            yield batch
        if not whole:
            raise NotPlainError


class _Layout:
    """Which fields of a line are numbers, which are words, and where each goes."""

    def __init__(self, names: Sequence[str], types: dict[str, Any]) -> None:
        from mergesvm.data.text_parser import csv as text_csv

        numeric = [name for name in names if name in types and types[name] in (pa.float64(), pa.int64())]
        words = [name for name in names if name in types and types[name] == pa.string()]
        self.types, self.numeric, self.words = types, numeric, words
        self.plain = len(numeric) + len(words) == len(types) and len(set(names)) == len(names)
        place = {name: index for group in (numeric, words) for index, name in enumerate(group)}
        kinds = dict.fromkeys(numeric, text_csv.NUMBER) | dict.fromkeys(words, text_csv.WORD)
        runs: list[tuple[int, int, int]] = []
        for name in names:
            kind = kinds.get(name, text_csv.SKIPPED)
            at = place.get(name, 0)
            if kind == text_csv.NUMBER and runs and runs[-1][0] == kind:  # places ascend with the columns
                runs[-1] = kind, runs[-1][1], at + 1
            else:
                runs.append((kind, at, at + 1))
        self._runs = np.array(runs)
        self._memory = BufferPool()

    def parse(self, text: NDArray[np.uint8], delimiter: str, kernels: Any) -> tuple[Any, bool]:
        """A record batch of whole lines, and whether it holds all of them; None instead of one that would be wrong."""
        lines = kernels.count_lines(text)
        numbers = self._memory.empty((len(self.numeric), lines))
        spans = np.empty((len(self.words), lines, 2), dtype=np.int64)
        rows, state = kernels.parse(text, ord(delimiter), self._runs, numbers, spans)
        columns = {}
        for name, line in zip(self.numeric, numbers[:, :rows], strict=True):
            columns[name] = _column(line) if self.types[name] == pa.float64() else _whole(line)
        for name, span in zip(self.words, spans[:, :rows], strict=True):
            columns[name] = _words(text, span, kernels)
        if any(column is None for column in columns.values()):
            return None, False
        return pa.record_batch([columns[name] for name in self.types], list(self.types)), state == kernels.FINE


def _column(values: NDArray[Any]) -> Any:
    """Values as a column of Arrow, where they lie; without its converter, which lets go of Python's lock."""
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)], 0)


def _whole(values: NDArray[np.float64]) -> Any:
    """Whole numbers, missing where there are none; None where they are not whole, or too large to be sure."""
    missing = np.isnan(values)
    if not ((values == np.rint(values)) & (np.abs(values) < 2**53) | missing).all():
        return None
    if not missing.any():
        return _column(values.astype(np.int64))
    return pa.array(np.where(missing, 0.0, values).astype(np.int64), mask=missing)


def _words(text: NDArray[np.uint8], spans: NDArray[np.int64], kernels: Any) -> Any:
    offsets = np.empty(len(spans) + 1, dtype=np.int32)
    letters = np.empty(int((spans[:, 1] - spans[:, 0]).sum()), dtype=np.uint8)
    kernels.copy_words(text, spans, offsets, letters)
    words = pa.StringArray.from_buffers(len(spans), pa.py_buffer(offsets), pa.py_buffer(letters))
    words.validate(full=True)
    missing = pc.is_in(words, value_set=NOTHING)
    return pc.if_else(missing, pa.scalar(None, pa.string()), words) if missing.true_count else words
