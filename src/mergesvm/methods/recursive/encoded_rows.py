"""Rows as recursive least squares takes them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class EncodedRows(NamedTuple):
    """Rows of features, (rows, width), the codes of their classes, (rows,), and their weights, (rows,)."""

    rows: NDArray[np.float64]
    codes: NDArray[np.int64]
    weights: NDArray[np.float64]

    def slice(self, start: int, stop: int) -> EncodedRows:
        """Rows ``start`` to ``stop``."""
        return EncodedRows(self.rows[start:stop], self.codes[start:stop], self.weights[start:stop])
