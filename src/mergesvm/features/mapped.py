"""Rows that are mapped block by block as they are read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.rows.base import BLOCK_BYTES, Rows, spans
from mergesvm.features.base import FeatureMap


class MappedRows(Rows):
    """Rows of features: each block is mapped when it is read.

    >>> from mergesvm.data.rows.convert import as_rows
    >>> from mergesvm.features.maps.fourier import Fourier
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]
    >>> MappedRows(as_rows(X), Fourier(5).freeze(X)).block(1, 3).shape
    (2, 5)
    """

    def __init__(self, rows: Rows, features: FeatureMap) -> None:
        self.rows, self.features = rows, features
        self.n_rows, self.width = rows.n_rows, features.width
        self.source, self.first = rows.source, rows.first

    def block(self, start: int, stop: int) -> NDArray[np.floating]:
        """Return the features of some rows."""
        out = np.empty((stop - start, self.width), dtype=self.features.dtype)
        self.features.map_block(self.rows.block(start, stop), out)
        return out

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield spans of rows that are small both before and after mapping."""
        return spans(self.n_rows, max(256, BLOCK_BYTES // (8 * max(self.width, self.rows.width))))

    def nonfinite(self, start: int, stop: int) -> tuple[int, int, float] | None:
        """Return row, column and value of the first NaN or infinity among the unmapped rows."""
        return self.rows.nonfinite(start, stop)

    def column(self, index: int) -> str:
        """Return the name of an unmapped column, for messages."""
        return self.rows.column(index)
