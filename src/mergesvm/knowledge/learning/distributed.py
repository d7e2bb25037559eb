"""Learning on the workers of an engine: the work goes to the rows, and only knowledge is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mergesvm.data.batch import Batch
from mergesvm.data.cluster_table import TableColumns, record_batches, sendable_parts
from mergesvm.data.layout import Layout
from mergesvm.data.scan import Scan
from mergesvm.data.text_parser.label_kinds import KINDS
from mergesvm.engines.base import Engine, PartitionedRows
from mergesvm.errors import CutError, LabelKindError
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.local import Progress, learn_batch, learn_scan
from mergesvm.knowledge.learning.options import SumOptions, named_layout
from mergesvm.knowledge.learning.reduction import PartialResult, Reducer

MAX_PARTS_PER_WORKER = 4
"""Small parts limit the loss when a worker is slow or dies."""

MIN_PART_MATRICES = 64
"""Minimum size of a part, in Gram matrices: merging smaller parts would take as long as learning them."""


def learn_scan_distributed(
    scan: Scan, options: SumOptions, engine: Engine, progress: Progress | None = None
) -> PartialResult:
    """Learn from files, divided among the workers by size, or under MPI from the files that each rank has of its own.

    If a file turns out not to be divisible, start again with whole files; if labels written as text turn out to be of
    another kind than the first ones, start again with the kind that fits all of them.
    """
    if engine.ranks.own_files:
        _agree_on_labels(scan, engine, 1)
    try:
        return _learn_scan(scan, options, engine, progress)
    except LabelKindError:
        _agree_on_labels(scan, engine)
        return _learn_scan(scan, options, engine, progress)


def _agree_on_labels(scan: Scan, engine: Engine, blocks: int | None = None) -> None:
    """Choose the kind of labels on the root; if each rank has its own files, one that fits those of all ranks."""
    if not engine.ranks.own_files:
        engine.ranks.on_root(scan.settle_labels)
        return
    fitting = engine.map(lambda _: scan.fitting_label_kinds(blocks), range(engine.workers))
    scan.settle_labels(tuple(kind for kind in KINDS if all(kind in kinds for kinds in fitting)))


def _learn_scan(scan: Scan, options: SumOptions, engine: Engine, progress: Progress | None) -> PartialResult:
    ranks = engine.ranks
    if ranks.own_files:
        return _learn_parts(scan, [scan], options, engine, progress)
    matrix, workers = 8 * options.signature(scan.layout).width ** 2, engine.workers
    count = workers * max(1, min(MAX_PARTS_PER_WORKER, scan.size // (workers * MIN_PART_MATRICES * matrix)))
    try:
        return _learn_parts(scan, ranks.on_root(lambda: scan.parts(count)), options, engine, progress)
    except CutError:
        parts = ranks.on_root(lambda: scan.parts(count, whole=True))
        return _learn_parts(scan, parts, options, engine, progress)


def _learn_parts(
    scan: Scan, parts: list[Scan], options: SumOptions, engine: Engine, progress: Progress | None
) -> PartialResult:
    def report(done: int, total: int) -> None:
        scan.fraction = done / total
        if progress is not None:
            progress(scan)

    partial = engine.merge(
        _learn_part,
        parts,
        Reducer(options.features),
        given=(options,),
        names=[part.name for part in parts],
        done=report,
        own=engine.ranks.own_files,
    )
    if not engine.ranks.receives:
        return PartialResult(Knowledge.zero(options.signature(parts[0].layout)))
    assert partial is not None
    partial = partial.symmetric()
    # In the order of the files, whichever was read first.
    ordered = dict.fromkeys(reader.file.name for reader in scan.readers if reader.file.name in partial.counts)
    scan.counts, scan.dropped = {name: partial.counts[name] for name in ordered} | partial.counts, partial.dropped
    scan.rows, scan.fraction = sum(scan.counts.values()), 1.0
    return replace(partial, counts=scan.counts)


def _learn_part(scan: Scan, options: SumOptions) -> PartialResult:
    return learn_scan(scan, options, upper_only=True)


def learn_batch_distributed(batch: Batch, layout: Layout, options: SumOptions, engine: Engine) -> Knowledge:
    """Learn from rows in memory: under MPI those of all ranks, else divided among the workers."""
    spmd = engine.ranks.spmd
    batches = [batch] if spmd else list(batch.slices(engine.workers))
    where = f"rank {engine.ranks.rank}, " if spmd else ""
    names = [f"{where}rows from {part.rows.first} on" for part in batches]
    return _merged(_learn_rows, batches, (layout,), options, engine, names, layout)


def _learn_rows(batch: Batch, layout: Layout, options: SumOptions) -> PartialResult:
    batch.rows.names = layout.names
    return learn_batch(batch, layout, options, upper_only=True) if batch.rows.n_rows else PartialResult(None)


def learn_table_distributed(table: Any, columns: TableColumns, options: SumOptions, engine: Engine) -> Knowledge:
    """Learn from a table in memory: under MPI those of all ranks, else divided among the workers."""
    spmd = engine.ranks.spmd
    parts = [table] if spmd else sendable_parts(table, engine.workers)
    names = [f"rank {engine.ranks.rank}, the table"] if spmd else [f"part {index}" for index in range(len(parts))]
    return _merged(_learn_partition, parts, (columns,), options, engine, names, columns.layout)


def learn_partitions(rows: PartitionedRows, columns: TableColumns, options: SumOptions, engine: Engine) -> Knowledge:
    """Learn from a table whose partitions are on the workers."""
    return _merged(_learn_partition, rows.partitions(columns.needed), (columns,), options, engine)


def _learn_partition(content: Any, columns: TableColumns, options: SumOptions) -> PartialResult:
    scan = columns.scan(record_batches(content), "a partition of the table")
    return replace(learn_scan(scan, options, upper_only=True), counts={})


def learn_collection(
    rows: PartitionedRows, given: list[str], names: Sequence[str] | None, options: SumOptions, engine: Engine
) -> Knowledge:
    """Learn from collections side by side: rows, labels, and those named in ``given``."""
    return _merged(_learn_block, rows.partitions(), (given, names), options, engine)


def _learn_block(
    block: tuple[Any, ...], given: list[str], names: Sequence[str] | None, options: SumOptions
) -> PartialResult:
    if not any(len(each) for each in block):
        return PartialResult(None)
    beside = dict(zip(given, block[2:], strict=True))
    batch = options.fold(Batch.of(block[0], block[1], beside.get("sample_weight")), beside.get("groups"))
    return learn_batch(batch, named_layout(batch.rows, names), options, upper_only=True)


def _merged(
    function: Callable[..., PartialResult],
    parts: Sequence[Any],
    given: tuple[Any, ...],
    options: SumOptions,
    engine: Engine,
    names: list[str] | None = None,
    layout: Layout | None = None,
) -> Knowledge:
    """Learn the parts and merge them; on ranks that do not receive the result, return knowledge of no rows.

    A layout says that the rows are in memory: under MPI each rank has its own.
    """
    own = layout is not None and engine.ranks.spmd
    partial = engine.merge(function, parts, Reducer(options.features), given=(*given, options), names=names, own=own)
    if layout is not None and not engine.ranks.receives:
        return Knowledge.zero(options.signature(layout))
    return (partial or PartialResult(None)).symmetric().required()
