"""What every source of rows looks like from inside: a width, perhaps names, and blocks read one after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from mergesvm.errors import DataError

BLOCK_BYTES = 32 * 2**20
"""How large a block of converted rows may become: a few of these are all the memory that reading takes."""


class Rows(ABC):
    """Rows of equal width that can be read in blocks, without a copy of the whole.

    Attributes
    ----------
    n_rows, width : int
        The shape.
    names : tuple of str or None
        The names of the columns, where the source has them.
    """

    n_rows: int
    width: int
    names: tuple[str, ...] | None = None
    source: str = "Input X"
    """How messages name where the rows come from."""
    first: int = 0
    """The number of the first row there."""

    @abstractmethod
    def block(self, start: int, stop: int) -> Any:
        """Rows ``start`` to ``stop``: a C-contiguous numeric array, or a CSR array where the source is sparse."""

    @abstractmethod
    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Row, column and value of the first NaN or infinity in the rows ``start`` to ``stop``."""

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Spans of rows that hold at most :data:`BLOCK_BYTES` each, or 256 rows, once they are float64."""
        return spans(self.n_rows, max(256, BLOCK_BYTES // (8 * self.width)))

    def part(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop`` as rows by themselves; messages go on to name rows by their place in the whole."""
        return _Part(self, start, stop)

    def alone(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop`` in memory of their own."""
        from mergesvm.data.rows.dense import DenseRows
        from mergesvm.data.rows.sparse import SparseRows

        block = self.block(start, stop)
        rows = DenseRows(block) if isinstance(block, np.ndarray) else SparseRows(block)
        rows.names, rows.source, rows.first = self.names, self.source, self.first + start
        return rows

    def column(self, index: int) -> str:
        """How a message names a column."""
        return f"column {index}" if self.names is None else f"column {self.names[index]!r}"

    def check_finite(self, needed: str = "before learning") -> None:
        """Raise an error that names the first NaN or infinity, row by row."""
        for start, stop in self.blocks():
            found = self.nonfinite(start, stop)
            if found is not None:
                row, column, value = found
                what, cure = ("NaN", "missing") if np.isnan(value) else ("infinity", "infinite")
                raise DataError(
                    f"{self.source} contains {what}: row {self.first + row}, {self.column(column)}. "
                    f"Remove or impute {cure} values {needed}."
                )


class _Part(Rows):
    def __init__(self, rows: Rows, start: int, stop: int) -> None:
        self.rows, self.start = rows, start
        self.n_rows, self.width, self.names = stop - start, rows.width, rows.names
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
