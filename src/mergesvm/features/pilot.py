"""The pilot sample: some rows, drawn once, from which a map finds its centre, its scale and its landmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mergesvm.data import Labels, Layout, Rows, Scan, SparseRows, as_rows
from mergesvm.errors import DataError

PILOT_ROWS = 4096

MOST_FILES = 16
"""Of so many files of a scan, evenly spread, the first rows are looked at."""


@dataclass(frozen=True)
class Pilot:
    """A sample of rows.

    Attributes
    ----------
    rows : array of shape (rows, columns)
    codes : array of int or None
        The classes of the rows, as numbers, where labels were given.
    layout : Layout
        The columns.
    sparse : bool
        Whether the rows came sparse, so that their centre has to stay zero.
    generator : Generator
        The source of all that is drawn at random.
    """

    rows: NDArray[np.float64]
    codes: NDArray[np.intp] | None
    layout: Layout
    sparse: bool
    generator: np.random.Generator

    @classmethod
    def of(cls, X: Any, y: Any = None, seed: int = 0, wanted: int = 0) -> Pilot:
        """Draw a sample at random: of rows in memory from all of them, of files from their first slices.

        >>> Pilot.of([[float(i)] for i in range(10)], list("ababababab")).rows.shape
        (10, 1)
        """
        generator, size = np.random.default_rng(seed), max(PILOT_ROWS, wanted)
        parts: Iterator[tuple[Rows, Any]]
        if isinstance(X, Scan):
            layout, parts = X.layout, ((part.rows, part.labels) for part in X.first_slices(MOST_FILES))
            size = -(-size // min(len(X.readers), MOST_FILES))
        else:
            rows = as_rows(X)
            layout, parts = Layout(rows.width, rows.names), iter([(rows, y)])
        drawn = [_draw(rows, labels, size, generator) for rows, labels in parts if rows.n_rows]
        if not drawn:
            raise DataError(f"There are no rows to look at in the first slices of {X!r}.")
        # In no order, so that the first of them are a sample, too.
        order = generator.permutation(sum(len(block) for block, _, _ in drawn))
        labelled = all(labels is not None for _, labels, _ in drawn)
        codes = Labels.encode(np.concatenate([labels for _, labels, _ in drawn])).codes if labelled else None
        return cls(
            np.concatenate([block for block, _, _ in drawn])[order],
            None if codes is None else codes.astype(np.intp)[order],
            layout,
            any(came_sparse for _, _, came_sparse in drawn),
            generator,
        )


def _draw(rows: Rows, y: Any, size: int, generator: np.random.Generator) -> tuple[NDArray[np.float64], Any, bool]:
    """Some rows, their labels if there are any, and whether they came sparse."""
    chosen = np.sort(generator.choice(rows.n_rows, min(size, rows.n_rows), replace=False))
    # Neighbours are read together, so that a sample of nearly all rows is not read one by one.
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
    blocks = [rows.block(int(run[0]), int(run[-1]) + 1) for run in runs]
    block = np.concatenate(
        [(part.toarray() if sparse.issparse(part) else part).astype(np.float64, copy=False) for part in blocks]
    )
    if not np.isfinite(block).all():
        rows.check_finite()
    came_sparse = isinstance(rows, SparseRows)
    if y is None:
        return block, None, came_sparse
    labels = y.to_array() if hasattr(y, "to_array") else np.asarray(y)
    if len(labels) != rows.n_rows:
        raise DataError(f"X and y are of unequal length: {rows.n_rows} rows, {len(labels)} labels.")
    return block, labels[chosen], came_sparse
