"""What readers have in common that can read any run of row groups, record batches, rows or bytes of their file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import ClassVar, Self

from mergesvm.data.reader import Reader, Slice
from mergesvm.engines.engine import naming

FEW = 16
"""With fewer units a part than this, one more or less makes a difference."""


class PartedReader(Reader):
    """One file, or a run of it.

    Attributes
    ----------
    unit : str
        What the file consists of.
    counted : bool
        Whether it is known how many rows lie before a part. If not, rows are counted from the beginning of the part
        on, and messages name it.
    span : range or None
        The units that are read; None for all.
    """

    unit: ClassVar[str]
    counted: ClassVar[bool] = True
    span: range | None = None

    def run(self, span: range, size: int, first_row: int = 0) -> Self:
        """A reader of some units only."""
        many = self.unit + ("es" if self.unit.endswith("ch") else "s")
        words = f"{many} {span[0]:,} to {span[-1]:,}" if len(span) > 1 else f"{self.unit} {span[0]:,}"
        part = self.part(size, first_row, words)
        part.span = span
        return part

    def evenly(self, span: range, size: int) -> list[Reader]:
        """Parts of about so many bytes, where all units are about as large; this reader if that makes a single one."""
        count = min(len(span), round(self.size / max(1, size)))
        if count < 2:
            return [self]
        # Few units make coarse parts: rather smaller ones than that.
        step = len(span) // count if len(span) < FEW * count else -(-len(span) // count)
        runs = [span[start : start + step] for start in range(0, len(span), step)]
        return [self.run(run, self.size * len(run) // len(span)) for run in runs]

    def joined(self, following: Reader) -> Self | None:
        """One part with the one that follows it; None if that does not follow.

        >>> from mergesvm.data.paths import find_files
        >>> from mergesvm.data.reader import Terms
        >>> from mergesvm.data.read_npy import NpyReader
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(pathlib.Path(folder, "day.npy"), np.ones((9, 2)))
        ...     one, two, three = NpyReader(find_files(folder)[0], Terms()).cut(90)
        >>> one.joined(two).extent
        'rows 0 to 5'
        >>> one.joined(three) is None
        True
        """
        if not isinstance(following, type(self)) or self.span is None or following.span is None:
            return None
        if (self.file, self.terms, self.span.stop) != (following.file, following.terms, following.span.start):
            return None
        return self.run(range(self.span.start, following.span.stop), self.size + following.size, self.first_row)

    def named(self, slices: Iterator[Slice]) -> Iterator[Slice]:
        """The same slices; messages name the part, if rows are counted from its beginning on."""
        name = self.name if self.extent and not self.counted else None
        with naming(name), closing(slices):  # type: ignore[type-var]
            for part in slices:
                if name is not None:
                    part.rows.source = name
                yield part
