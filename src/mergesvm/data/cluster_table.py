"""Tables that lie in partitions on a cluster, and the columns to be learned from."""

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
from mergesvm.errors import DataError


class PartitionReader(TableReader):
    """One partition of a table: record batches, as they come."""

    def __init__(self, name: str, options: ReadOptions, schema: Any, batches: Iterable[Any] = ()) -> None:
        super().__init__(File(name, None, 0), options)
        self._schema, self._batches = flat_schema(schema), batches
        self._lists = list_sizes(schema)

    def arrow_schema(self) -> Any:
        """Names and types of the columns."""
        return self._schema

    def vocabulary(self) -> dict[str, set[Label]]:
        """The values of categories that the schema tells in the metadata of their columns."""
        found: dict[str, set[Label]] = {}
        for name in self._feature_columns(self._fields()):
            told = (self._schema.field(name).metadata or {}).get(b"vocabulary")
            if told is not None and name not in self.options.categories:
                found[name] = set(json.loads(told))
        return found

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Record batches of about so many rows: small ones are put together."""
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
        """The same batch; a column that is empty here, and so of no type, has that of the table."""
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
class Columns:
    """The columns of a table that lies elsewhere, and what is asked of them; the rows come partition by partition.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the whole table.
    options : ReadOptions
    layout : Layout
        The features that follow.
    batch_rows : int or None
    """

    schema: Any
    options: ReadOptions
    layout: Layout
    batch_rows: int | None = None

    @classmethod
    def of(cls, schema: Any, label: str, batch_rows: int | None = None, like: Any = None, **wishes: Any) -> Columns:
        """Further arguments are those of :func:`mergesvm.scan`.

        >>> Columns.of(pa.schema([("size", pa.float64()), ("sold", pa.string())]), "sold").layout.names
        ('size',)
        """
        lists, chosen = list_sizes(schema), wishes.get("features")
        if lists and chosen is not None:
            wishes["features"] = flat_names([chosen] if isinstance(chosen, str) else chosen, lists)
        options = ReadOptions.of(label, **wishes)
        expected = None if like is None else layout_of(like)
        if expected is not None:
            options = options.matching(expected)
        if isinstance(options.categories, str):
            raise DataError("Values of a table on a cluster are not looked up: declare categories={column: [...]}.")
        layout, reader = expected, PartitionReader("the table", options, schema)
        if layout is None or layout.names is None:
            told = {column: sorted_vocabulary(values) for column, values in reader.vocabulary().items()}
            layout = reader.layout(dict(options.categories) | told)
        reader.check_columns(layout)
        return cls(schema, options, layout, batch_rows)

    @property
    def needed(self) -> list[str]:
        """The columns that are read, of all that the table has."""
        lists = list_sizes(self.schema)
        owners = {place: name for name, size in lists.items() for place in place_names(name, size)}
        read = self.layout.columns
        beside = (self.options.label, self.options.weight, *self.options.keep)
        return list(dict.fromkeys(owners.get(name, name) for name in (*read, *beside) if name is not None))

    def scan(self, batches: Iterable[Any], name: str) -> Scan:
        """The rows of one partition, from its record batches."""
        return Scan([PartitionReader(name, self.options, self.schema, batches)], self.batch_rows, self.layout)


@dataclass(frozen=True)
class ClusterTable:
    """A table on the workers of an engine, and its columns."""

    table: Any
    columns: Columns


def record_batches(content: Any) -> Iterable[Any]:
    """The record batches of a partition, whatever it is: those of Arrow, a table of pandas or polars, or a stream."""
    if hasattr(content, "to_arrow"):
        content = content.to_arrow()
    if hasattr(content, "iloc"):
        content = pa.Table.from_pandas(content, preserve_index=False)
    batches: Iterable[Any] = content
    if isinstance(content, pa.Table):
        batches = content.to_batches()
    return [content] if isinstance(content, pa.RecordBatch) else batches
