"""What readers have in common that can read any run of row groups, record batches, rows or bytes of their file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate, pairwise
from typing import ClassVar, Self

from mergesvm.data.readers.base import Reader, Slice
from mergesvm.engines.base import naming


class SplittableReader(Reader):
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

    def evenly(self, span: range, size: int, rows: Sequence[int] | None = None) -> list[Reader]:
        """Parts of about so many bytes, as equal as units allow; this reader if that makes a single one.

        ``rows`` are those of each unit, where it is known how many there are; else all units are taken to be alike.
        """
        ends = range(len(span) + 1) if rows is None else [0, *accumulate(rows)]
        total, count = max(1, ends[-1]), min(len(span), round(self.size / max(1, size)))
        parts = count + 1 if count > 1 and ends[-1] else 0
        cuts = sorted({_nearest(ends, total * part / count) for part in range(parts)})
        if len(cuts) < 3:
            return [self]
        return [
            self.run(
                span[begin:end],
                self.size * ends[end] // total - self.size * ends[begin] // total,
                0 if rows is None else self.first_row + ends[begin],
            )
            for begin, end in pairwise(cuts)
        ]

    def joined(self, following: Reader) -> Self | None:
        """One part with the one that follows it; None if that does not follow.

        >>> from mergesvm.data.paths import find_files
        >>> from mergesvm.data.readers.base import ReadOptions
        >>> from mergesvm.data.readers.npy import NpyReader
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(pathlib.Path(folder, "day.npy"), np.ones((9, 2)))
        ...     one, two, three = NpyReader(find_files(folder)[0], ReadOptions()).cut(90)
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


def _nearest(ends: Sequence[int], wanted: float) -> int:
    """The place of the number that is nearest to the wanted one.

    >>> [_nearest([0, 10, 20, 100], wanted) for wanted in (0, 4, 6, 21, 90, 100)]
    [0, 0, 1, 2, 3, 3]
    """
    above = bisect_left(ends, wanted)
    return above - 1 if above > 0 and wanted - ends[above - 1] < ends[above] - wanted else above
