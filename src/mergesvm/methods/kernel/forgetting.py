"""Rows to forget, from rows in memory, from the rows of MPI ranks, from partitions of a cluster, or from their ids."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.engines.base import Engine
from mergesvm.methods.kernel.identity.wanted_rows import WantedRows
from mergesvm.methods.kernel.units import Collection, PartitionReader, own_values
from mergesvm.methods.kernel.worker.local_rows import LocalRows


def wanted_rows(rows: Batch | Collection, engine: Engine, key: bytes, *, once: bool) -> WantedRows:
    """The rows to forget; under MPI those of all ranks. Only keyed hashes of them leave the place where they are."""
    if isinstance(rows, Collection):
        parts = engine.map(_digests_of_partition, rows.partitions(engine), given=(rows.reader, key))
        return WantedRows(parts, lambda part, row: f"Partition {part}, row {row}", once=once)
    if engine.ranks.spmd:
        parts = engine.map(lambda _: _digests(rows, key), range(engine.workers))
        return WantedRows(parts, lambda rank, row: f"Rank {rank}, row {row}", once=once)
    return WantedRows([_digests(rows, key)], lambda _, row: f"Row {row}", once=once)


def wanted_ids(ids: NDArray[Any], engine: Engine) -> WantedRows:
    """The rows with these ids; under MPI with those of all ranks."""
    parts = own_values(ids, engine) if engine.ranks.spmd else [ids]
    return WantedRows(parts, lambda part, at: f"Row id {parts[part][at].item()!r}", once=True)


def _digests(batch: Batch, key: bytes) -> NDArray[Any]:
    return LocalRows.of(batch, 0).digests(key)


def _digests_of_partition(part: tuple[Any, ...], reader: PartitionReader, key: bytes) -> NDArray[Any]:
    return _digests(reader.read(part)[0], key)
