"""The features of rows: their number, their names, and the one-hot encoded categories among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mergesvm.data.labels import Label
from mergesvm.errors import DataError, ParameterError

Categories = tuple[tuple[str, tuple[Label, ...]], ...]


@dataclass(frozen=True)
class Layout:
    """The features of rows, in order.

    A numeric column is one feature; a category is one indicator feature per value of its vocabulary. The vocabulary is
    part of the layout, so that pieces learned separately have the same features. A boolean column is one feature of
    0 and 1, because two indicators would be redundant.

    >>> layout = Layout.of_columns(["size", "colour"], {"colour": ["red", "blue"]})
    >>> layout.names
    ('size', 'colour=red', 'colour=blue')
    >>> layout.columns
    ('size', 'colour')

    Attributes
    ----------
    width : int
        Number of features.
    names : tuple of str or None
        Names of the features, if the columns have names.
    categories : tuple of (column, values)
        The categories among the columns, and their vocabularies.
    """

    width: int
    names: tuple[str, ...] | None = None
    categories: Categories = ()

    @classmethod
    def of_columns(cls, columns: Iterable[str], categories: Mapping[str, Iterable[Label]]) -> Layout:
        """Return the layout of named columns, some of which are categories."""
        columns = list(columns)
        vocabularies = {name: _vocabulary(name, values) for name, values in categories.items()}
        unknown = [name for name in vocabularies if name not in columns]
        if unknown:
            raise ParameterError(f"Category {unknown[0]!r} is not one of the feature columns {columns!r}.")
        names: list[str] = []
        for column in columns:
            names += [f"{column}={value}" for value in vocabularies[column]] if column in vocabularies else [column]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ParameterError(f"Two features would have the name {twice!r}. Rename a column or a category.")
        used = tuple((column, vocabularies[column]) for column in columns if column in vocabularies)
        return cls(len(names), tuple(names), used)

    @cached_property
    def indicators(self) -> dict[str, tuple[str, Label]]:
        """The column and the value of each indicator feature, by name."""
        return {f"{column}={value}": (column, value) for column, values in self.categories for value in values}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have; empty if the features have no names."""
        return tuple(dict.fromkeys(self.indicators.get(name, (name,))[0] for name in self.names or ()))


def sorted_vocabulary(values: Iterable[Label]) -> tuple[Label, ...]:
    """Sort the values found in a column, to be the vocabulary of a category.

    >>> sorted_vocabulary({10, 2})
    (2, 10)
    """
    return tuple(sorted(values, key=lambda value: (str(type(value)), value)))


def category_key(value: object) -> str:
    """Return the text by which values of a category are compared: 2.0 in one file equals 2 in another."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _vocabulary(column: str, values: Iterable[Label]) -> tuple[Label, ...]:
    vocabulary = tuple(values) if not isinstance(values, str) else ()
    if not vocabulary or len({category_key(value) for value in vocabulary}) < len(vocabulary):
        raise ParameterError(f"Category {column!r} needs a list of distinct values, not {values!r}.")
    invalid = [value for value in vocabulary if not isinstance(value, (str, int))]
    if invalid:
        raise DataError(f"Values of category {column!r} must be strings or integers, not {invalid[0]!r}.")
    return vocabulary
