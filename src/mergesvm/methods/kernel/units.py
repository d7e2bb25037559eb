"""Creation of units from rows in memory, from the rows of MPI ranks, or from partitions of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mergesvm.data.batch import Batch
from mergesvm.data.division import divided
from mergesvm.data.labels import label_kind
from mergesvm.data.loading import load
from mergesvm.data.rows.convert import copy_of_rows
from mergesvm.data.scan import Scan
from mergesvm.engines.base import Actors, Engine
from mergesvm.engines.threads import Threads
from mergesvm.errors import DataError, ParameterError
from mergesvm.features.maps.identity import Identity
from mergesvm.knowledge.signature import Signature
from mergesvm.methods.kernel.worker.gradient_unit import GradientUnit
from mergesvm.methods.kernel.worker.unit import Unit

COPIES_OF_ROWS = 2
"""Rows that are read from files are in memory this many times when a unit takes them over."""


@dataclass(frozen=True)
class Collection:
    """Rows, labels and optional weights as partitioned collections on the workers of an engine."""

    content: tuple[Any, ...]
    width: int  # number of features
    names: tuple[str, ...] | None  # of the features


def make_units(
    rows: Batch | Collection | Scan, method: str, n_units: int | None, engine: Engine
) -> tuple[Actors[Any], Signature]:
    """Create the units of a training run, and the signature of their rows.

    Rows in memory are divided evenly; under MPI each rank is a unit with its own rows. Each partition of a collection
    is a unit, on the worker that holds it. Files are divided among the workers, which read them.
    """
    kind = GradientUnit if method == "gradient" else Unit
    if isinstance(rows, Collection):
        return _units_of_partitions(rows, kind, n_units, engine)
    if isinstance(rows, Scan):
        return _units_of_files(rows, kind, n_units or engine.workers, engine)
    if engine.ranks.spmd:
        if n_units not in (None, engine.workers):
            raise ParameterError(
                f"units={n_units}, but under MPI each of the {engine.workers} ranks is one unit. Leave units out, or "
                f"start {n_units} ranks."
            )
        signature = common_signature(rows, engine)
        return engine.actors(lambda _: kind(rows), range(engine.workers)), signature
    count = n_units or (1 if isinstance(engine, Threads) else engine.workers)
    parts = list(rows.slices(count))
    parts += [Batch(copy_of_rows(rows.rows, 0, 0), rows.labels.part(0, 0), None)] * (count - len(parts))
    return engine.actors(kind, parts), _signature(rows)


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
    partitioned = engine.partitioned(rows.content)
    assert partitioned is not None
    parts = partitioned.partitions()
    if n_units not in (None, len(parts)):
        raise ParameterError(
            f"units={n_units}, but each of the {len(parts)} partitions of X is one unit. Leave units out, or "
            f"repartition X."
        )
    units = engine.actors(partial(_unit_of_partition, kind, rows.width, rows.names), parts)
    try:
        kinds = [label_kind(next(iter(counts))) if counts else None for counts in units.call("counts")]
        return units, _joined([Signature(Identity(), rows.width, rows.names, labels=kind) for kind in kinds])
    except BaseException:
        units.close()
        raise


def _units_of_files(scan: Scan, kind: type[Unit], n_units: int, engine: Engine) -> tuple[Actors[Any], Signature]:
    def build(parts: list[Scan]) -> Actors[Any]:
        parts += [scan.with_readers([])] * (n_units - len(parts))
        return engine.actors(_unit_of_part, parts, given=(kind,))

    units = divided(scan, engine, n_units, build)
    try:
        columns = scan.layout
        label_kinds: set[str | None] = {label_kind(label) for counts in units.call("counts") for label in counts}
        scan.rows, scan.dropped, scan.fraction = sum(units.call("size")), sum(units.call("n_dropped")), 1.0
        signature = Signature(Identity(), columns.width, columns.names, columns.categories)
        return units, _joined([replace(signature, labels=labels) for labels in label_kinds or {None}])
    except BaseException:
        units.close()
        raise


def _unit_of_part(part: Scan, kind: type[Unit]) -> Unit:
    return kind(load(part, copies=COPIES_OF_ROWS, empty=True), part.dropped)


def _unit_of_partition(kind: type[Unit], width: int, names: tuple[str, ...] | None, part: tuple[Any, ...]) -> Unit:
    batch = Batch.of(*part, empty=True)
    if batch.rows.width != width:
        raise DataError(f"A partition of X has {batch.rows.width} features, but X has {width}.")
    batch.rows.names = names
    return kind(batch)


def _signature(batch: Batch) -> Signature:
    columns = batch.rows.layout
    return Signature(Identity(), columns.width, columns.names, columns.categories, labels=batch.labels.kind)


def _joined(signatures: Sequence[Signature]) -> Signature:
    """The signature of the rows of all units."""
    joined = signatures[0]
    for signature in signatures[1:]:
        joined = joined.joined(signature)
    if joined.labels is None:
        raise DataError("Found no row with a positive weight at any unit.")
    return joined
