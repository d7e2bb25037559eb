"""Creation of units from rows in memory, from the rows of MPI ranks, or from partitions of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.batch import Batch
from mergesvm.data.labels import label_kind
from mergesvm.data.rows.convert import copy_of_rows
from mergesvm.engines.base import Actors, Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, ParameterError
from mergesvm.features.maps.identity import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.kernel.identity.row_ids import as_row_ids
from mergesvm.methods.kernel.worker.gradient_unit import GradientUnit
from mergesvm.methods.kernel.worker.unit import Unit

RowIds = NDArray[Any] | str | None
"""Ids of rows in memory, or "hash" for a keyed hash of each row; None if equal rows count as often as they occur."""

USES = {None: "no row_ids", False: "one id per row in row_ids", True: 'row_ids="hash"'}
"""How a call has identified rows, as errors say it."""


@dataclass(frozen=True)
class Collection:
    """Rows, labels, and optionally weights and ids, as partitioned collections on the workers of an engine."""

    X: Any
    y: Any
    weights: Any
    ids: Any
    width: int  # number of features
    names: tuple[str, ...] | None  # of the features

    def partitions(self, engine: Engine) -> Sequence[Any]:
        """The partitions as tasks, whose content :meth:`batch` takes."""
        content = engine.partitioned(
            tuple(each for each in (self.X, self.y, self.weights, self.ids) if each is not None)
        )
        assert content is not None
        return content.partitions()

    @property
    def reader(self) -> PartitionReader:
        """Turns the content of a partition into rows."""
        return PartitionReader(self.weights is not None, self.ids is not None, self.width, self.names)


@dataclass(frozen=True)
class PartitionReader:
    """Turns the content of a partition into rows; it is sent to the workers."""

    has_weights: bool
    has_ids: bool
    width: int
    names: tuple[str, ...] | None

    def read(self, part: tuple[Any, ...]) -> tuple[Batch, NDArray[Any] | None]:
        """The rows of a partition, and their ids."""
        X, y, *others = part
        batch = Batch.of(X, y, others[0] if self.has_weights else None, empty=True)
        if batch.rows.width != self.width:
            raise DataError(f"A partition of X has {batch.rows.width} features, but X has {self.width}.")
        batch.rows.names = self.names
        return batch, as_row_ids(others[-1], batch.rows.n_rows) if self.has_ids else None


def make_units(
    rows: Batch | Collection, ids: NDArray[Any] | None, method: str, n_units: int | None, engine: Engine
) -> tuple[Actors[Any], Signature]:
    """Create the units of a training run, and the signature of their rows.

    Rows in memory, with their ids if there are any, are divided evenly; under MPI each rank is a unit with its own
    rows. Each partition of a collection is a unit, on the worker that holds it.
    """
    kind = GradientUnit if method == "gradient" else Unit
    if isinstance(rows, Collection):
        return _units_of_partitions(rows, kind, n_units, engine)
    if engine.ranks.spmd:
        if n_units not in (None, engine.workers):
            raise ParameterError(
                f"units={n_units}, but under MPI each of the {engine.workers} ranks is one unit. Leave units out, or "
                f"start {n_units} ranks."
            )
        signature = common_signature(rows, engine)
        return engine.actors(lambda _: kind(rows, ids), range(engine.workers)), signature
    count = n_units or (1 if isinstance(engine, Threads) else engine.workers)
    parts = list(rows.slices(count))
    parts += [Batch(copy_of_rows(rows.rows, 0, 0), rows.labels.part(0, 0), None)] * (count - len(parts))
    tasks = list(zip(parts, parts_of(ids, parts), strict=True))
    return engine.actors(partial(_unit, kind), tasks), _signature(rows)


def parts_of(ids: NDArray[Any] | None, parts: Sequence[Batch]) -> list[NDArray[Any] | None]:
    """The ids of the rows of each part."""
    ends = np.cumsum([part.rows.n_rows for part in parts])
    return [None] * len(parts) if ids is None else [*np.split(ids, ends[:-1])]


def row_ids_are_hashes(rows: Batch | Collection, row_ids: RowIds, engine: Engine) -> bool | None:
    """Whether rows are identified by hashes of them, instead of given ids; None if they are not identified."""
    if isinstance(rows, Collection) and rows.ids is not None:
        return False
    use = None if row_ids is None else isinstance(row_ids, str)
    if engine.ranks.spmd:
        uses = own_values(use, engine)
        if len(set(uses)) > 1:
            other = next(rank for rank, each in enumerate(uses) if each != uses[0])
            raise ParameterError(
                f"Rank 0 gave {USES[uses[0]]}, rank {other} {USES[uses[other]]}. Give row_ids in the same way on all "
                f"ranks."
            )
    return use


def check_same_use(use: bool | None, before: bool | None) -> None:
    """Raise an error if later rows are not identified as those of the first fit were."""
    if use != before:
        raise ParameterError(
            f"fit was given {USES[before]}, partial_fit {USES[use]}. Identify all rows in the same way."
        )


def common_signature(batch: Batch, engine: Engine) -> Signature:
    """The signature of the rows of this process; under MPI of those of all ranks."""
    signature = _signature(batch)
    return _joined(own_values(signature, engine)) if engine.ranks.spmd else signature


def own_values(value: Any, engine: Engine) -> list[Any]:
    """The values of all ranks, under MPI."""
    return engine.map(lambda _: value, range(engine.workers))


def _units_of_partitions(
    rows: Collection, kind: type[Unit], n_units: int | None, engine: Engine
) -> tuple[Actors[Any], Signature]:
    parts = rows.partitions(engine)
    if n_units not in (None, len(parts)):
        raise ParameterError(
            f"units={n_units}, but each of the {len(parts)} partitions of X is one unit. Leave units out, or "
            f"repartition X."
        )
    units = engine.actors(partial(_unit_of_partition, kind, rows.reader), parts)
    try:
        kinds = [label_kind(next(iter(counts))) if counts else None for counts in units.call("counts")]
        return units, _joined([Signature(Identity(), rows.width, rows.names, labels=kind) for kind in kinds])
    except BaseException:
        units.close()
        raise


def _unit_of_partition(kind: type[Unit], reader: PartitionReader, part: tuple[Any, ...]) -> Unit:
    return kind(*reader.read(part))


def _unit(kind: type[Unit], rows: tuple[Batch, NDArray[Any] | None]) -> Unit:
    return kind(*rows)


def _signature(batch: Batch) -> Signature:
    return Signature(Identity(), batch.rows.width, batch.rows.names, labels=batch.labels.kind)


def _joined(signatures: Sequence[Signature]) -> Signature:
    """The signature of the rows of all units."""
    joined = signatures[0]
    for signature in signatures[1:]:
        joined = joined.joined(signature)
    if joined.labels is None:
        raise DataError("Found no row with a positive weight at any unit.")
    return joined
