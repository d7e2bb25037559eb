"""Parquet files that workers of Spark read by themselves.

Rows that come out of Spark itself are turned from columns into rows and back into columns, which takes several times as
long as to learn from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mergesvm.errors import DataError

BATCH_ROWS = 2**18
BATCH_BYTES = 32 * 2**20
"""At most so many rows are read at one time, or what takes about so many bytes."""

TEXT_BYTES = 32
"""What a text is taken to need."""


@dataclass(frozen=True)
class Piece:
    """A file, or some of its row groups one after another."""

    path: str
    groups: range | None = None

    @property
    def name(self) -> str:
        """How messages name it.

        >>> Piece("day.parquet", range(2, 5)).name
        'day.parquet, row groups 2 to 4'
        """
        if self.groups is None:
            return self.path
        first, last = self.groups[0], self.groups[-1]
        return f"{self.path}, row group{f' {first}' if first == last else f's {first} to {last}'}"


class Run:
    """Pieces of files that one task reads: what is iterated over are record batches of the columns that are expected.

    Parameters
    ----------
    pieces : list of Piece
    schema : pyarrow.Schema
        The columns, as Spark has them.
    """

    def __init__(self, pieces: list[Piece], schema: Any) -> None:
        self.pieces, self.schema = pieces, schema

    @property
    def name(self) -> str:
        """How messages name all pieces."""
        more = len(self.pieces) - 1
        return self.pieces[0].name + (f" and {more:,} more" if more else "")

    def __iter__(self) -> Iterator[Any]:
        for piece in self.pieces:
            with _reading(piece.name):
                yield from _batches(piece, self.schema)


class Runs(Sequence[Run]):
    """Files as tasks of about the same size, at most so many.

    The footer is read of those files only that are larger than a task is to be.

    Parameters
    ----------
    files : list of str
    schema : pyarrow.Schema
        The columns that are read.
    most : int
    """

    def __init__(self, files: Sequence[str], schema: Any, most: int) -> None:
        sizes = [Path(path).stat().st_size for path in files]
        share, begin = sum(sizes) / most, 0.0
        pieces: dict[int, list[Piece]] = {}
        for path, size in zip(files, sizes, strict=True):
            for piece, length in _cut(path, size) if size > share else [(Piece(path), float(size))]:
                # Whoever is to have its middle, if all that there is lies in one line.
                _append(pieces.setdefault(min(most - 1, int((begin + length / 2) / share)), []), piece)
                begin += length
        self._runs = [Run(part, schema) for part in pieces.values()]

    @property
    def names(self) -> list[str]:
        """How messages name the tasks."""
        return [run.name for run in self._runs]

    def __len__(self) -> int:
        return len(self._runs)

    def __getitem__(self, index: Any) -> Any:
        return self._runs[index]


def opened(path: str) -> Any:
    """A Parquet file; page checksums are verified where there are any."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Errors of a file name it."""
    import pyarrow as pa

    try:
        yield
    except (OSError, EOFError, pa.ArrowException) as error:
        said = str(error).strip() or type(error).__name__
        raise DataError(f"{name} cannot be read: {said.splitlines()[0]}") from error


def _cut(path: str, size: int) -> list[tuple[Piece, float]]:
    """The row groups of a file, and how many bytes each has."""
    with _reading(path), opened(path) as file:
        rows = [file.metadata.row_group(index).num_rows for index in range(file.metadata.num_row_groups)]
    total = max(1, sum(rows))
    return [(Piece(path, range(group, group + 1)), size * count / total) for group, count in enumerate(rows) if count]


def _append(pieces: list[Piece], piece: Piece) -> None:
    """Add a piece behind others, as one with the last of them where it goes on there."""
    last = pieces[-1].groups if pieces and pieces[-1].path == piece.path else None
    if last is not None and piece.groups is not None and last.stop == piece.groups.start:
        pieces[-1] = Piece(piece.path, range(last.start, piece.groups.stop))
    else:
        pieces.append(piece)


def _batches(piece: Piece, schema: Any) -> Iterator[Any]:
    """The record batches of a piece, with the columns of the schema."""
    import pyarrow as pa

    width = sum(TEXT_BYTES if pa.types.is_string(kind) else max(1, kind.bit_width // 8) for kind in schema.types)
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, width)))
    with opened(piece.path) as file:
        there = _checked(piece, file.schema_arrow, schema)
        groups = range(file.metadata.num_row_groups) if piece.groups is None else piece.groups
        total, done = sum(file.metadata.row_group(group).num_rows for group in groups), 0
        for batch in file.iter_batches(rows, list(groups), there, use_threads=False):
            batch.validate(full=True)
            done += batch.num_rows
            yield _typed(batch, schema)
        if done != total:
            raise DataError(f"{piece.name} cannot be read: {total:,} rows are promised, {done:,} are there.")


def _checked(piece: Piece, found: Any, schema: Any) -> list[str]:
    """Those columns that a file has; the others are empty, as they are for Spark."""
    names = set(found.names)
    alike = {name.lower() for name in names}
    for field in schema:
        if field.name in names:
            kind = found.field(field.name).type
            said = None if is_read_as(kind, field.type) else f"column {field.name!r} as {kind}, not {field.type}"
        else:
            said = f"no column {field.name!r} but in other letters" if field.name.lower() in alike else None
        if said is not None:
            raise DataError(f"{piece.path} has {said}. Spark may know what to make of it: Spark(..., direct=False).")
    return [name for name in schema.names if name in names]


def is_read_as(found: Any, expected: Any) -> bool:
    """Whether a column of a file can be read as the type that it has in Spark, and no value changes by that.

    >>> import pyarrow as pa
    >>> is_read_as(pa.int32(), pa.int64()), is_read_as(pa.string(), pa.int64())
    (True, False)
    """
    import numpy as np

    if found == expected or is_stored_as(found, expected):
        return True
    if not (_is_number(found) and _is_number(expected)):
        return False
    return bool(np.can_cast(found.to_pandas_dtype(), expected.to_pandas_dtype(), "safe"))


def is_stored_as(found: Any, expected: Any) -> bool:
    """Whether a type is that of Spark but for how Arrow holds it: texts, for one, may be large or in a dictionary."""
    import pyarrow as pa

    if pa.types.is_dictionary(found):
        found = found.value_type
    is_text = pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found)
    return bool(found == expected or (is_text and pa.types.is_string(expected)))


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _typed(batch: Any, schema: Any) -> Any:
    """The same batch with the columns of a schema, in its order and of its types."""
    import pyarrow as pa

    there = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.record_batch(columns, schema=schema)
