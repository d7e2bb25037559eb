"""Dask collections: their partitions, and the schema of a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mergesvm.engines.base import PartitionedRows
from mergesvm.errors import ParameterError


def is_collection(rows: Any) -> bool:
    """Whether rows are a Dask Array, DataFrame or Series.

    >>> import dask.array
    >>> is_collection(dask.array.zeros(3)), is_collection([1, 2])
    (True, False)
    """
    kind = type(rows).__module__.split(".")
    return kind[0] in ("dask", "dask_expr") and hasattr(rows, "to_delayed") and hasattr(rows, "__dask_graph__")


class DaskRows(PartitionedRows):
    """A Dask collection, or a tuple of collections side by side; ``client`` returns the client of the cluster."""

    def __init__(self, rows: Any, client: Callable[[], Any]) -> None:
        self._rows, self._client = rows, client

    def partitions(self, columns: Sequence[str] | None = None) -> list[Any]:
        """The partitions as delayed objects; those of a tuple side by side. Other columns are not read."""
        rows = self._rows
        if columns is not None:
            by_name = {str(column): column for column in rows.columns}
            rows = rows[[by_name[column] for column in columns]]
        return as_delayed(rows)

    def schema(self) -> Any:
        """The Arrow schema of a DataFrame; the metadata of a categorical column has its known categories.

        The type of an object column is taken from the first partition; it is text if that has no values.
        """
        import pyarrow as pa

        table = self._rows
        if not (is_collection(table) and hasattr(table, "columns")):
            raise ParameterError(f"label= needs a Dask DataFrame, not a {type(table).__name__}.")
        meta = table._meta_nonempty
        unclear = [name for name in meta.columns if str(meta[name].dtype) == "object"]
        schema = pa.Schema.from_pandas(meta.astype(dict.fromkeys(unclear, "str")), preserve_index=False)
        if unclear:
            from dask.delayed import delayed

            first = delayed(_types)(table[unclear].to_delayed()[0])
            found = self._client().compute(first).result()
            for name in unclear:
                kind = pa.string() if pa.types.is_null(found[name]) else found[name]
                schema = schema.set(schema.get_field_index(name), pa.field(name, kind))
        for name in meta.columns:
            if str(meta[name].dtype) == "category" and table[name].cat.known:
                index, values = schema.get_field_index(name), meta[name].cat.categories.tolist()
                if all(isinstance(value, (str, int, float)) for value in values):  # JSON has no others
                    declared = {"vocabulary": json.dumps(values)}
                    schema = schema.set(index, schema.field(index).with_metadata(declared))
        return schema


def as_delayed(rows: Any) -> list[Any]:
    """Return the partitions of a collection, or of several side by side, as delayed objects.

    >>> import dask.array
    >>> X, y = dask.array.zeros((10, 2), chunks=(4, 1)), dask.array.zeros(10, chunks=5)
    >>> [tuple(part.shape for part in block.compute(scheduler="sync")) for block in as_delayed((X, y))]
    [((4, 2), (4,)), ((4, 2), (4,)), ((2, 2), (2,))]
    """
    if not isinstance(rows, tuple):
        return _blocks(_whole_rows(rows))
    from dask.delayed import delayed

    together = _aligned([_whole_rows(each) for each in rows])
    side_by_side = zip(*(_blocks(each) for each in together), strict=True)
    return [delayed(tuple)(list(blocks)) for blocks in side_by_side]


def _blocks(collection: Any) -> list[Any]:
    return list(np.ravel(np.array(collection.to_delayed(), dtype=object)))


def _whole_rows(collection: Any) -> Any:
    """Rechunk an array so that each block has all columns."""
    import dask.array

    if not is_collection(collection):
        collection = dask.array.from_array(np.asarray(collection))
    if not isinstance(collection, dask.array.Array):
        return collection
    if collection.ndim not in (1, 2):
        raise ParameterError(f"Arrays must have 1 or 2 dimensions, not {collection.ndim}.")
    return collection.rechunk({1: -1}) if collection.ndim == 2 and collection.numblocks[1] > 1 else collection


def _aligned(collections: list[Any]) -> list[Any]:
    """Rechunk the collections to the blocks of the first."""
    import dask.array

    first, sizes = collections[0], _sizes(collections[0])
    aligned = [first]
    for other in collections[1:]:
        theirs = _sizes(other)
        if None in sizes or None in theirs:
            if len(sizes) != len(theirs):
                raise ParameterError(
                    f"X has {len(sizes)} blocks, but {len(theirs)} blocks of labels or weights, and their sizes are "
                    f"unknown. Compute them first: X.compute_chunk_sizes(), or frame.to_dask_array(lengths=True)."
                )
        elif sum(size or 0 for size in sizes) != sum(size or 0 for size in theirs):
            raise ParameterError(
                f"X has {sum(size or 0 for size in sizes):,} rows, but {sum(size or 0 for size in theirs):,} labels or "
                f"weights were given."
            )
        elif sizes != theirs:
            assert isinstance(other, dask.array.Array)
            other = other.rechunk({0: sizes})
        aligned.append(other)
    return aligned


def _sizes(collection: Any) -> tuple[int | None, ...]:
    """The number of rows of each block; None if unknown, as for all DataFrames."""
    import dask.array

    if not isinstance(collection, dask.array.Array):
        return (None,) * int(collection.npartitions)
    return tuple(None if np.isnan(size) else int(size) for size in collection.chunks[0])


def _types(frame: Any) -> dict[str, Any]:
    import pyarrow as pa

    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    return dict(zip(schema.names, schema.types, strict=True))
