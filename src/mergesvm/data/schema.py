"""Which columns of a table become which features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mergesvm.data.labels import Label
from mergesvm.data.rows.columns import ColumnRows
from mergesvm.errors import DataError, ParameterError

Categories = tuple[tuple[str, tuple[Label, ...]], ...]


@dataclass(frozen=True)
class Schema:
    """The features of a table, in order: a column of numbers is one feature, a category is one for each of its values.

    The vocabulary of a category is fixed here, so that pieces learned apart have the same features. A boolean is one
    feature of 0 and 1: two would say the same twice.

    >>> schema = Schema.of(["size", "colour"], {"colour": ["red", "blue"]})
    >>> schema.names
    ('size', 'colour=red', 'colour=blue')
    >>> schema.columns
    ('size', 'colour')

    Attributes
    ----------
    names : tuple of str
        Names of the features.
    categories : tuple of (column, values)
        The categories among the columns, and their vocabularies.
    """

    names: tuple[str, ...]
    categories: Categories = ()

    @classmethod
    def of(cls, columns: Iterable[str], categories: Mapping[str, Iterable[Label]]) -> Schema:
        """The features of these columns."""
        columns = list(columns)
        words = {name: _vocabulary(name, values) for name, values in categories.items()}
        strangers = [name for name in words if name not in columns]
        if strangers:
            raise ParameterError(f"There is no feature column {strangers[0]!r} to be a category among {columns!r}.")
        names: list[str] = []
        for column in columns:
            names += [f"{column}={value}" for value in words[column]] if column in words else [column]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ParameterError(f"Two features would have the name {twice!r}. Rename a column or a category.")
        return cls(tuple(names), tuple((column, words[column]) for column in columns if column in words))

    @cached_property
    def _indicators(self) -> dict[str, tuple[str, Label]]:
        return {f"{column}={value}": (column, value) for column, values in self.categories for value in values}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(dict.fromkeys(self._indicators.get(name, (name,))[0] for name in self.names))

    @property
    def category_columns(self) -> tuple[str, ...]:
        """The columns that are categories."""
        return tuple(column for column, _ in self.categories)

    def encode(self, table: Any, unknown: str, source: str, first: int) -> ColumnRows:
        """Features of a record batch; ``unknown`` says what a value outside of the vocabulary is: "error" or "zero"."""
        vocabularies = dict(self.categories)
        codes = {
            column: _codes(table.column(column), column, vocabularies[column], unknown, source, first)
            for column in self.columns
            if column in vocabularies
        }
        columns = []
        for name in self.names:
            if name in self._indicators:
                column, value = self._indicators[name]
                columns.append((codes[column] == vocabularies[column].index(value)).view(np.uint8))
            else:
                columns.append(numbers(table.column(name), name, source, first))
        rows = ColumnRows(columns, self.names)
        rows.source, rows.first = source, first
        return rows


def ordered_words(values: Iterable[Label]) -> tuple[Label, ...]:
    """Values found in a column in the order in which they become features.

    >>> ordered_words({10, 2})
    (2, 10)
    """
    return tuple(sorted(values, key=lambda value: (str(type(value)), value)))


def _vocabulary(column: str, values: Iterable[Label]) -> tuple[Label, ...]:
    words = tuple(values) if not isinstance(values, str) else ()
    if not words or len({_word(word) for word in words}) < len(words):
        raise ParameterError(f"The category {column!r} needs a list of different values, not {values!r}.")
    odd = [word for word in words if not isinstance(word, (str, int))]
    if odd:
        raise DataError(f"The values of category {column!r} have to be text or whole numbers, not {odd[0]!r}.")
    return words


def _codes(
    array: Any, column: str, vocabulary: tuple[Label, ...], unknown: str, source: str, first: int
) -> NDArray[np.int64]:
    """The place of each value in the vocabulary; -1 for one that is not in it."""
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    places = {_word(value): place for place, value in enumerate(vocabulary)}
    values = encoded.dictionary.to_pylist()
    known = [-1 if value is None else places.get(_word(value), -1) for value in values]
    table = np.array([*known, -1], dtype=np.int64)
    indices = encoded.indices.cast(pa.int64()).fill_null(len(values)).to_numpy(zero_copy_only=False)
    codes: NDArray[np.int64] = table[indices]
    if unknown == "error" and (codes < 0).any():
        row = int(np.argmax(codes < 0))
        value = array[row].as_py()
        what = "is missing" if value is None else f"holds {value!r}, which is not in its vocabulary"
        raise DataError(
            f"{source}: row {first + row}, category {column!r} {what}. "
            f"Declare the value, or choose unknown='zero' for an all-zero block."
        )
    return codes


def _word(value: Any) -> str:
    # 2.0 in one file and 2 in another are the same category.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _telling(values: list[Any], first: int) -> str:
    """The value that shows why a column is not numeric: one that is no number, where most of them are.

    >>> _telling([None, "6", "oops", "7"], 100)
    ", row 102 holds 'oops'"
    """
    held = [(row, value) for row, value in enumerate(values, first) if value is not None]
    row, value = next(((row, value) for row, value in held if not _reads_as_number(value)), (held or [(0, None)])[0])
    return f", row {row} holds {value!r}" if held else ""


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def numbers(array: Any, column: str, source: str, first: int) -> NDArray[Any]:
    """A column of an Arrow table as numbers; missing values become NaN. No copy is made where there are none."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        if not pa.types.is_null(kind):
            raise DataError(
                f"{source}: column {column!r} is not numeric but of type {kind}{_telling(array.to_pylist(), first)}."
            )
        array = array.cast(pa.float64())
    if array.null_count or pa.types.is_decimal(kind):
        array = array.cast(pa.float64(), safe=False)
    elif isinstance(array, pa.Array) and len(array):
        # Without asking Arrow, which lets go of Python's lock for each column, and waits for it when others work.
        dtype = np.dtype(array.type.to_pandas_dtype())
        plain = np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)
        plain.flags.writeable = False
        return plain
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values
