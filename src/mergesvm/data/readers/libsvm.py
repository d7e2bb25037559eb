"""libsvm text: sparse rows with their labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data.labels import Label
from mergesvm.data.paths import File
from mergesvm.data.readers.base import Layout, ReadOptions, Slice
from mergesvm.data.readers.text import TextReader
from mergesvm.data.rows.base import spans
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.data.text_parser.lines import count_byte, whole_lines
from mergesvm.errors import ParameterError

WRONG = {
    "NO_VALUE": "there is no number behind the colon",
    "NO_INDEX": "a feature has to be index:value",
    "ORDER": "indices have to ascend",
    "TOO_LARGE": "the index is too large",
    "ZERO": "the index is 0, but indices begin with 1. Choose zero_based=True if they begin with 0 here",
}


class LibsvmReader(TextReader):
    """libsvm or svmlight text, plain or compressed: ``label index:value index:value # comment``."""

    suffixes = (".libsvm", ".svm", ".svmlight")
    compressions = (".gz", ".zst", ".bz2")

    def __init__(self, file: File, terms: ReadOptions) -> None:
        super().__init__(file, terms)
        self.refuse_columns("libsvm text")
        if terms.label is not None:
            raise ParameterError(f"{file.name}: libsvm text has its labels in itself; leave label={terms.label!r} out.")

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:  # noqa: ARG002
        """The width given, or else the largest index, for which the file is read once."""
        if self.terms.width is not None:
            return Layout(self.terms.width)
        from mergesvm.data.text_parser.libsvm import largest_index

        largest = 0
        with self.reading():
            for text, _ in self._lines(whole=True):
                largest = max(largest, int(largest_index(text)))
        width = largest + self.terms.zero_based
        if not 0 < width < 2**31:
            raise self.malformed(f"{width:,} is no number of features")
        return Layout(width)

    def row_bytes(self, layout: Layout) -> int:
        """Rows are sparse: few bytes each, whatever the width."""
        return min(8 * layout.width, 1024)

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """The rows of the file as CSR."""
        return self.named(self._slices(layout, rows))

    def _slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        first = 0
        with self.reading():
            for text, share in self._lines():
                matrix, labels = self._parse(text, first, layout.width)
                for start, stop in spans(len(labels), rows):
                    block = SparseRows.of(matrix[start:stop])
                    block.source, block.first = self.file.name, first + start
                    yield Slice(block, labels[start:stop], None, stop - start, share)
                first += len(labels)

    def _lines(self, *, whole: bool = False) -> Iterator[tuple[NDArray[np.uint8], float]]:
        """The text in stretches of whole lines, each with the share read so far."""
        with self.text(whole=whole) as (stream, share):
            for text in whole_lines(stream):
                yield text, share()

    def _parse(self, text: NDArray[np.uint8], first: int, width: int) -> tuple[Any, NDArray[Any]]:
        from mergesvm.data.text_parser import libsvm as text_libsvm

        lines, colons = count_byte(text, 10), count_byte(text, 58)
        labels, starts = np.empty(lines), np.zeros(lines + 1, dtype=np.int32)
        columns, values = np.empty(colons, dtype=np.int32), np.empty(colons)
        hard = np.empty((lines + colons, 3), dtype=np.int64)
        base = 0 if self.terms.zero_based else 1
        rows, stored, left, wrong, at = text_libsvm.parse(text, base, labels, starts, columns, values, hard)

        def row_of(slot: int) -> int:
            return first + (-1 - slot if slot < 0 else int(np.searchsorted(starts[1 : rows + 1], slot, "right")))

        if wrong != text_libsvm.FINE:
            what = next(what for name, what in WRONG.items() if getattr(text_libsvm, name) == wrong)
            raise self.malformed(f"{what}: {_excerpt(text, at)}", first + rows)
        for slot, start, stop in hard[:left].tolist():
            value = _float(text[start:stop].tobytes())
            if value is None:
                raise self.malformed(f"{_excerpt(text, start)} is not a number", row_of(slot))
            (labels if slot < 0 else values)[-1 - slot if slot < 0 else slot] = value
        if stored and columns[:stored].max() >= width:
            slot = int(np.argmax(columns[:stored] >= width))
            what = f"index {columns[slot] + base} is beyond the width of {width:,} features"
            raise self.malformed(what, row_of(slot))
        matrix = sparse.csr_array((values[:stored], columns[:stored], starts[: rows + 1]), shape=(rows, width))
        matrix.has_canonical_format = True
        answers = labels[:rows]
        if (answers == np.rint(answers)).all() and (np.abs(answers) < 2**53).all():
            return matrix, answers.astype(np.int64)
        return matrix, answers


def _float(word: bytes) -> float | None:
    try:
        return None if b"_" in word else float(word)
    except ValueError:
        return None


def _excerpt(text: NDArray[np.uint8], at: int) -> str:
    word = text[at : at + 40].tobytes().split(b"\n")[0].split(b" ")[0]
    return repr(word.decode("utf-8", "replace"))
