"""Read CSV and TSV: plain text with the compiled parser, all else with pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from mergesvm.data.layout import Layout
from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.tabular import TableReader
from mergesvm.data.readers.text import TextReader
from mergesvm.data.rows.base import spans
from mergesvm.data.slice import Slice
from mergesvm.data.text_parser.lines import LineRange
from mergesvm.data.text_parser.reader import NotPlainError, plain_batches
from mergesvm.errors import CutError, MalformedFileError

BLOCK_BYTES = 2**22
"""Number of bytes that pyarrow parses at a time; no line may be longer."""

INFERENCE_BYTES = 2**20
"""The types of features are inferred from this much text, or from a block if a line is longer."""

MIN_BYTES_FOR_JIT = 2**23
"""In smaller files, loading the compiled parser takes longer than it saves."""


class CSVReader(TableReader, TextReader):
    """Reads CSV and TSV, plain or compressed, block by block."""

    suffixes = (".csv", ".tsv")
    compressions = (".gz", ".zst", ".bz2")

    _schema: Any = None  # inferred once for all parts
    _inferred: tuple[bytes, Any] = b"", None  # the digest of the first block, and the schema inferred from it

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in self.file.path.rsplit("/", 1)[-1].lower() else ","

    def split(self, size: int) -> list[Reader]:
        """Split into byte ranges; all parts share the schema, which is inferred from the start of the file."""
        parts = super().split(size)
        if len(parts) > 1:
            with self.reading():
                schema = self.arrow_schema()
            for part in parts:
                assert isinstance(part, CSVReader)
                part._schema = schema
        return parts

    def body(self, start: bytes) -> int | None:
        """Return the end of the header; None if there are quotation marks, because they may enclose line breaks."""
        end = start.index(b"\n") + 1 if self.options.header else 0
        names = start[:end].rstrip(b"\r\n")
        unclear = b"\r" in names or names.count(b'"') % 2 or (self.options.header and not names)
        return None if unclear or b'"' in start[end:] else end

    def check_text(self, text: bytes) -> None:
        """Raise an error if there is a quotation mark in a part."""
        if b'"' in text:
            raise CutError(
                f"{self.name}: found a quotation mark, although the start of the file has none. Quoted values may "
                f"contain line breaks, so the file cannot be divided among workers. Convert it to Parquet, or split it "
                f"into several files."
            )

    def _open(self, text: Any, names: list[str] | None = None, block: int | None = None, **conversion: Any) -> Any:
        """Open pyarrow's reader; the text begins with a header if ``names`` are not given."""
        return csv.open_csv(
            text,
            # With threads, errors would not name the line.
            read_options=csv.ReadOptions(
                block_size=block or BLOCK_BYTES,
                use_threads=False,
                column_names=names,
                autogenerate_column_names=names is None and not self.options.header,
            ),
            parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=names is None),
            convert_options=csv.ConvertOptions(strings_can_be_null=True, **conversion),
        )

    def malformed(self, what: object, row: int | None = None) -> MalformedFileError:
        """Return the error for a file that violates its format, with line numbers as in an editor."""
        text = re.sub(r"(CSV parse error: )?Row #(\d+): ", r"line \2: ", str(what))
        text = re.sub(r"In CSV column #(\d+): (line \d+: )", lambda m: f"{m[2]}field {int(m[1]) + 1}: ", text)
        if "straddl" in text:
            text = f"a line is longer than {BLOCK_BYTES:,} bytes, or a quotation mark is not closed"
        return super().malformed(text, row)

    def arrow_schema(self) -> Any:
        """Return the column names, and the column types as inferred from the first block."""
        if self._schema is not None:
            return self._schema
        # Called several times per scan; the result depends on the first block alone.
        with self.text() as (text, _):
            digest = sha256(text.read(BLOCK_BYTES)).digest()
        if digest != self._inferred[0]:
            self._inferred = digest, self._infer_schema()
        return self._inferred[1]

    def _infer_schema(self) -> Any:
        """Infer the types of columns from the start of the file; of the label and kept columns from a whole block."""
        small = min(INFERENCE_BYTES, BLOCK_BYTES)
        try:
            with self.text() as (text, _):
                schema = self._open(text, block=small).schema
        except pa.ArrowInvalid:
            small = BLOCK_BYTES  # a line may be longer; any other error is raised here again
            with self.text() as (text, _):
                schema = self._open(text).schema
        exact = [name for name in dict.fromkeys((self.options.label, *self.options.keep)) if name in schema.names]
        if small < BLOCK_BYTES and exact and len(set(schema.names)) == len(schema.names):
            with self.text() as (text, _):
                for field in self._open(text, include_columns=exact).schema:
                    schema = schema.set(schema.get_field_index(field.name), field)
        return schema

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """Yield the rows of the file, or of a part of it."""
        return self.named(super().slices(layout, rows))

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Yield record batches of some columns; numeric features are float64, whatever the inferred type."""
        found = self.arrow_schema()
        types = {name: self._type(name, found.field(name).type) for name in columns}
        done = 0
        if self.size >= MIN_BYTES_FOR_JIT:
            header = self.options.header and self.span is None
            try:
                with self.text() as (text, fraction):
                    for batch in plain_batches(text, self._delimiter, header, found.names, types):
                        done += batch.num_rows
                        yield from _split_batch(batch, rows, fraction())
                    return
            except NotPlainError:
                pass
        yield from self._arrow_batches(found.names, types, rows, done)

    def _arrow_batches(
        self, names: list[str], types: dict[str, Any], rows: int, done: int
    ) -> Iterator[tuple[Any, float]]:
        """Yield record batches of pyarrow's reader, without the first rows that are ``done``."""
        first = 0
        with self.text() as (text, fraction):
            if isinstance(text, LineRange) and text.empty:  # an error for pyarrow
                return
            given = None if self.span is None else names
            for batch in self._open(text, given, include_columns=list(types), column_types=types):
                self._check_line_breaks(batch, first)
                new = batch.slice(max(0, done - first))
                first += batch.num_rows
                yield from _split_batch(new, rows, fraction())

    def _check_line_breaks(self, batch: Any, first: int) -> None:
        """Raise an error for line breaks in values: an unclosed quotation mark takes all later lines into one value."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_string(column.type) and name not in self.options.keep:
                import pyarrow.compute as pc

                breaks = pc.match_substring(column, "\n")
                if breaks.true_count:
                    row = first + int(np.argmax(breaks.fill_null(False).to_numpy(zero_copy_only=False)))
                    raise self.malformed(
                        f"column {name!r}: a line break within a value. A quotation mark may be unclosed", row
                    )

    def _type(self, name: str, found: Any) -> Any:
        if name in self.options.keep or pa.types.is_boolean(found):
            return found
        declared = self.options.categories
        if name == self.options.label:
            return pa.string() if pa.types.is_null(found) else found
        if pa.types.is_string(found) or (not isinstance(declared, str) and name in declared):
            return pa.string()
        return pa.float64()


def _split_batch(batch: Any, rows: int, fraction: float) -> Iterator[tuple[Any, float]]:
    for start, stop in spans(batch.num_rows, rows):
        yield batch.slice(start, stop - start), fraction
