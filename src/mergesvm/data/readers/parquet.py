"""Read Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.splittable import SplittableReader
from mergesvm.data.readers.tabular import MAX_TEXT_BYTES, TableReader
from mergesvm.engines.machine import check_memory
from mergesvm.errors import DataError

COPIES_OF_TEXTS = 3
"""Texts are held this often while they are decoded: compressed pages, decoded ones, and values."""

MAX_NUMBER_BYTES = 64
"""More than a number takes, with its null and its place in a list."""

UNSUSPICIOUS_BYTES = 64 * 2**20
"""Row groups up to this size are read whatever they hold; the reader then looks at each text."""


class ParquetReader(TableReader, SplittableReader):
    """Reads Parquet, row group by row group, and verifies page checksums."""

    suffixes = (".parquet", ".pq")
    unit = "row group"

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self.file.open_arrow() as raw:
            # Pre-buffering would hold whole files in memory, and reads no faster from a disk.
            yield pq.ParquetFile(raw, pre_buffer=False, page_checksum_verification=True)

    def arrow_schema(self) -> Any:
        """Return names and types of the columns."""
        with self._opened() as file:
            return file.schema_arrow

    def n_rows(self) -> int:
        """Return the number of rows, from the footer."""
        with self.reading(), self._opened() as file:
            return sum(_group_rows(file.metadata, self._chosen(file.metadata)))

    def split(self, size: int) -> list[Reader]:
        """Split into ranges of row groups."""
        with self.reading(), self._opened() as file:
            groups = self._chosen(file.metadata)
            return self.split_span(groups, size, _group_rows(file.metadata, groups))

    def _chosen(self, metadata: Any) -> range:
        return range(metadata.num_row_groups) if self.span is None else self.span

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Yield record batches of some columns."""
        with self._opened() as file:
            groups = self._chosen(file.metadata)
            total, done = sum(_group_rows(file.metadata, groups)), 0
            self._check_size(file, groups)
            # Uncompressed values are only copied: one thread is enough, and leaves the other cores to learning.
            threads = self.span is None and _uncompressed_bytes(file.metadata) > 1.1 * self.file.size
            for batch in file.iter_batches(rows, list(groups), columns, use_threads=threads):
                batch.validate(full=True)
                done += batch.num_rows
                yield batch, done / max(1, total)
            if done != total:
                raise self.malformed(
                    f"found {done:,} rows, but the footer says {total:,}. The file may be damaged; write it again"
                )

    def _check_size(self, file: Any, groups: range) -> None:
        """Raise an error, before anything is decoded, for row groups that need too much memory or hold huge texts."""
        schema, options = file.schema_arrow, self.options
        texts = [field.name for field in schema if not _is_fixed_width(field.type)]
        # Texts of columns that are kept or left out may be of any length.
        used = set(schema.names if options.features is None else [*options.features, options.label])
        limited = set(texts) <= used - set(options.keep)
        for index in groups:
            group = file.metadata.row_group(index)
            needed = group.total_byte_size * (COPIES_OF_TEXTS if texts else 1)
            check_memory(needed, f"{self.file.name}: a row group", "Write the file with smaller row groups.")
            most = group.num_rows * (len(texts) * MAX_TEXT_BYTES + len(schema) * MAX_NUMBER_BYTES)
            if limited and group.total_byte_size > max(UNSUSPICIOUS_BYTES, most):
                raise DataError(
                    f"{self.file.name}: {group.num_rows:,} rows of {len(schema):,} columns take "
                    f"{group.total_byte_size:,} bytes; labels and categories have at most {MAX_TEXT_BYTES:,}. Exclude "
                    f"the columns with long texts ({', '.join(map(repr, texts[:5]))}), or shorten them."
                )


def _is_fixed_width(kind: Any) -> bool:
    return any(test(kind) for test in (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_null))


def _group_rows(metadata: Any, groups: range) -> list[int]:
    return [int(metadata.row_group(index).num_rows) for index in groups]


def _uncompressed_bytes(metadata: Any) -> int:
    # Not from the columns: pyarrow may crash on those of a damaged file.
    return sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
