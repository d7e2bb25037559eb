"""The base class of readers that can read any range of row groups, record batches, rows or bytes of a file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate, pairwise
from typing import ClassVar, Self

from mergesvm.data.readers.base import Reader
from mergesvm.data.slice import Slice
from mergesvm.engines.work import naming


class SplittableReader(Reader):
    """Reads one file, or a range of it.

    Attributes
    ----------
    unit : str
        The unit by which the file is split.
    counted : bool
        Whether the number of rows before a part is known. If not, row numbers are relative to the part, and messages
        name the part.
    span : range or None
        The units to read; None for all.
    """

    unit: ClassVar[str]
    counted: ClassVar[bool] = True
    span: range | None = None

    def with_span(self, span: range, size: int, first_row: int = 0) -> Self:
        """Return a reader of a range of units."""
        many = self.unit + ("es" if self.unit.endswith("ch") else "s")
        words = f"{many} {span[0]:,} to {span[-1]:,}" if len(span) > 1 else f"{self.unit} {span[0]:,}"
        part = self.part(size, first_row, words)
        part.span = span
        return part

    def split_span(self, span: range, size: int, rows: Sequence[int] | None = None) -> list[Reader]:
        """Return readers of parts of about ``size`` bytes, as equal as units allow; this reader if there is only one.

        ``rows`` is the number of rows of each unit, if known; otherwise units are assumed to be of equal size.
        """
        ends = range(len(span) + 1) if rows is None else [0, *accumulate(rows)]
        total, count = max(1, ends[-1]), min(len(span), round(self.size / max(1, size)))
        parts = count + 1 if count > 1 and ends[-1] else 0
        cuts = sorted({_nearest(ends, total * part / count) for part in range(parts)})
        if len(cuts) < 3:
            return [self]
        return [
            self.with_span(
                span[begin:end],
                self.size * ends[end] // total - self.size * ends[begin] // total,
                0 if rows is None else self.first_row + ends[begin],
            )
            for begin, end in pairwise(cuts)
        ]

    def joined(self, following: Reader) -> Self | None:
        """Return one reader for this part and the following one; None if they are not adjacent.

        >>> from mergesvm.data.paths import find_files
        >>> from mergesvm.data.read_options import ReadOptions
        >>> from mergesvm.data.readers.npy import NpyReader
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(pathlib.Path(folder, "day.npy"), np.ones((9, 2)))
        ...     one, two, three = NpyReader(find_files(folder)[0], ReadOptions()).split(90)
        >>> one.joined(two).extent
        'rows 0 to 5'
        >>> one.joined(three) is None
        True
        """
        if not isinstance(following, type(self)) or self.span is None or following.span is None:
            return None
        if (self.file, self.options, self.span.stop) != (following.file, following.options, following.span.start):
            return None
        return self.with_span(range(self.span.start, following.span.stop), self.size + following.size, self.first_row)

    def named(self, slices: Iterator[Slice]) -> Iterator[Slice]:
        """Yield the same slices; messages name the part if row numbers are relative to it."""
        name = self.name if self.extent and not self.counted else None
        with naming(name), closing(slices):  # type: ignore[type-var]
            for part in slices:
                if name is not None:
                    part.rows.source = name
                yield part


def _nearest(ends: Sequence[int], wanted: float) -> int:
    """Return the index of the nearest number.

    >>> [_nearest([0, 10, 20, 100], wanted) for wanted in (0, 4, 6, 21, 90, 100)]
    [0, 0, 1, 2, 3, 3]
    """
    above = bisect_left(ends, wanted)
    return above - 1 if above > 0 and wanted - ends[above - 1] < ends[above] - wanted else above
