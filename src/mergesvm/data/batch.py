"""Batches: rows with encoded labels and weights, checked against one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import as_labels
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.rows.convert import as_rows, copy_of_rows
from mergesvm.errors import DataError


@dataclass(frozen=True)
class Batch:
    """Rows with labels and optional weights. Rows of weight zero are ignored.

    >>> batch = Batch.of([[1.0], [2.0], [3.0]], ["a", "b", "a"], sample_weight=[1, 0, 2])
    >>> batch.labels.classes, batch.labels.codes.tolist()
    (('a',), [0, -1, 0])
    """

    rows: Rows
    labels: EncodedLabels
    weights: NDArray[np.float64] | None

    @classmethod
    def of(cls, X: Any, y: Any, sample_weight: Any = None, *, empty: bool = False) -> Batch:
        """Check rows, labels and weights, and encode the labels. Zero rows are an error unless ``empty``."""
        rows = as_rows(X, empty=empty)
        weights = None if sample_weight is None else _weights(sample_weight, rows.n_rows)
        array = as_labels(y)
        _check_length("labels", "y", len(array), rows.n_rows)
        return cls(rows, EncodedLabels.encode(array, None if weights is None else weights > 0), weights)

    def slices(self, count: int) -> Iterator[Batch]:
        """Yield at most ``count`` batches of consecutive rows, to be sent to other processes.

        >>> batch = Batch.of([[1.0], [2.0], [3.0]], ["a", "b", "a"])
        >>> [part.labels.classes for part in batch.slices(2)]
        [('a', 'b'), ('a',)]
        """
        for start, stop in spans(self.rows.n_rows, max(1, -(-self.rows.n_rows // count))):
            weights = None if self.weights is None else self.weights[start:stop]
            yield Batch(copy_of_rows(self.rows, start, stop), self.labels.part(start, stop), weights)


def _weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64]:
    try:
        given = np.asarray(sample_weight)
        if given.dtype.kind not in "biufO":
            raise TypeError(f"got values of dtype {given.dtype}")
        if np.ma.is_masked(sample_weight):
            raise TypeError("got masked values")
        weights = given.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"sample_weight must contain one number per row ({error}).") from None
    if weights.ndim == 0:
        weights = np.full(n_rows, weights)
    if weights.ndim != 1:
        raise DataError(f"sample_weight must contain one number per row (1D), got an array of shape {weights.shape}.")
    _check_length("weights", "sample_weight", len(weights), n_rows)
    good = (weights >= 0) & (weights < np.inf)
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"sample_weight must be finite and not negative: row {row} has {weights[row]}. "
            f"To remove rows, subtract their knowledge."
        )
    return weights


def _check_length(what: str, name: str, length: int, n_rows: int) -> None:
    if length != n_rows:
        row = min(length, n_rows)
        raise DataError(
            f"X and {name} are of unequal length: {n_rows} rows, {length} {what}; row {row} is the first without "
            f"{'a counterpart' if length > n_rows else 'one'}."
        )
