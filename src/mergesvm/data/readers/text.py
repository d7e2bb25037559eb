"""What readers of text have in common: lines, and the parts of a file that begin and end with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.splittable import SplittableReader
from mergesvm.data.text_parser.lines import LineRange

LOOK_BYTES = 2**22
"""So much of the beginning of a file decides whether it can be cut."""


class TextReader(SplittableReader):
    """A file of lines, plain or compressed."""

    unit = "byte"
    counted = False

    def cut(self, size: int) -> list[Reader]:
        """Ranges of bytes, each with the lines that begin in it; not of compressed text, nor of very long lines."""
        if self.file.packing is not None:
            return [self]
        span = self.span
        if span is None:
            with self.reading(), self.file.open() as raw:
                start = raw.read(LOOK_BYTES)
            body = self.body(start) if b"\n" in start else None
            if body is None:
                return [self]
            span = range(body, self.file.size)
        return self.evenly(span, size)

    def body(self, start: bytes) -> int | None:  # noqa: ARG002
        """Where the rows begin in a file that begins like this; None if line breaks need not be ends of rows."""
        return 0

    def check_text(self, text: bytes) -> None:
        """Raise an error if what is read of a part shows that the file should not have been cut."""

    @contextmanager
    def text(self, *, whole: bool = False) -> Iterator[tuple[Any, Callable[[], float]]]:
        """The text to be read, and how much of it has been: that of the part, or of the whole file all the same."""
        stream, raw = self.file.stream()
        with closing(raw), closing(stream):
            if self.span is None or whole:
                yield stream, lambda: min(1.0, raw.tell() / max(1, self.file.size))
            else:
                lines = LineRange(raw, self.span, self.check_text)
                yield lines, lambda: lines.share
