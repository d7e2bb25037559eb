"""The base class of readers of text, which is split at line breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.splittable import SplittableReader
from mergesvm.data.text_parser.lines import LineRange

INSPECTED_BYTES = 2**22
"""This much of the beginning of a file decides whether it can be split."""


class TextReader(SplittableReader):
    """Reads a file of lines, plain or compressed."""

    unit = "byte"
    counted = False

    def split(self, size: int) -> list[Reader]:
        """Split into byte ranges of whole lines, unless the file is compressed or has very long lines."""
        if self.file.compression is not None:
            return [self]
        span = self.span
        if span is None:
            with self.reading(), self.file.open() as raw:
                start = raw.read(INSPECTED_BYTES)
            body = self.body(start) if b"\n" in start else None
            if body is None:
                return [self]
            span = range(body, self.file.size)
        return self.split_span(span, size)

    def body(self, start: bytes) -> int | None:  # noqa: ARG002
        """Return where the rows begin, given the start of the file; None if a line break may be within a row."""
        return 0

    def check_text(self, text: bytes) -> None:
        """Raise an error if text of a part shows that the file should not have been split."""

    @contextmanager
    def text(self, *, whole: bool = False) -> Iterator[tuple[Any, Callable[[], float]]]:
        """Open the text of the part, or of the whole file; returns it with a function for the fraction read."""
        stream, raw = self.file.stream()
        with closing(raw), closing(stream):
            if self.span is None or whole:
                yield stream, lambda: min(1.0, raw.tell() / max(1, self.file.size))
            else:
                lines = LineRange(raw, self.span, self.check_text)
                yield lines, lambda: lines.fraction
