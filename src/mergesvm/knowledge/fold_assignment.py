"""Which rows are held out together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.hashing import group_hashes, row_hashes, stored_values
from mergesvm.data.labels import Label, Labels
from mergesvm.data.readers.base import Slice
from mergesvm.data.rows.base import Rows, spans
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, ParameterError
from mergesvm.knowledge.gram.jit_policy import kernels_worth

RULES = ("rows", "groups", "given")
"""By what rows fall into folds: a hash of their values, a hash of their group, or as someone said."""

MOST_FOLDS = 1000

CHUNK = 1 << 16
"""Classes and folds become cells so many rows at a time, so that they stay in the cache."""

VALUE_SECONDS = 2e-9
"""What the compiled kernel saves on hashing one value, as measured."""

Numbers = NDArray[np.int64]


class Cell(NamedTuple):
    """The rows of one class in one fold: while they are learned, a class of its own."""

    label: Label
    fold: int

    def __repr__(self) -> str:
        return f"{self.label!r} " + ("never held out" if self.fold < 0 else f"in fold {self.fold}")


@dataclass(frozen=True)
class FoldAssignment:
    """How rows fall into folds.

    Attributes
    ----------
    count : int
        The number of folds.
    by : {"rows", "groups", "given"}
    column : str or None
        The column of the groups, where rows come from tables.
    """

    count: int
    by: str = "rows"
    column: str | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.count, (int, np.integer)) and not isinstance(self.count, bool)
        if not whole or not 2 <= self.count <= MOST_FOLDS:
            raise ParameterError(f"folds has to be a whole number from 2 to {MOST_FOLDS:,}, not {self.count!r}.")
        object.__setattr__(self, "count", int(self.count))

    def __str__(self) -> str:
        column = "" if self.column is None else f" of {self.column!r}"
        return f"{self.count} folds by {self.by}{column}"

    @classmethod
    def of(cls, folds: Any, groups: Any) -> tuple[FoldAssignment, Numbers | None]:
        """The folding that is meant, and the fold of each row, where it was given."""
        if np.ndim(folds) == 0:
            by = "rows" if groups is None else "groups"
            return cls(folds, by, groups if isinstance(groups, str) else None), None
        if groups is not None:
            raise ParameterError("Give either the fold of each row, or a number of folds and groups, not both.")
        numbers = np.asarray(folds)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu") or numbers.min(initial=0) < -1:
            raise ParameterError(
                "folds has to be a whole number, or one whole number a row: its fold, from 0 up, or -1 for a row that "
                "is never held out."
            )
        # A rank may have rows of few folds, or none.
        return cls(max(2, int(numbers.max(initial=0)) + 1), "given"), numbers.astype(np.int64)

    def numbers(self, rows: Rows, groups: Any = None, engine: Threads | None = None) -> Numbers:
        """The fold of each row, (rows,).

        >>> from mergesvm.data.rows.convert import as_rows
        >>> FoldAssignment(5).numbers(as_rows([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
        [1, 2, 1]
        """
        if self.by == "given":
            raise ParameterError("Rows were held out as someone said: say it again, numbers=[...], one fold a row.")
        if self.by == "groups":
            if groups is None:
                raise ParameterError("Rows are held out by groups: say with groups= which group each row is of.")
            if isinstance(groups, str):
                raise ParameterError(
                    f"groups={groups!r} names a column of files or tables, and these rows are in memory: give the "
                    f"group of each row."
                )
            hashes = group_hashes(groups)
            if len(hashes) != rows.n_rows:
                raise DataError(f"X and groups are of unequal length: {rows.n_rows} rows, {len(hashes)} groups.")
        else:
            hashes = row_hashes(rows, engine, kernels_worth(stored_values(rows) * VALUE_SECONDS))
        return (hashes % np.uint64(self.count)).astype(np.int64)

    def groups_of(self, part: Slice) -> Any:
        """The groups of the rows of a slice of files."""
        if self.by != "groups":
            return None
        if self.column is None:
            raise ParameterError("Of files, groups is the name of a column.")
        if part.table is None or self.column not in part.table.schema.names:
            raise ParameterError(
                f"{part.rows.source} does not bring along the column {self.column!r} of the groups: "
                f"scan(..., keep=[{self.column!r}])."
            )
        column = part.table.column(self.column)
        if part.kept is not None:
            column = column.filter(pa.array(part.kept))
        if column.null_count:
            raise DataError(f"{part.rows.source}: {column.null_count:,} rows are of no group in {self.column!r}.")
        return np.array(column.to_pylist(), dtype=object)


def folded(batch: Batch, numbers: Numbers) -> Batch:
    """A batch in which each class of each fold is a class of its own, a :class:`Cell`.

    >>> batch = folded(Batch.of([[1.0], [2.0], [3.0]], ["a", "b", "a"]), np.array([0, 0, 1]))
    >>> batch.labels.classes
    ('a' in fold 0, 'a' in fold 1, 'b' in fold 0)
    """
    if len(numbers) != batch.rows.n_rows:
        raise DataError(f"X and folds are of unequal length: {batch.rows.n_rows} rows, {len(numbers)} folds.")
    labels, width = batch.labels, int(numbers.max(initial=0)) + 2
    chunks = list(spans(len(numbers), CHUNK))

    def places(start: int, stop: int) -> NDArray[np.intp]:
        # Those of rows that do not count come first, and in each class those that are never held out.
        found: NDArray[np.intp] = labels.codes[start:stop].astype(np.intp)
        found += 1
        found *= width
        found += numbers[start:stop]
        found += 1
        return found

    counts = np.zeros((len(labels.classes) + 1) * width, dtype=np.int64)
    for chunk in chunks:
        counts += np.bincount(places(*chunk), minlength=len(counts))
    counts[:width] = 0
    present = np.flatnonzero(counts)
    table = np.full(len(counts), -1, dtype=np.min_scalar_type(-max(1, len(present))))
    table[present] = np.arange(len(present))
    codes: NDArray[Any] = np.empty(len(numbers), dtype=table.dtype)
    for start, stop in chunks:
        np.take(table, places(start, stop), out=codes[start:stop], mode="clip")
    cells: Any = tuple(Cell(labels.classes[place // width - 1], int(place % width) - 1) for place in present)
    return replace(batch, labels=Labels(labels.kind, cells, codes, counts[present]))
