"""Columns of a table that hold a list of numbers in every row: each place of the list is a feature."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from mergesvm.errors import DataError


def list_sizes(schema: Any) -> dict[str, int]:
    """The columns that hold fixed-size lists, and the length of the lists in each.

    >>> list_sizes(pa.schema([("size", pa.float64()), ("place", pa.list_(pa.float64(), 2))]))
    {'place': 2}
    """
    return {field.name: field.type.list_size for field in schema if pa.types.is_fixed_size_list(field.type)}


def place_names(name: str, size: int) -> list[str]:
    """How the places of a list are named.

    >>> place_names("place", 2)
    ['place[0]', 'place[1]']
    """
    return [f"{name}[{index}]" for index in range(size)]


def flat_names(names: Iterable[str], sizes: dict[str, int]) -> list[str]:
    """Names of columns, with those of its places for each list."""
    return [flat for name in names for flat in (place_names(name, sizes[name]) if name in sizes else [name])]


def flat_schema(schema: Any) -> Any:
    """A schema with one column for each place of a list."""
    fields = []
    for field in schema:
        if pa.types.is_fixed_size_list(field.type):
            places = place_names(field.name, field.type.list_size)
            fields += [pa.field(place, field.type.value_type) for place in places]
        else:
            fields.append(field)
    return pa.schema(fields)


def flat_batch(batch: Any, sizes: dict[str, int], source: str, first: int) -> Any:
    """A record batch with one column for each place of a list.

    >>> batch = pa.record_batch({"place": pa.array([[1.0, 2.0], [3.0, 4.0]])})
    >>> flat_batch(batch, {"place": 2}, "the table", 0).to_pydict()
    {'place[0]': [1.0, 3.0], 'place[1]': [2.0, 4.0]}
    """
    names: list[str] = []
    arrays: list[Any] = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in sizes:
            names += place_names(name, sizes[name])
            arrays += _places(column, sizes[name], name, source, first)
        else:
            names.append(name)
            arrays.append(column)
    return pa.record_batch(arrays, names)


def _places(column: Any, size: int, name: str, source: str, first: int) -> list[Any]:
    """The columns of a list; one that is missing has missing values in all places."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    other = present & (lengths != size)
    if other.any():
        row = int(np.argmax(other))
        raise DataError(
            f"{source}: row {first + row} has {int(lengths[row])} values in column {name!r}, but others have {size}."
        )
    values = column.flatten()
    if values.null_count:
        values = values.cast(pa.float64())
    rows = values.to_numpy(zero_copy_only=False).reshape(-1, size)
    if not present.all():
        whole = np.full((len(column), size), np.nan)
        whole[present] = rows
        rows = whole
    return [pa.array(place) for place in np.ascontiguousarray(rows.T)]
