"""Tables that are learned by their columns: in memory, or in partitions on a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout, sorted_vocabulary
from mergesvm.data.list_columns import flat_batch, flat_names, flat_schema, list_sizes, place_names
from mergesvm.data.paths import File
from mergesvm.data.read_options import ReadOptions, layout_of
from mergesvm.data.readers.tabular import TableReader
from mergesvm.data.rows.base import spans
from mergesvm.data.scan import Scan
from mergesvm.errors import DataError, ParameterError


class PartitionReader(TableReader):
    """Record batches of a table, or of one of its partitions."""

    def __init__(self, name: str, options: ReadOptions, schema: Any, batches: Iterable[Any] = ()) -> None:
        super().__init__(File(name, None, 0), options)
        self._schema, self._batches = flat_schema(schema), batches
        self._lists = list_sizes(schema)

    def arrow_schema(self) -> Any:
        """Names and types of the columns."""
        return self._schema

    def vocabulary(self) -> dict[str, set[Label]]:
        """The categories declared in the metadata of the schema, and those found in a table in memory."""
        found = super().vocabulary() if isinstance(self._batches, list) else {}
        for name in self._feature_columns(self._fields()):
            declared = (self._schema.field(name).metadata or {}).get(b"vocabulary")
            if declared is not None and name not in self.options.categories:
                found[name] = set(json.loads(declared))
        return found

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Record batches of about ``rows`` rows: small ones are combined."""
        waiting: list[Any] = []
        first = 0
        for batch in self._batches:
            flat = flat_batch(batch, self._lists, self.file.name, first) if self._lists else batch
            waiting.append(self._typed(flat.select(columns)))
            first += batch.num_rows
            if sum(each.num_rows for each in waiting) >= rows:
                yield from _cut(waiting, rows)
                waiting = []
        if waiting:
            yield from _cut(waiting, rows)

    def _typed(self, batch: Any) -> Any:
        """Give columns of null type, which are empty in this batch, the type they have in the table."""
        for index, name in enumerate(batch.schema.names):
            if pa.types.is_null(batch.column(index).type):
                kind = self._schema.field(name).type
                batch = batch.set_column(index, name, pa.nulls(batch.num_rows, kind))
        return batch


def _cut(batches: list[Any], rows: int) -> Iterator[tuple[Any, float]]:
    for batch in pa.Table.from_batches(batches).combine_chunks().to_batches():
        for start, stop in spans(batch.num_rows, rows):
            yield batch.slice(start, stop - start), 0.0


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table to learn from, and how to read them; the rows come partition by partition."""

    schema: Any
    options: ReadOptions
    layout: Layout
    batch_rows: int | None = None

    @classmethod
    def of(
        cls,
        schema: Any,
        label: str,
        *,
        columns: str | Iterable[str] | None = None,
        batches: list[Any] | None = None,
        batch_rows: int | None = None,
        like: Any = None,
        **options: Any,
    ) -> TableColumns:
        """Choose columns; further options are those of :func:`mergesvm.scan`.

        ``batches`` are the rows of a table in memory, in which categories can be looked up.

        >>> TableColumns.of(pa.schema([("size", pa.float64()), ("sold", pa.string())]), "sold").layout.names
        ('size',)
        """
        lists = list_sizes(schema)
        if columns is not None:
            columns = flat_names([columns] if isinstance(columns, str) else columns, lists)
        read = ReadOptions.of(label, features=columns, **options)
        expected = None if like is None else layout_of(like)
        if expected is not None:
            read = read.matching(expected)
        if isinstance(read.categories, str) and batches is None:
            raise DataError("Categories of a table on a cluster must be declared: categories={column: [...]}.")
        layout, reader = expected, PartitionReader("the table", read, schema, () if batches is None else batches)
        if layout is None or layout.names is None:
            declared = {} if isinstance(read.categories, str) else dict(read.categories)
            found = {column: sorted_vocabulary(values) for column, values in reader.vocabulary().items()}
            layout = reader.layout(declared | found)
        reader.check_columns(layout)
        return cls(schema, read, layout, batch_rows)

    @property
    def needed(self) -> list[str]:
        """The columns that are read."""
        lists = list_sizes(self.schema)
        owners = {place: name for name, size in lists.items() for place in place_names(name, size)}
        read = self.layout.columns
        beside = (self.options.label, self.options.weight, *self.options.keep)
        return list(dict.fromkeys(owners.get(name, name) for name in (*read, *beside) if name is not None))

    def scan(self, batches: Iterable[Any], name: str) -> Scan:
        """The rows of one partition."""
        return Scan([PartitionReader(name, self.options, self.schema, batches)], self.batch_rows, self.layout)


def memory_table(table: Any, label: str) -> Any:
    """Convert a table in memory to an Arrow table.

    >>> import pandas as pd
    >>> memory_table(pd.DataFrame({"x": [1, 2]}), "y").column_names
    ['x']
    """
    if not any(hasattr(table, name) for name in ("iloc", "to_arrow", "column_names")) or not hasattr(table, "columns"):
        kind = type(table)
        raise ParameterError(
            f"label={label!r} names a column, but X is not a table: {kind.__module__}.{kind.__qualname__}. Pass the "
            f"labels as y."
        )
    arrow = _as_arrow(table)
    return arrow if isinstance(arrow, pa.Table) else pa.Table.from_batches([arrow])


def sendable_parts(table: Any, count: int) -> list[Any]:
    """Divide an Arrow table into at most ``count`` IPC buffers: pickled slices would contain the whole table."""
    buffers = []
    for start, stop in spans(table.num_rows, max(1, -(-table.num_rows // count))):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(start, stop - start))
        buffers.append(sink.getvalue())
    return buffers


def record_batches(content: Any) -> Iterable[Any]:
    """Return the record batches of a partition: Arrow, pandas or polars, IPC, or an iterable of record batches."""
    content = _as_arrow(pa.ipc.open_stream(content).read_all() if isinstance(content, pa.Buffer) else content)
    if isinstance(content, pa.RecordBatch):
        return [content]
    batches: Iterable[Any] = content.to_batches() if isinstance(content, pa.Table) else content
    return batches


def _as_arrow(content: Any) -> Any:
    """Convert tables of pandas and polars to Arrow."""
    if hasattr(content, "to_arrow"):
        return content.to_arrow()
    return pa.Table.from_pandas(content, preserve_index=False) if hasattr(content, "iloc") else content
