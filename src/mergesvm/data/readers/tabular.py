"""The base class of readers of tables: named columns, categories, labels, weights and missing values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mergesvm.data.labels import CategoricalLabels, Label
from mergesvm.data.layout import Layout
from mergesvm.data.readers.base import Reader
from mergesvm.data.rows.encoding import encode_features, numeric_column
from mergesvm.data.slice import Slice
from mergesvm.errors import DataError, ParameterError

MAX_FOUND_VALUES = 1000
"""A text column with more distinct values needs a declared vocabulary to be a category."""


MAX_TEXT_BYTES = 2**20
"""Longer texts are no labels and no categories, and converting them would take many times their size."""


class TableReader(Reader):
    """Reads a file as Arrow record batches."""

    @abstractmethod
    def arrow_schema(self) -> Any:
        """Return names and types of the columns."""

    @abstractmethod
    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Yield record batches of some columns, of at most ``rows`` rows, each with the fraction of the file read."""

    def interpreted(self, table: Any, vocabularies: Mapping[str, tuple[Label, ...]], first: int) -> Any:  # noqa: ARG002
        """Return a record batch whose columns have the types they are used as; ``first`` is its first row."""
        return table

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:
        """Return the features of the file, given the categories among its columns."""
        fields = self._fields()
        columns = self._feature_columns(fields)
        for name in columns:
            kind = fields[name]
            if name not in categories and _is_category(kind) and not _is_number(kind):
                raise DataError(
                    f"{self.file.name}: column {name!r} is text ({self._examples(name)}). Declare its vocabulary with "
                    f"categories={{{name!r}: [...]}}, find it with categories='auto', or exclude the column by naming "
                    f"the others (features= in scan, columns= in learn)."
                )
            if not (_is_category(kind) or _is_number(kind) if name in categories else _is_number(kind)):
                raise DataError(
                    f"{self.file.name}: column {name!r} is of type {kind}, which is not numeric. "
                    f"Exclude it by naming the other columns (features= in scan, columns= in learn)."
                )
        return Layout.of_columns(columns, categories)

    def feature_columns(self) -> list[str]:
        """Return the names of the columns that are features."""
        return self._feature_columns(self._fields())

    def vocabulary(self) -> dict[str, set[Label]]:
        """Return the values of undeclared categories: Arrow dictionaries, and all text if categories are "auto"."""
        fields, declared = self._fields(), self.options.categories
        columns = self._feature_columns(fields)
        if declared == "auto":
            wanted = [name for name in columns if _is_text(fields[name]) or pa.types.is_dictionary(fields[name])]
        else:
            wanted = [name for name in columns if pa.types.is_dictionary(fields[name]) and name not in declared]
        found: dict[str, set[Label]] = {name: set() for name in wanted if _is_category(fields[name])}
        wanted = list(found)
        within = [name for name in wanted if name not in self.file.partition]
        if within:
            with self.reading():
                for table, _ in self.tables(within, 1 << 16):
                    self._check_texts(table, within)
                    known = self.interpreted(table, {}, 0)
                    for name in within:
                        found[name] |= _values(known.column(name))
                        if len(found[name]) > MAX_FOUND_VALUES:
                            raise DataError(
                                f"{self.file.name}: column {name!r} has more than {MAX_FOUND_VALUES:,} distinct "
                                f"values. Declare its vocabulary if it is a category, or exclude the column."
                            )
        for name in set(wanted) - set(within):
            found[name].add(self.file.partition[name] or "")
        return found

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """Yield the rows of the file, with features encoded according to the layout."""
        special = (self.options.label, self.options.weight)
        used = list(dict.fromkeys([*layout.columns, *(name for name in special if name is not None)]))
        wanted = self.check_columns(layout)
        within = [name for name in wanted if name not in self.file.partition]
        first = self.first_row
        with self.reading():
            for table, fraction in self.tables(within, rows):
                self._check_texts(table, used)
                yield self._slice(self._with_partition(table), layout, used, first, fraction)
                first += table.num_rows

    def check_columns(self, layout: Layout) -> list[str]:
        """Return the columns to read; raise an error if one is missing."""
        special = (name for name in (self.options.label, self.options.weight) if name is not None)
        wanted, fields = list(dict.fromkeys([*layout.columns, *special, *self.options.keep])), self._fields()
        for name in wanted:
            self._check_column(name, fields)
        return wanted

    def _slice(self, table: Any, layout: Layout, used: list[str], first: int, fraction: float) -> Slice:
        options, name, total, kept = self.options, self.file.name, table.num_rows, None
        carried = table.select(list(options.keep)) if options.keep else None
        table = self.interpreted(table.select(used), dict(layout.categories), first)
        if options.missing == "drop":
            complete = _complete(table, used)
            if not complete.all():
                kept, table = complete, table.filter(pa.array(complete))
        rows = encode_features(table, layout, options.unknown, name, first)
        labels = None if options.label is None else _labels(table.column(options.label), options.label, name, first)
        weights = None
        if options.weight is not None:
            weights = numeric_column(table.column(options.weight), options.weight, name, first).astype(np.float64)
        return Slice(rows, labels, weights, total, fraction, kept, carried, self.typed)

    def _fields(self) -> dict[str, Any]:
        """Return the types of all columns, including those of the partition."""
        with self.reading():
            schema = self.arrow_schema()
            names, types = schema.names, schema.types
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"{self.file.name}: the column name {twice!r} occurs more than once.")
        fields = dict(zip(names, types, strict=True))
        for key, value in self.file.partition.items():
            fields[key] = pa.int64() if isinstance(value, int) else pa.string()
        return fields

    def _feature_columns(self, fields: dict[str, Any]) -> list[str]:
        options = self.options
        special = (options.label, options.weight, *options.keep)
        for name in (*special, *(options.features or ())):
            if name is not None:
                self._check_column(name, fields)
        columns = [name for name in fields if name not in special] if options.features is None else [*options.features]
        if not columns:
            raise DataError(f"{self.file.name}: no columns are left to be features.")
        if options.label in columns:
            raise ParameterError(f"The label {options.label!r} cannot be a feature as well.")
        return columns

    def _check_column(self, name: Any, fields: dict[str, Any]) -> None:
        if name not in fields:
            known = ", ".join(repr(column) for column in list(fields)[:20]) + (", ..." if len(fields) > 20 else "")
            raise DataError(f"{self.file.name}: there is no column {name!r}, only {known}.")

    def _with_partition(self, table: Any) -> Any:
        for key, value in self.file.partition.items():
            if key not in table.schema.names:
                kind = pa.int64() if isinstance(value, int) else pa.string()
                table = table.append_column(key, pa.repeat(pa.scalar(value, kind), table.num_rows))
        return table

    def _check_texts(self, table: Any, columns: list[str]) -> None:
        """Raise an error for a text that is too long to be a label or a category."""
        for name in columns:
            longest = _longest_text(table.column(name)) if name in table.schema.names else 0
            if longest > MAX_TEXT_BYTES:
                raise DataError(
                    f"{self.file.name}: column {name!r} holds a text of {longest:,} bytes; labels and categories have "
                    f"at most {MAX_TEXT_BYTES:,}. Exclude the column, or shorten its values."
                )

    def _examples(self, name: str) -> str:
        if name in self.file.partition:
            return repr(self.file.partition[name])
        with self.reading():
            tables = self.tables([name], 1000)
            first = next((table for table, _ in tables), None)
            if first is not None:
                self._check_texts(first, [name])
            values = set() if first is None else _values(first.column(name))
            tables.close()  # type: ignore[attr-defined]
        return ", ".join(map(repr, sorted(values, key=str)[:5]))


def _is_text(kind: Any) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _longest_text(column: Any) -> int:
    """Return the bytes of the longest text of a column, 0 if it has fewer than the limit or is not text."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    if not _is_text(values.type) or values.nbytes <= MAX_TEXT_BYTES:
        return 0
    import pyarrow.compute as pc

    return int(pc.max(pc.binary_length(values)).as_py() or 0)


def _is_number(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def _values(column: Any) -> set[Label]:
    """Return the distinct values of a column; all values of an Arrow dictionary, used or not."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column.unique()
    plain = (value for value in values.to_pylist() if value is not None)
    return {int(value) if isinstance(value, float) and value.is_integer() else value for value in plain}


def _complete(table: Any, columns: list[str]) -> NDArray[np.bool_]:
    """Return which rows have values in all of the columns."""
    complete = np.ones(table.num_rows, dtype=bool)
    for name in columns:
        column = table.column(name)
        if column.null_count:
            complete &= column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            complete &= ~column.is_nan().fill_null(False).to_numpy(zero_copy_only=False)
    return complete


def _labels(column: Any, name: str, source: str, first: int) -> Any:
    # Check the type first, because pyarrow may crash on unusual dictionaries.
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_number(kind) or _is_text(kind)) or (pa.types.is_null(kind) and kind != column.type):
        raise DataError(
            f"{source}: the label column {name!r} is of type {column.type}. Labels must be strings, integers or "
            f"booleans."
        )
    floating = pa.types.is_floating(column.type)
    # Integer columns know how many values are missing.
    if column.null_count or floating or not pa.types.is_integer(column.type):
        missing = column.is_null(nan_is_null=floating)
    else:
        missing = None
    if missing is not None and len(column) and missing.true_count:
        row = first + int(np.argmax(missing.to_numpy(zero_copy_only=False)))
        raise DataError(
            f"{source}: row {row} has no label in column {name!r}. Add the label, or set missing='drop' to drop such "
            f"rows."
        )
    if _is_text(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        values = column.dictionary.to_pylist()
        codes = column.indices.cast(pa.int64()).to_numpy(zero_copy_only=False)
        empty = np.array([value is None for value in values], dtype=bool)
        if empty.any() and empty[codes].any():
            raise DataError(f"{source}: row {first + int(np.argmax(empty[codes]))} has no label in column {name!r}.")
        return CategoricalLabels(codes, tuple("" if value is None else value for value in values))
    if pa.types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False)
    return numeric_column(column, name, source, first)


def _is_category(kind: Any) -> bool:
    """Return whether values of this type, or in a dictionary of it, can be a category."""
    if pa.types.is_dictionary(kind):
        return _is_category(kind.value_type) or pa.types.is_floating(kind.value_type)
    return _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
