"""Assignment of rows to folds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.hashing import group_hashes, row_hashes, stored_values
from mergesvm.data.label_encoding import EncodedLabels
from mergesvm.data.labels import CategoricalLabels, Label
from mergesvm.data.rows.base import Rows, spans
from mergesvm.data.slice import Slice
from mergesvm.data.text_parser.label_kinds import MISSING, value_of
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, ParameterError
from mergesvm.knowledge.gram.jit_policy import GRAM_JIT

RULES = ("rows", "groups", "given")
"""Rows are assigned by a hash of their values, by a hash of their group, or as given."""

MAX_FOLDS = 1000

CHUNK_ROWS = 1 << 16
"""Cells are computed in chunks of this many rows, which fit the cache."""

SECONDS_SAVED_PER_VALUE = 2e-9
"""The time that the compiled function saves per hashed value (measured)."""

Numbers = NDArray[np.int64]


class Cell(NamedTuple):
    """One class in one fold. While learning, each cell is treated as a class."""

    label: Label
    fold: int

    def __repr__(self) -> str:
        return f"{self.label!r} " + ("never held out" if self.fold < 0 else f"in fold {self.fold}")


@dataclass(frozen=True)
class FoldAssignment:
    """The rule by which rows are assigned to folds: their number, one of RULES, and the column of groups in tables."""

    count: int
    by: str = "rows"
    column: str | None = None

    def __post_init__(self) -> None:
        integer = isinstance(self.count, (int, np.integer)) and not isinstance(self.count, bool)
        if not integer or not 2 <= self.count <= MAX_FOLDS:
            raise ParameterError(f"folds must be an integer from 2 to {MAX_FOLDS:,}, not {self.count!r}.")
        object.__setattr__(self, "count", int(self.count))

    def __str__(self) -> str:
        column = "" if self.column is None else f" of {self.column!r}"
        return f"{self.count} folds by {self.by}{column}"

    @classmethod
    def of(cls, folds: Any, groups: Any) -> tuple[FoldAssignment, Numbers | None]:
        """Interpret the arguments of ``learn``: return the assignment, and the fold of each row if given."""
        if np.ndim(folds) == 0:
            by = "rows" if groups is None else "groups"
            return cls(folds, by, groups if isinstance(groups, str) else None), None
        if groups is not None:
            raise ParameterError(
                "groups cannot be combined with a fold for each row. Pass either folds=[...] alone, or an integer as "
                "folds together with groups."
            )
        numbers = np.asarray(folds)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu") or numbers.min(initial=0) < -1:
            raise ParameterError(
                "folds must be an integer, or one integer per row: its fold, counted from 0, or -1 for a row that is "
                "never held out."
            )
        # A rank may have rows of only some folds, or no rows.
        return cls(max(2, int(numbers.max(initial=0)) + 1), "given"), numbers.astype(np.int64)

    def numbers(self, rows: Rows, groups: Any = None, engine: Threads | None = None) -> Numbers:
        """Return the fold of each row, (rows,).

        >>> from mergesvm.data.rows.convert import as_rows
        >>> FoldAssignment(5).numbers(as_rows([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
        [1, 2, 1]
        """
        if self.by == "given":
            raise ParameterError("The folds were given by the caller. Give them again: numbers=[...], one per row.")
        if self.by == "groups":
            if groups is None:
                raise ParameterError("Rows are held out by groups. Give the group of each row: groups=[...].")
            if isinstance(groups, str):
                raise ParameterError(
                    f"groups={groups!r} names a column of files or tables, but these rows are in memory. Give the "
                    f"group of each row."
                )
            hashes = group_hashes(groups)
            if len(hashes) != rows.n_rows:
                raise DataError(f"X and groups have different lengths: {rows.n_rows} rows, {len(hashes)} groups.")
        else:
            worth = GRAM_JIT.when_worth(stored_values(rows) * SECONDS_SAVED_PER_VALUE)
            hashes = row_hashes(rows, engine, compiled=worth is not None)
        return (hashes % np.uint64(self.count)).astype(np.int64)

    def groups_of(self, part: Slice) -> Any:
        """Return the groups of the rows of a slice of files; None if there are no groups."""
        if self.by != "groups":
            return None
        if self.column is None:
            raise ParameterError("For files, groups must be the name of a column.")
        if part.table is None or self.column not in part.table.schema.names:
            raise ParameterError(
                f"{part.rows.source} was scanned without the column {self.column!r} of the groups. Keep it: "
                f"scan(..., keep=[{self.column!r}])."
            )
        column = part.table.column(self.column)
        if part.kept is not None:
            import pyarrow as pa

            column = column.filter(pa.array(part.kept))
        values = column.to_pylist()
        missing = sum(value is None or (not part.typed and value in MISSING) for value in values)
        if missing:
            raise DataError(f"{part.rows.source}: {missing:,} rows have no group in {self.column!r}.")
        if part.typed:
            return np.array(values, dtype=object)
        places = {text: place for place, text in enumerate(dict.fromkeys(values))}
        return CategoricalLabels(np.array([places[text] for text in values]), tuple(map(value_of, places)))


def folded(batch: Batch, numbers: Numbers) -> Batch:
    """Return a batch whose classes are the cells, one per class and fold; see :class:`Cell`.

    >>> batch = folded(Batch.of([[1.0], [2.0], [3.0]], ["a", "b", "a"]), np.array([0, 0, 1]))
    >>> batch.labels.classes
    ('a' in fold 0, 'a' in fold 1, 'b' in fold 0)
    """
    if len(numbers) != batch.rows.n_rows:
        raise DataError(f"X and folds have different lengths: {batch.rows.n_rows} rows, {len(numbers)} folds.")
    labels, width = batch.labels, int(numbers.max(initial=0)) + 2
    chunks = list(spans(len(numbers), CHUNK_ROWS))

    def places(start: int, stop: int) -> NDArray[np.intp]:
        # Uncounted rows come first; in each class, rows that are never held out come first.
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
    return replace(batch, labels=EncodedLabels(labels.kind, cells, codes, counts[present]))
