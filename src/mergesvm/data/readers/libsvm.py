"""Read libsvm text: sparse rows with labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.data.paths import File
from mergesvm.data.read_options import ReadOptions
from mergesvm.data.readers.text import TextReader
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.data.slice import Slice
from mergesvm.data.text_parser.lines import count_byte, whole_lines
from mergesvm.errors import ParameterError

ERRORS = {
    "NO_VALUE": "there is no number after the colon",
    "NO_INDEX": "a feature must be index:value",
    "ORDER": "indices must be ascending",
    "TOO_LARGE": "the index is too large",
    "ZERO": "the index is 0, but indices start at 1. Set zero_based=True if they start at 0 in this file",
}


class LibsvmReader(TextReader):
    """Reads libsvm or svmlight text, plain or compressed: ``label index:value index:value # comment``."""

    suffixes = (".libsvm", ".svm", ".svmlight")
    compressions = (".gz", ".zst", ".bz2")

    def __init__(self, file: File, options: ReadOptions) -> None:
        super().__init__(file, options)
        self.refuse_columns("libsvm text")
        if options.label is not None:
            raise ParameterError(f"{file.name}: libsvm text contains its labels. Omit label={options.label!r}.")

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:  # noqa: ARG002
        """Return the given number of features, or the largest index, found in an extra pass."""
        if self.options.width is not None:
            return Layout(self.options.width)
        from mergesvm.data.text_parser.libsvm import largest_index

        largest = 0
        with self.reading():
            for text, _ in self._lines(whole=True):
                largest = max(largest, int(largest_index(text)))
        width = largest + self.options.zero_based
        if not 0 < width < 2**31:
            raise self.malformed(f"{width:,} is not a possible number of features")
        return Layout(width)

    def row_bytes(self, layout: Layout) -> int:
        """Return the approximate size of a sparse row."""
        return min(8 * layout.width, 1024)

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """Yield the rows of the file as CSR."""
        return self.named(self._slices(layout, rows))

    def _slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        first = 0
        with self.reading():
            for text, fraction in self._lines():
                matrix, labels = self._parse(text, first, layout.width)
                for start, stop in spans(len(labels), rows):
                    block = SparseRows.of(matrix[start:stop])
                    block.source, block.first = self.file.name, first + start
                    yield Slice(block, labels[start:stop], None, stop - start, fraction)
                first += len(labels)

    def _lines(self, *, whole: bool = False) -> Iterator[tuple[NDArray[np.uint8], float]]:
        """Yield chunks of whole lines, each with the fraction read so far."""
        with self.text(whole=whole) as (stream, fraction):
            for text in whole_lines(stream):
                yield text, fraction()

    def _parse(self, text: NDArray[np.uint8], first: int, width: int) -> tuple[Any, NDArray[Any]]:
        from mergesvm.data.text_parser import libsvm as parser

        lines, colons = count_byte(text, 10), count_byte(text, 58)
        labels, starts = np.empty(lines), np.zeros(lines + 1, dtype=np.int32)
        columns, values = np.empty(colons, dtype=np.int32), np.empty(colons)
        hard = np.empty((lines + colons, 3), dtype=np.int64)
        base = 0 if self.options.zero_based else 1
        rows, stored, left, state, at = parser.parse(text, base, labels, starts, columns, values, hard)

        def row_of(slot: int) -> int:
            return first + (-1 - slot if slot < 0 else int(np.searchsorted(starts[1 : rows + 1], slot, "right")))

        if state != parser.FINE:
            what = next(what for name, what in ERRORS.items() if getattr(parser, name) == state)
            raise self.malformed(f"{what}: {_excerpt(text, at)}", first + rows)
        for slot, start, stop in hard[:left].tolist():
            value = _float(text[start:stop].tobytes())
            if value is None:
                raise self.malformed(f"{_excerpt(text, start)} is not a number", row_of(slot))
            (labels if slot < 0 else values)[-1 - slot if slot < 0 else slot] = value
        if stored and columns[:stored].max() >= width:
            slot = int(np.argmax(columns[:stored] >= width))
            what = f"index {columns[slot] + base} exceeds the number of features, {width:,}"
            raise self.malformed(what, row_of(slot))
        matrix = sparse.csr_array((values[:stored], columns[:stored], starts[: rows + 1]), shape=(rows, width))
        matrix.has_canonical_format = True
        labels = labels[:rows]
        large = np.isfinite(labels) & (np.abs(labels) >= 2**53)
        if large.any():
            row = int(np.argmax(large))
            raise self.malformed(f"the label {labels[row]:.17g} is not below 2^53 in absolute value", first + row)
        # Other labels are refused later: their errors are those of all formats.
        return matrix, labels.astype(np.int64) if (labels == np.rint(labels)).all() else labels


def _float(word: bytes) -> float | None:
    try:
        return None if b"_" in word else float(word)
    except ValueError:
        return None


def _excerpt(text: NDArray[np.uint8], at: int) -> str:
    word = text[at : at + 40].tobytes().split(b"\n")[0].split(b" ")[0]
    return repr(word.decode("utf-8", "replace"))
