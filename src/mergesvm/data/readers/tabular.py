"""What all readers of tables have in common: columns by name, categories, labels, weights, and missing values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mergesvm.data.labels import Coded, Label
from mergesvm.data.readers.base import Layout, Reader, Slice
from mergesvm.data.schema import Schema, numbers
from mergesvm.errors import DataError, ParameterError

MOST_VALUES = 1000
"""A column of text with more values than this is not taken for a category without being declared."""


class TableReader(Reader):
    """A file that can be read as Arrow record batches."""

    @abstractmethod
    def arrow_schema(self) -> Any:
        """Names and types of the columns of the file."""

    @abstractmethod
    def tables(self, columns: list[str], rows: int) -> Iterator[tuple[Any, float]]:
        """Record batches of some columns, of at most so many rows, each with the share of the file read so far."""

    def layout(self, categories: Mapping[str, tuple[Label, ...]]) -> Layout:
        """The features of the file, with these categories among its columns."""
        fields = self._fields()
        columns = self._feature_columns(fields)
        for name in columns:
            kind = fields[name]
            if name not in categories and _is_category(kind) and not _is_number(kind):
                raise DataError(
                    f"{self.file.name}: column {name!r} is text ({self._examples(name)}). Declare its vocabulary with "
                    f"categories={{{name!r}: [...]}}, let it be found with categories='auto', or leave the column out "
                    f"by naming the others with features=[...]."
                )
            if not (_is_category(kind) or _is_number(kind) if name in categories else _is_number(kind)):
                raise DataError(
                    f"{self.file.name}: column {name!r} is of type {kind}, which is not a number. "
                    f"Leave it out by naming the others with features=[...]."
                )
        schema = Schema.of(columns, categories)
        return Layout(len(schema.names), schema.names, schema.categories)

    def vocabulary(self) -> dict[str, set[Label]]:
        """The values of columns that are to be categories but are not declared: Arrow's, and by choice all text."""
        fields, terms = self._fields(), self.terms
        columns = self._feature_columns(fields)
        if terms.categories == "auto":
            wanted = [name for name in columns if _is_text(fields[name]) or pa.types.is_dictionary(fields[name])]
        else:
            wanted = [name for name in columns if pa.types.is_dictionary(fields[name]) and name not in terms.categories]
        found: dict[str, set[Label]] = {name: set() for name in wanted if _is_category(fields[name])}
        wanted = list(found)
        within = [name for name in wanted if name not in self.file.partition]
        if within:
            with self.reading():
                for table, _ in self.tables(within, 1 << 16):
                    for name in within:
                        found[name] |= _values(table.column(name))
                        if len(found[name]) > MOST_VALUES:
                            raise DataError(
                                f"{self.file.name}: column {name!r} has more than {MOST_VALUES:,} different values. "
                                f"Declare its vocabulary if it is a category, or leave the column out."
                            )
        for name in set(wanted) - set(within):
            found[name].add(self.file.partition[name] or "")
        return found

    def slices(self, layout: Layout, rows: int) -> Iterator[Slice]:
        """The rows of the file, with their features encoded as the layout says."""
        assert layout.names is not None
        schema, terms = Schema(layout.names, layout.categories), self.terms
        used = [*schema.columns, *(name for name in (terms.label, terms.weight) if name is not None)]
        wanted = self.check_columns(layout)
        within = [name for name in wanted if name not in self.file.partition]
        first = self.first_row
        with self.reading():
            for table, share in self.tables(within, rows):
                yield self._slice(self._with_partition(table), schema, used, first, share)
                first += table.num_rows

    def check_columns(self, layout: Layout) -> list[str]:
        """The columns that are read; an error if one is not there."""
        columns = Schema(layout.names or (), layout.categories).columns
        apart = (name for name in (self.terms.label, self.terms.weight) if name is not None)
        wanted, fields = list(dict.fromkeys([*columns, *apart, *self.terms.keep])), self._fields()
        for name in wanted:
            self._check_column(name, fields)
        return wanted

    def _slice(self, table: Any, schema: Schema, used: list[str], first: int, share: float) -> Slice:
        terms, name, total, kept = self.terms, self.file.name, table.num_rows, None
        beside = table.select(list(terms.keep)) if terms.keep else None
        if terms.missing == "drop":
            whole = _complete(table, used)
            if not whole.all():
                kept, table = whole, table.filter(pa.array(whole))
        rows = schema.encode(table, terms.unknown, name, first)
        labels = None if terms.label is None else _labels(table.column(terms.label), terms.label, name, first)
        weights = None
        if terms.weight is not None:
            weights = numbers(table.column(terms.weight), terms.weight, name, first).astype(np.float64)
        return Slice(rows, labels, weights, total, share, kept, beside)

    def _fields(self) -> dict[str, Any]:
        """The types of all columns, those of the partition included."""
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
        terms = self.terms
        apart = {terms.label, terms.weight, *terms.keep}
        for name in (terms.label, terms.weight, *terms.keep, *(terms.features or ())):
            if name is not None:
                self._check_column(name, fields)
        columns = [name for name in fields if name not in apart] if terms.features is None else list(terms.features)
        if not columns:
            raise DataError(f"{self.file.name}: no columns are left to be features.")
        if terms.label in columns:
            raise ParameterError(f"The label {terms.label!r} cannot be a feature as well.")
        return columns

    def _check_column(self, name: Any, fields: dict[str, Any]) -> None:
        if name not in fields:
            known = ", ".join(repr(column) for column in list(fields)[:20]) + (", ..." if len(fields) > 20 else "")
            raise DataError(f"{self.file.name}: there is no column {name!r}. There are: {known}.")

    def _with_partition(self, table: Any) -> Any:
        for key, value in self.file.partition.items():
            if key not in table.schema.names:
                kind = pa.int64() if isinstance(value, int) else pa.string()
                table = table.append_column(key, pa.repeat(pa.scalar(value, kind), table.num_rows))
        return table

    def _examples(self, name: str) -> str:
        if name in self.file.partition:
            return repr(self.file.partition[name])
        with self.reading():
            tables = self.tables([name], 1000)
            values = next((_values(table.column(name)) for table, _ in tables), set())
            tables.close()  # type: ignore[attr-defined]
        return ", ".join(map(repr, sorted(values, key=str)[:5]))


def _is_text(kind: Any) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _is_number(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


def _values(column: Any) -> set[Label]:
    """The values of a column; of an Arrow dictionary all that it declares."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column.unique()
    plain = (value for value in values.to_pylist() if value is not None)
    return {int(value) if isinstance(value, float) and value.is_integer() else value for value in plain}


def _complete(table: Any, columns: list[str]) -> NDArray[np.bool_]:
    """Which rows have a value in all of these columns."""
    whole = np.ones(table.num_rows, dtype=bool)
    for name in columns:
        column = table.column(name)
        if column.null_count:
            whole &= column.is_valid().to_numpy(zero_copy_only=False)
        if pa.types.is_floating(column.type):
            whole &= ~column.is_nan().fill_null(False).to_numpy(zero_copy_only=False)
    return whole


def _labels(column: Any, name: str, source: str, first: int) -> Any:
    # The type first: pyarrow is not sure of what it does with odd dictionaries.
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (_is_number(kind) or _is_text(kind)) or (pa.types.is_null(kind) and kind != column.type):
        raise DataError(
            f"{source}: the label column {name!r} is of type {column.type}. Labels are text, whole numbers or booleans."
        )
    floating = pa.types.is_floating(column.type)
    # Whole numbers need not be looked at: they count what is missing.
    if column.null_count or floating or not pa.types.is_integer(column.type):
        missing = column.is_null(nan_is_null=floating)
    else:
        missing = None
    if missing is not None and len(column) and missing.true_count:
        row = first + int(np.argmax(missing.to_numpy(zero_copy_only=False)))
        raise DataError(
            f"{source}: row {row} has no label in column {name!r}. Give it one, or choose missing='drop' to leave such "
            f"rows out."
        )
    if _is_text(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        values = column.dictionary.to_pylist()
        codes = column.indices.cast(pa.int64()).to_numpy(zero_copy_only=False)
        empty = np.array([value is None for value in values], dtype=bool)
        if empty.any() and empty[codes].any():
            raise DataError(f"{source}: row {first + int(np.argmax(empty[codes]))} has no label in column {name!r}.")
        return Coded(codes, tuple("" if value is None else value for value in values))
    if pa.types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False)
    return numbers(column, name, source, first)


def _is_category(kind: Any) -> bool:
    """Whether values of this type, or in a dictionary of it, can be a category."""
    if pa.types.is_dictionary(kind):
        return _is_category(kind.value_type) or pa.types.is_floating(kind.value_type)
    return _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)
