"""Text with separators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from mergesvm.data.readers.base import Layout, Reader, Slice
from mergesvm.data.readers.tabular import TableReader
from mergesvm.data.readers.text import TextReader
from mergesvm.data.rows.base import spans
from mergesvm.data.text_parser.lines import LineRange
from mergesvm.data.text_parser.reader import NotPlainError, plain_batches
from mergesvm.errors import CutError, MalformedFileError

BLOCK_BYTES = 2**22
"""Text is parsed so many bytes at a time; no line may be longer."""

TYPES_BYTES = 2**20
"""So much text tells the types of features; a block, where a line is longer."""

LARGE_BYTES = 2**23
"""From this size on the compiled parser pays for being loaded."""


class CSVReader(TableReader, TextReader):
    """CSV and TSV, plain or compressed, block by block. The first line names the columns, unless told otherwise."""

    suffixes = (".csv", ".tsv")
    compressions = (".gz", ".zst", ".bz2")

    _schema: Any = None  # found once for all parts
    _found: tuple[bytes, Any] = b"", None  # for a beginning with this digest

    @property
    def _delimiter(self) -> str:
        return "\t" if ".tsv" in self.file.path.rsplit("/", 1)[-1].lower() else ","

    def cut(self, size: int) -> list[Reader]:
        """Ranges of bytes; all parts know the columns, which only the beginning of the file tells."""
        parts = super().cut(size)
        if len(parts) > 1:
            with self.reading():
                schema = self.arrow_schema()
            for part in parts:
                assert isinstance(part, CSVReader)
                part._schema = schema
        return parts

    def body(self, start: bytes) -> int | None:
        """Behind the names; None if there are quotation marks, because line breaks may be within them."""
        end = start.index(b"\n") + 1 if self.terms.header else 0
        names = start[:end].rstrip(b"\r\n")
        strange = b"\r" in names or names.count(b'"') % 2 or (self.terms.header and not names)
        return None if strange or b'"' in start[end:] else end

    def check_text(self, text: bytes) -> None:
        """Raise an error if there is a quotation mark in a part."""
        if b'"' in text:
            raise CutError(
                f"{self.name}: there is a quotation mark, behind a beginning of the file without any. What is within "
                f"quotation marks may go on in another line, so that the file cannot be shared out between workers. "
                f"Convert it to Parquet, or split it into several files."
            )

    def _open(self, text: Any, names: list[str] | None = None, block: int | None = None, **conversion: Any) -> Any:
        """The general reader of text that begins with the names of its columns, if they are not given."""
        return csv.open_csv(
            text,
            # With threads, errors would not tell the line.
            read_options=csv.ReadOptions(
                block_size=block or BLOCK_BYTES,
                use_threads=False,
                column_names=names,
                autogenerate_column_names=names is None and not self.terms.header,
            ),
            parse_options=csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=names is None),
            convert_options=csv.ConvertOptions(strings_can_be_null=True, **conversion),
        )

    def malformed(self, what: object, row: int | None = None) -> MalformedFileError:
        """The error for a file that breaks the rules of its format, with the line as editors count it."""
        text = re.sub(r"(CSV parse error: )?Row #(\d+): ", r"line \2: ", str(what))
        text = re.sub(r"In CSV column #(\d+): (line \d+: )", lambda m: f"{m[2]}field {int(m[1]) + 1}: ", text)
        if "straddl" in text:
            text = f"a line is longer than {BLOCK_BYTES:,} bytes, or a quotation mark is not closed"
        return super().malformed(text, row)

    def arrow_schema(self) -> Any:
        """Names of the columns, and their types as far as the first block tells."""
        if self._schema is not None:
            return self._schema
        # It is asked for several times a scan, and the first block is all that it depends on.
        with self.text() as (text, _):
            digest = sha256(text.read(BLOCK_BYTES)).digest()
        if digest != self._found[0]:
            self._found = digest, self._look()
        return self._found[1]

    def _look(self) -> Any:
        """The types of columns by what comes first: of the label, and of what is kept, by a whole block."""
        small = min(TYPES_BYTES, BLOCK_BYTES)
        try:
            with self.text() as (text, _):
                schema = self._open(text, block=small).schema
        except pa.ArrowInvalid:
            small = BLOCK_BYTES  # a line may be longer; and if something else is wrong, it is so here, too
            with self.text() as (text, _):
                schema = self._open(text).schema
        telling = [name for name in dict.fromkeys((self.terms.label, *self.terms.keep)) if name in schema.names]
        if small < BLOCK_BYTES and telling and len(set(schema.names)) == len(schema.names):
            with self.text() as (text, _):
                for field in self._open(text, include_columns=telling).schema:
                    schema = schema.set(schema.get_field_index(field.name), field)
        return schema

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """The rows of the file, or of a part of it."""
        return self.named(super().slices(layout, rows))

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Record batches of some columns; numbers are float64 whatever the first lines look like."""
        found = self.arrow_schema()
        types = {name: self._type(name, found.field(name).type) for name in columns}
        done = 0
        if self.size >= LARGE_BYTES:
            header = self.terms.header and self.span is None
            try:
                with self.text() as (text, share):
                    for batch in plain_batches(text, self._delimiter, header, found.names, types):
                        done += batch.num_rows
                        yield from _cut(batch, rows, share())
                    return
            except NotPlainError:
                pass
        yield from self._general(found.names, types, rows, done)

    def _general(self, names: list[str], types: dict[str, Any], rows: int, known: int) -> Iterator[tuple[Any, float]]:
        """The text behind the rows known already, with quotation marks and all."""
        first = 0
        with self.text() as (text, share):
            if isinstance(text, LineRange) and text.empty:  # which the general reader takes for an error
                return
            given = None if self.span is None else names
            for batch in self._open(text, given, include_columns=list(types), column_types=types):
                self._check_breaks(batch, first)
                new = batch.slice(max(0, known - first))
                first += batch.num_rows
                yield from _cut(new, rows, share())

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
        yield batch.slice(start, stop - start), share
