"""Learning spread over the workers of an engine: the work goes to the rows, and only knowledge travels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mergesvm.data.batch import Batch
from mergesvm.data.cluster_table import ClusterTable, Columns, record_batches
from mergesvm.data.layout import Layout
from mergesvm.data.scan import Scan
from mergesvm.engines.base import Engine
from mergesvm.errors import CutError, DataError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.local import Progress, harvest_batch, learn_scan
from mergesvm.knowledge.learning.options import SumOptions, names_of
from mergesvm.knowledge.learning.partial_result import PartialResult
from mergesvm.knowledge.learning.reduction import Reducer

MOST_PARTS = 4
"""A worker gets at most so many parts: the smaller they are, the less is lost where one is slow or dies."""

WORTHWHILE = 64
"""A part is at least so many times as large as one of its matrices, or joining would take as long as learning."""


def spread_scan(scan: Scan, terms: SumOptions, engine: Engine, progress: Progress | None = None) -> PartialResult:
    """Knowledge of files, dealt out to the workers by size; or, under MPI with files of its own, of each rank's.

    If a file turns out not to be one that can be cut, all is begun again with whole files.
    """
    if engine.local:
        return _spread_parts(scan, [scan], terms, engine, progress)
    parts = engine.once(lambda: scan.parts(_part_count(scan, terms, engine)))
    try:
        return _spread_parts(scan, parts, terms, engine, progress)
    except CutError:
        parts = engine.once(lambda: scan.parts(_part_count(scan, terms, engine), whole=True))
        return _spread_parts(scan, parts, terms, engine, progress)


def _spread_parts(
    scan: Scan, parts: list[Scan], terms: SumOptions, engine: Engine, progress: Progress | None
) -> PartialResult:
    own = engine.local

    def tell(done: int, total: int) -> None:
        scan.fraction = done / total
        if progress is not None:
            progress(scan)

    names = [part.name for part in parts]
    join = Reducer(terms.features)
    harvest = engine.merge(_learn_part, parts, join, given=(terms,), names=names, done=tell, own=own)
    if not engine.receives:
        return PartialResult(Knowledge.zero(terms.signature(parts[0].layout)))
    assert harvest is not None
    harvest = harvest.whole()
    # In the order of the files, whoever has read them first.
    ordered = dict.fromkeys(reader.file.name for reader in scan.readers if reader.file.name in harvest.counts)
    scan.counts, scan.dropped = {name: harvest.counts[name] for name in ordered} | harvest.counts, harvest.dropped
    scan.rows, scan.fraction = sum(scan.counts.values()), 1.0
    return replace(harvest, counts=scan.counts)


def _part_count(scan: Scan, terms: SumOptions, engine: Engine) -> int:
    matrix, workers = 8 * terms.signature(scan.layout).width ** 2, engine.workers
    return workers * max(1, min(MOST_PARTS, scan.size // (workers * WORTHWHILE * matrix)))


def _learn_part(scan: Scan, terms: SumOptions) -> PartialResult:
    return learn_scan(scan, terms, halved=True)


def spread_batch(batch: Batch, layout: Layout, terms: SumOptions, engine: Engine) -> Knowledge:
    """Knowledge of rows in memory: under MPI those of every rank together, else dealt out to the workers."""
    if engine.collective:
        batches: Sequence[Batch] = [batch]
    else:
        batches = list(batch.slices(engine.workers))
    whose = f"rank {engine.rank}, " if engine.collective else ""
    names = [f"{whose}rows from {part.rows.first} on" for part in batches]
    join, own = Reducer(terms.features), engine.collective
    harvest = engine.merge(_learn_rows, batches, join, given=(layout, terms), names=names, own=own)
    if not engine.receives:
        return Knowledge.zero(terms.signature(layout))
    return _known(harvest)


def _learn_rows(batch: Batch, layout: Layout, terms: SumOptions) -> PartialResult:
    batch.rows.names = layout.names
    return harvest_batch(batch, layout, terms) if batch.rows.n_rows else PartialResult(None)


def spread_collection(
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    names: Sequence[str] | None,
    terms: SumOptions,
    engine: Engine,
) -> Knowledge:
    """Knowledge of collections whose partitions lie at the workers: rows, labels, weights and groups side by side."""
    if y is None:
        raise DataError("Labels are missing: give y, or the name of their column with label=.")
    beside = {"sample_weight": sample_weight, "groups": groups}
    given = [name for name, value in beside.items() if value is not None]
    parts = engine.partitions((X, y, *(beside[name] for name in given)))
    return _known(engine.merge(_learn_block, parts, Reducer(terms.features), given=(given, names, terms)))


def _learn_block(
    block: tuple[Any, ...], given: list[str], names: Sequence[str] | None, terms: SumOptions
) -> PartialResult:
    if not any(len(each) for each in block):
        return PartialResult(None)
    beside = dict(zip(given, block[2:], strict=True))
    batch = terms.fold(Batch.of(block[0], block[1], beside.get("sample_weight")), beside.get("groups"))
    layout = Layout(batch.rows.width, names_of(batch.rows.names, names, batch.rows.width))
    batch.rows.names = layout.names
    return harvest_batch(batch, layout, terms)


def spread_frame(frame: ClusterTable, terms: SumOptions, engine: Engine) -> Knowledge:
    """Knowledge of a table whose partitions lie at the workers."""
    needed = engine.narrowed(frame.table, frame.columns.needed)
    parts, given = engine.partitions(needed), (frame.columns, terms)
    return _known(engine.merge(_learn_partition, parts, Reducer(terms.features), given=given))


def _learn_partition(content: Any, columns: Columns, terms: SumOptions) -> PartialResult:
    scan = columns.scan(record_batches(content), "a partition of the table")
    return replace(learn_scan(scan, terms, halved=True), counts={})


def _known(harvest: PartialResult | None) -> Knowledge:
    harvest = (harvest or PartialResult(None)).whole()
    if harvest.knowledge is None:
        raise harvest.nothing()
    return harvest.knowledge
