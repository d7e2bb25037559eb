"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.parquet as pq

from mergesvm.data.tabular import TableReader


class ParquetReader(TableReader):
    """Parquet, row group by row group; page checksums are verified where there are any."""

    suffixes = (".parquet", ".pq")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with self.file.open() as raw:
            # Without buffering ahead: that holds whole files in memory, and reads no faster from a disk.
            yield pq.ParquetFile(raw, pre_buffer=False, page_checksum_verification=True)

    def arrow_schema(self) -> Any:
        """Names and types of the columns."""
        with self._opened() as file:
            return file.schema_arrow

    def n_rows(self) -> int:
        """The number of rows, from the footer."""
        with self.reading(), self._opened() as file:
            return int(file.metadata.num_rows)

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Record batches of some columns."""
        with self._opened() as file:
            total, done = max(1, file.metadata.num_rows), 0
            # Plain values are copied, not decoded: then one thread leaves more of the machine to learning.
            threads = _unpacked_bytes(file.metadata) > 1.1 * self.file.size
            for batch in file.iter_batches(batch_size=rows, columns=columns, use_threads=threads):
                batch.validate(full=True)
                done += batch.num_rows
                yield batch, done / total
            if done != file.metadata.num_rows:
                raise self.malformed(f"{file.metadata.num_rows:,} rows are promised, {done:,} are there")


def _unpacked_bytes(metadata: Any) -> int:
    # Not by asking the columns: in pyarrow, those of a damaged file may end the process.
    return sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
