"""Read Feather and Arrow IPC, files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from mergesvm.data.layout import Layout
from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.splittable import SplittableReader
from mergesvm.data.readers.tabular import TableReader
from mergesvm.data.rows.base import spans
from mergesvm.data.slice import Slice


class FeatherReader(TableReader, SplittableReader):
    """Reads Arrow IPC, batch by batch."""

    suffixes = (".feather", ".arrow", ".arrows", ".ipc")
    unit = "record batch"
    counted = False  # the number of rows is stored with each batch, not in one place

    @contextmanager
    def _opened(self, columns: list[str] | None = None) -> Iterator[tuple[Any, int | None]]:
        """Open the file; returns Arrow's reader and the number of batches, None for a stream."""
        # Not memory-mapped, because truncating a mapped file would crash the process.
        with self.file.open_arrow() as raw:
            as_file = raw.read(6) == b"ARROW1"
            raw.seek(0)
            open_it = pa.ipc.open_file if as_file else pa.ipc.open_stream
            options = pa.ipc.IpcReadOptions()
            if columns is not None:
                schema = open_it(raw).schema
                options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in columns])
                raw.seek(0)
            reader = open_it(raw, options=options)
            yield reader, reader.num_record_batches if as_file else None

    def arrow_schema(self) -> Any:
        """Return names and types of the columns."""
        with self._opened() as (reader, _):
            return reader.schema

    def split(self, size: int) -> list[Reader]:
        """Split into ranges of record batches, unless it is a stream."""
        with self.reading(), self._opened() as (_, count):
            return [self] if count is None else self.split_span(self.span or range(count), size)

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """Yield the rows of the file, or of a part of it."""
        return self.named(super().slices(layout, rows))

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Yield record batches of some columns."""
        with self._opened(columns) as (reader, count):
            batches = reader
            if count is not None:
                chosen = self.span or range(count)
                batches, count = map(reader.get_batch, chosen), len(chosen)
            for number, batch in enumerate(batches, 1):
                batch.validate(full=True)
                for start, stop in spans(batch.num_rows, rows):
                    yield batch.slice(start, stop - start).select(columns), number / (count or number + 1)
