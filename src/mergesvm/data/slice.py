"""Slices: consecutive rows of one file, with labels and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import CategoricalLabels
from mergesvm.data.rows.base import Rows
from mergesvm.errors import DataError


@dataclass(frozen=True)
class Slice:
    """Consecutive rows of one file, learned from or predicted at one time.

    Attributes
    ----------
    rows : Rows
    labels : array or CategoricalLabels, or None
        Labels of the rows, as read; None if no labels are read.
    weights : array or None
    total : int
        Number of rows read, including dropped ones.
    fraction : float
        How much of the file has been read, from 0 to 1.
    kept : array of bool or None
        Which of the rows read were not dropped; None for all.
    table : Arrow record batch or None
        Columns to carry along with predictions, for all rows read.
    typed : bool
        Whether the values of that table have types; if not, they are text, as written in the file.
    """

    rows: Rows
    labels: Any
    weights: NDArray[np.float64] | None
    total: int
    fraction: float
    kept: NDArray[np.bool_] | None = None
    table: Any = None
    typed: bool = True

    def label_array(self) -> NDArray[Any]:
        """Return the label of each row."""
        return self.labels.to_array() if isinstance(self.labels, CategoricalLabels) else np.asarray(self.labels)

    def batch(self) -> Batch:
        """Return the rows with encoded labels; errors name the file."""
        if self.labels is None:
            raise DataError(f"{self.rows.source} has no labels. Set label= to the column or file that holds them.")
        with self.rows.naming_errors():
            return Batch.of(self.rows, self.labels, self.weights)
