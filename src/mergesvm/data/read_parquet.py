"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from mergesvm.data.paths import File
from mergesvm.data.reader import Reader, Terms
from mergesvm.data.tabular import TableReader


class ParquetReader(TableReader):
    """Parquet, row group by row group; page checksums are verified where there are any."""

    suffixes = (".parquet", ".pq")

    def __init__(self, file: File, terms: Terms) -> None:
        super().__init__(file, terms)
        self.groups: range | None = None

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
            return sum(_group_rows(file.metadata, self._chosen(file.metadata)))

    def cut(self, size: int) -> list[Reader]:
        """Runs of row groups."""
        with self.reading(), self._opened() as file:
            counts = _group_rows(file.metadata, self._chosen(file.metadata))
        total, parts, begin, first = max(1, sum(counts)), [], 0, 0
        for index, rows in enumerate(np.cumsum(counts).tolist()):
            bytes_so_far = round(self.size * (rows - first) / total)
            if bytes_so_far >= size or index == len(counts) - 1:
                words = f"row groups {begin} to {index}" if index > begin else f"row group {begin}"
                part = self.part(bytes_so_far, first, words)
                part.groups = range(begin, index + 1)
                parts.append(part)
                begin, first = index + 1, rows
        return list(parts) if len(parts) > 1 else [self]

    def _chosen(self, metadata: Any) -> range:
        return range(metadata.num_row_groups) if self.groups is None else self.groups

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Record batches of some columns."""
        with self._opened() as file:
            groups = self._chosen(file.metadata)
            total, done = sum(_group_rows(file.metadata, groups)), 0
            # Plain values are copied, not decoded: then one thread leaves more of the machine to learning.
            threads = self.groups is None and _unpacked_bytes(file.metadata) > 1.1 * self.file.size
            for batch in file.iter_batches(rows, list(groups), columns, use_threads=threads):
                batch.validate(full=True)
                done += batch.num_rows
                yield batch, done / max(1, total)
            if done != total:
                raise self.malformed(f"{total:,} rows are promised, {done:,} are there")


def _group_rows(metadata: Any, groups: range) -> list[int]:
    return [int(metadata.row_group(index).num_rows) for index in groups]


def _unpacked_bytes(metadata: Any) -> int:
    # Not by asking the columns: in pyarrow, those of a damaged file may end the process.
    return sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
