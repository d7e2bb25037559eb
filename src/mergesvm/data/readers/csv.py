"""Read CSV and TSV: plain text with the compiled parser, all else with pyarrow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout, category_key
from mergesvm.data.readers.base import Reader
from mergesvm.data.readers.tabular import TableReader
from mergesvm.data.readers.text import TextReader
from mergesvm.data.rows.base import spans
from mergesvm.data.slice import Slice
from mergesvm.data.text_parser.dictionary import LABEL_TYPE, codes_of, number_column
from mergesvm.data.text_parser.label_kinds import MISSING, as_kind
from mergesvm.data.text_parser.lines import LineRange
from mergesvm.data.text_parser.reader import NotPlainError, plain_batches
from mergesvm.errors import CutError, LabelKindError, MalformedFileError

BLOCK_BYTES = 2**22
"""Number of bytes that pyarrow parses at a time; no line may be longer."""

INFERENCE_BYTES = 2**20
"""The types of features are inferred from this much text, or from a block if a line is longer."""

MIN_BYTES_FOR_JIT = 2**23
"""In smaller files, loading the compiled parser takes longer than it saves."""

LABEL_TYPES = {"whole number": pa.int64(), "decimal": pa.float64(), "boolean": pa.bool_()}
"""The types of columns of labels by their kind; text is encoded as a dictionary."""


class CSVReader(TableReader, TextReader):
    """Reads CSV and TSV, plain or compressed, block by block.

    Labels, categories and kept columns are read as text, all other columns as numbers or booleans.
    """

    suffixes = (".csv", ".tsv")
    compressions = (".gz", ".zst", ".bz2")
    typed = False

    _schema: Any = None  # inferred once for all parts
    _vocabularies: Mapping[str, tuple[Label, ...]] | None = None  # those of the layout, once it is known
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
            convert_options=csv.ConvertOptions(null_values=list(MISSING), **conversion),
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
        """Infer the types of columns from the start of the file: numbers, booleans, or text, which dates are too."""
        try:
            with self.text() as (text, _):
                schema = self._open(text, block=min(INFERENCE_BYTES, BLOCK_BYTES)).schema
        except pa.ArrowInvalid:
            with self.text() as (text, _):
                schema = self._open(text).schema  # a line may be longer; any other error is raised here again
        return pa.schema([field.with_type(_inferred_type(field.type)) for field in schema])

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """Yield the rows of the file, or of a part of it."""
        self._vocabularies = dict(layout.categories)
        return self.named(super().slices(layout, rows))

    def label_texts(self) -> Iterator[set[str]]:
        """Yield the distinct labels as written, block by block."""
        label = self.options.label
        with self.reading():
            if label in self.file.partition or label not in self.arrow_schema().names:
                return
            for table, _ in self.tables([label], 1 << 16):
                yield set(_dictionary(table.column(0), MISSING).dictionary.to_pylist())

    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Yield record batches of some columns; numeric features are float64, whatever the inferred type."""
        found = self.arrow_schema()
        types = {name: self._type(name, found.field(name).type) for name in columns}
        done = 0
        if self.size >= MIN_BYTES_FOR_JIT:
            header, label = self.options.header and self.span is None, self.options.label
            plain = types | ({label: LABEL_TYPE} if label in types and label not in self.options.keep else {})
            try:
                with self.text() as (text, fraction):
                    for batch in plain_batches(text, self._delimiter, header, found.names, plain):
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
        """Return the type that a column is parsed as."""
        if name in self.options.keep and pa.types.is_binary(found):
            return found  # not UTF-8
        if name == self.options.label or name in self.options.keep or name in self._declared:
            return pa.string()
        return found

    @property
    def _declared(self) -> Mapping[str, tuple[Label, ...]]:
        """The categories whose values are known, and these values."""
        if self._vocabularies is not None:
            return self._vocabularies
        return {} if isinstance(self.options.categories, str) else self.options.categories

    def interpreted(self, table: Any, vocabularies: Mapping[str, tuple[Label, ...]], first: int) -> Any:
        """Return a record batch with typed labels, and with null for what stands for a missing value.

        In categories, a value of the vocabulary is not missing, however it is written.
        """
        for index, name in enumerate(table.schema.names):
            column = table.column(index)
            if name in self.file.partition:
                continue
            if name == self.options.label:
                column = self._typed_labels(column, first)
            elif pa.types.is_string(column.type):
                column = _dictionary(column, MISSING - {category_key(value) for value in vocabularies.get(name, ())})
                if name in self.options.keep and name not in vocabularies:  # copied as text, and used as numbers
                    column = _numbers(column.dictionary_decode(), self.arrow_schema().field(name).type)
            else:
                continue
            table = table.set_column(index, name, column)
        return table

    def _typed_labels(self, column: Any, first: int) -> Any:
        """Return labels as numbers, booleans or text; raise an error if they do not fit this type."""
        assert self.label_kind is not None
        encoded = _dictionary(column, MISSING)
        if self.label_kind == "text":
            return encoded
        values = []
        for text in encoded.dictionary.to_pylist():
            values.append(as_kind(text, self.label_kind))
            if values[-1] is None:
                raise LabelKindError(
                    f"{self.file.name}: row {first + column.to_pylist().index(text)} has the label {text!r}, while "
                    f"others are of type {self.label_kind}. Call scan.settle_labels() before reading the scan: it "
                    f"chooses the type of all labels."
                )
        if self.label_kind == "boolean" or encoded.null_count:
            return pa.array(values, LABEL_TYPES[self.label_kind]).take(encoded.indices)
        kind = LABEL_TYPES[self.label_kind].to_pandas_dtype()
        return number_column(np.array(values, dtype=kind)[codes_of(encoded)])


def _inferred_type(found: Any) -> Any:
    """Return the type of a feature column, given what pyarrow inferred."""
    if pa.types.is_boolean(found) or pa.types.is_binary(found):
        return found
    if pa.types.is_null(found) or pa.types.is_integer(found) or pa.types.is_floating(found):
        return pa.float64()
    return pa.string()


def _numbers(column: Any, kind: Any) -> Any:
    """Return text as numbers or booleans, or as it is if it is neither: whoever needs numbers names the row."""
    import pyarrow.compute as pc

    try:
        return pc.utf8_trim_whitespace(column).cast(kind)
    except pa.ArrowInvalid:
        return column


def _dictionary(column: Any, missing: Set[str]) -> Any:
    """Return text as a dictionary column, with null for the texts that stand for a missing value."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    if missing.isdisjoint(texts):
        return encoded
    words = [text for text in texts if text not in missing]
    places = {text: place for place, text in enumerate(words)}
    codes = pa.array([places.get(text) for text in texts], pa.int32()).take(encoded.indices)
    return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))


def _split_batch(batch: Any, rows: int, fraction: float) -> Iterator[tuple[Any, float]]:
    for start, stop in spans(batch.num_rows, rows):
        yield batch.slice(start, stop - start), fraction
