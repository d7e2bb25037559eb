"""The base class of rows in memory: a width, optional names, and blocks that are read one after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mergesvm.data.layout import Categories, Layout
from mergesvm.errors import DataError

BLOCK_BYTES = 32 * 2**20
"""Maximum size of a block of converted rows; reading holds only a few blocks in memory."""

MIN_BLOCK_ROWS = 256


class Rows(ABC):
    """Rows of equal width that are read in blocks, without a copy of the whole.

    Attributes
    ----------
    n_rows, width : int
        The shape.
    names : tuple of str or None
        Names of the columns, if the source has them.
    categories : tuple of (column, values)
        The columns of the source that are one-hot encoded.
    """

    n_rows: int
    width: int
    names: tuple[str, ...] | None = None
    categories: Categories = ()
    source: str = "Input X"
    """The name of the source in error messages."""
    first: int = 0
    """The number of the first row within the source."""

    @abstractmethod
    def block(self, start: int, stop: int) -> Any:
        """Return rows ``start`` to ``stop``: a C-contiguous numeric array, or a CSR array if the source is sparse."""

    @abstractmethod
    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Return the row, column and value of the first NaN or infinity in rows ``start`` to ``stop``, or None."""

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield spans of rows of at most :data:`BLOCK_BYTES` as float64, but of at least 256 rows."""
        return spans(self.n_rows, max(MIN_BLOCK_ROWS, BLOCK_BYTES // (8 * self.width)))

    @property
    def layout(self) -> Layout:
        """The features of the rows."""
        return Layout(self.width, self.names, self.categories)

    def part(self, start: int, stop: int) -> Rows:
        """Return a view of rows ``start`` to ``stop``; error messages keep the row numbers of the whole."""
        return _Part(self, start, stop)

    def column(self, index: int) -> str:
        """Return the name of a column in error messages."""
        return f"column {index}" if self.names is None else f"column {self.names[index]!r}"

    def check_finite(self, needed: str = "before learning") -> None:
        """Raise an error that names the first NaN or infinity."""
        for start, stop in self.blocks():
            found = self.nonfinite(start, stop)
            if found is not None:
                row, column, value = found
                what, adjective = ("NaN", "missing") if np.isnan(value) else ("infinity", "infinite")
                raise DataError(
                    f"{self.source} contains {what}: row {self.first + row}, {self.column(column)}. "
                    f"Remove or impute {adjective} values {needed}."
                )

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Add the source and the first row to data errors raised in a ``with`` block."""
        try:
            yield
        except DataError as error:
            if self.source == Rows.source or self.source in str(error):
                raise
            raise DataError(f"{self.source}, rows from {self.first} on: {error}") from None


class _Part(Rows):
    def __init__(self, rows: Rows, start: int, stop: int) -> None:
        self.rows, self.start = rows, start
        self.n_rows, self.width = stop - start, rows.width
        self.names, self.categories = rows.names, rows.categories
        self.source, self.first = rows.source, rows.first

    def block(self, start: int, stop: int) -> Any:
        return self.rows.block(self.start + start, self.start + stop)

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        return self.rows.nonfinite(self.start + start, self.start + stop)


def spans(total: int, step: int) -> Iterator[tuple[int, int]]:
    """Cut ``range(total)`` into consecutive spans of at most ``step``.

    >>> list(spans(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for start in range(0, total, step):
        yield start, min(start + step, total)
