"""The pilot sample: some rows, drawn once, from which a map finds its centre, its scale and its landmarks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Labels
from mergesvm.data.readers.base import Layout, Slice
from mergesvm.data.rows.base import Rows
from mergesvm.data.rows.convert import as_rows
from mergesvm.data.rows.sparse import SparseRows
from mergesvm.data.scan import Scan
from mergesvm.errors import DataError
from mergesvm.features.ops.projection import dense

PILOT_ROWS = 4096

PILOT_BYTES, FEWEST_ROWS = 2**28, 64
"""A pilot sample takes no more memory than this, unless rows are so wide that it would be of fewer rows."""

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
    features : bool
        Whether the rows are features that another map gives, and no better than it rounds.
    """

    rows: NDArray[np.float64]
    codes: NDArray[np.intp] | None
    layout: Layout
    sparse: bool
    generator: np.random.Generator
    features: bool = False

    @classmethod
    def of(cls, X: Any, y: Any = None, seed: int = 0, wanted: int = 0) -> Pilot:
        """Draw a sample at random: of rows in memory from all of them, of files from their first slices.

        >>> Pilot.of([[float(i)] for i in range(10)], list("ababababab")).rows.shape
        (10, 1)
        """
        generator = np.random.default_rng(seed)
        if isinstance(X, Scan):
            layout = X.layout
            size = _size(layout, wanted)
            drawn = _from_slices(X.first_slices(MOST_FILES), size, generator)
            if sum(len(part) for part in drawn) < min(wanted, size):
                with closing(iter(X)) as slices:  # type: ignore[type-var]
                    drawn = _from_slices(slices, size, generator, wanted)
        else:
            rows = as_rows(X)
            layout = Layout(rows.width, rows.names)
            drawn = [_draw(rows, y, _size(layout, wanted), generator)]
        if not drawn:
            raise DataError(f"There are no rows to look at in the first slices of {X!r}.")
        # In no order, so that the first of them are a sample, too.
        order = generator.permutation(sum(len(part) for part in drawn))
        labels = [part.labels for part in drawn if part.labels is not None]
        labelled = len(labels) == len(drawn)
        return cls(
            np.concatenate([part.block for part in drawn])[order],
            Labels.encode(np.concatenate(labels)).codes.astype(np.intp)[order] if labelled else None,
            layout,
            any(part.sparse for part in drawn),
            generator,
        )


@dataclass(frozen=True)
class _Drawn:
    """Some rows in no order, their labels if there are any, and whether they came sparse."""

    block: NDArray[np.float64]
    labels: NDArray[Any] | None
    sparse: bool

    def __len__(self) -> int:
        return len(self.block)

    def first(self, count: int) -> _Drawn:
        return _Drawn(self.block[:count], None if self.labels is None else self.labels[:count], self.sparse)


def _size(layout: Layout, wanted: int) -> int:
    return min(max(PILOT_ROWS, wanted), max(FEWEST_ROWS, PILOT_BYTES // (8 * layout.width)))


def _from_slices(
    slices: Iterable[Slice], size: int, generator: np.random.Generator, enough: int | None = None
) -> list[_Drawn]:
    """Rows from slices, as many of each as the others leave room for; if ``enough`` is given, no slices after that."""
    drawn: list[_Drawn] = []
    for part in slices:
        if part.rows.n_rows:
            drawn.append(_draw(part.rows, part.labels, size, generator))
            lengths = np.array([len(one) for one in drawn])
            while lengths.sum() > size:
                lengths = np.minimum(lengths, lengths.max() - max(1, (lengths.sum() - size) // len(lengths)))
            drawn = [one.first(int(length)) for one, length in zip(drawn, lengths, strict=True)]
            if enough is not None and lengths.sum() >= enough:
                break
    return drawn


def _draw(rows: Rows, y: Any, size: int, generator: np.random.Generator) -> _Drawn:
    chosen = np.sort(generator.choice(rows.n_rows, min(size, rows.n_rows), replace=False))
    # Neighbours are read together, so that a sample of nearly all rows is not read one by one.
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) != 1) + 1)
    blocks = [rows.block(int(run[0]), int(run[-1]) + 1) for run in runs]
    block = np.concatenate([dense(part).astype(np.float64, copy=False) for part in blocks])
    if not np.isfinite(block).all():
        rows.check_finite()
    order = generator.permutation(len(block))
    if y is None:
        return _Drawn(block[order], None, isinstance(rows, SparseRows))
    labels = y.to_array() if hasattr(y, "to_array") else np.asarray(y)
    if len(labels) != rows.n_rows:
        raise DataError(f"X and y are of unequal length: {rows.n_rows} rows, {len(labels)} labels.")
    return _Drawn(block[order], labels[chosen][order], isinstance(rows, SparseRows))
