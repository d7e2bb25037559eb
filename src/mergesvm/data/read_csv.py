"""Text with separators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mergesvm.data.plain_csv import NotPlainError, plain_batches
from mergesvm.data.rows import spans
from mergesvm.data.tabular import TableReader
from mergesvm.errors import MalformedFileError

BLOCK_BYTES = 2**22
"""Text is parsed so many bytes at a time; no line may be longer."""

LARGE_BYTES = 2**23
"""From this size on the compiled parser pays for being loaded."""


class CSVReader(TableReader):
    """CSV and TSV, plain or compressed, block by block. The first line names the columns, unless told otherwise."""

    suffixes = (".csv", ".tsv")
    compressions = (".gz", ".zst", ".bz2")

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in self.file.path.rsplit("/", 1)[-1].lower() else ","

    @contextmanager
    def _opened(self, **conversion: Any) -> Iterator[tuple[Any, Any]]:
        stream, raw = self.file.stream()
        with closing(raw), closing(stream):
            yield (
                csv.open_csv(
                    stream,
                    # With threads, errors would not tell the line.
                    read_options=csv.ReadOptions(
                        block_size=BLOCK_BYTES, use_threads=False, autogenerate_column_names=not self.terms.header
                    ),
                    parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    convert_options=csv.ConvertOptions(strings_can_be_null=True, **conversion),
                ),
                raw,
            )

    def malformed(self, what: object, row: int | None = None) -> MalformedFileError:
        """The error for a file that breaks the rules of its format, with the line as editors count it."""
        text = re.sub(r"(In CSV column #\d+: |CSV parse error: )?Row #(\d+): ", r"line \2: ", str(what))
        if "straddl" in text:
            text = f"a line is longer than {BLOCK_BYTES:,} bytes, or a quotation mark is not closed"
        return super().malformed(text, row)

    def arrow_schema(self) -> Any:
        """Names of the columns, and their types as far as the first block tells."""
        with self._opened() as (reader, _):
            return reader.schema

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Record batches of some columns; numbers are float64 whatever the first lines look like."""
        found = self.arrow_schema()
        types = {name: self._type(name, found.field(name).type) for name in columns}
        done = 0
        if self.file.size >= LARGE_BYTES:
            stream, raw = self.file.stream()
            try:
                with closing(raw), closing(stream):
                    for batch in plain_batches(stream, self._delimiter, self.terms.header, found.names, types):
                        done += batch.num_rows
                        yield from _cut(batch, rows, raw.tell() / self.file.size)
                    return
            except NotPlainError:
                pass
        yield from self._general(types, rows, done)

    def _general(self, types: dict[str, Any], rows: int, known: int) -> Iterator[tuple[Any, float]]:
        """The file behind the rows known already, with quotation marks and all."""
        first = 0
        with self._opened(include_columns=list(types), column_types=types) as (reader, raw):
            for batch in reader:
                self._check_breaks(batch, first)
                new = batch.slice(max(0, known - first))
                first += batch.num_rows
                yield from _cut(new, rows, raw.tell() / max(1, self.file.size))

    def _check_breaks(self, batch: Any, first: int) -> None:
        """A quotation mark that is not closed takes all lines behind it into one value."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_string(column.type) and name not in self.terms.keep:
                breaks = pc.match_substring(column, "\n")
                if breaks.true_count:
                    row = first + int(np.argmax(breaks.fill_null(False).to_numpy(zero_copy_only=False)))
                    raise self.malformed(
                        f"column {name!r}: a line break within a value. Is a quotation mark not closed?", row
                    )

    def _type(self, name: str, found: Any) -> Any:
        if name in self.terms.keep or pa.types.is_boolean(found):
            return found
        declared = self.terms.categories
        if name == self.terms.label:
            return pa.string() if pa.types.is_null(found) else found
        if pa.types.is_string(found) or (not isinstance(declared, str) and name in declared):
            return pa.string()
        return pa.float64()


def _cut(batch: Any, rows: int, share: float) -> Iterator[tuple[Any, float]]:
    for start, stop in spans(batch.num_rows, rows):
        yield batch.slice(start, stop - start), min(1.0, share)
