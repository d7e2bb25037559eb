"""Learning from one batch after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np

from mergesvm.data.batch import Batch
from mergesvm.data.layout import Layout
from mergesvm.data.scan import Scan
from mergesvm.data.slice import Slice
from mergesvm.features.mapped import MappedRows
from mergesvm.knowledge.algebra import merge_stream
from mergesvm.knowledge.anchor import as_anchor, choose_anchor
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.accumulator import Accumulator, check_memory
from mergesvm.knowledge.learning.options import SumOptions, weighted
from mergesvm.knowledge.learning.partial_result import PartialResult

Progress = Callable[[Scan], None]


def learn_batch(batch: Batch, layout: Layout, terms: SumOptions) -> Knowledge:
    """Knowledge of one batch."""
    known = merge_stream(_pieces([(batch, 1.0)], layout, terms, halved=False))
    assert known is not None
    return known


def harvest_batch(batch: Batch, layout: Layout, terms: SumOptions) -> PartialResult:
    """What one batch gives, with halved matrices: it is to be joined with others."""
    return PartialResult(merge_stream(_pieces([(batch, 1.0)], layout, terms, halved=True)), halved=True)


def learn_scan(
    scan: Scan, terms: SumOptions, progress: Progress | None = None, *, halved: bool = False
) -> PartialResult:
    """What all slices of a scan give; with halved matrices, if it is to be joined with others."""

    def batches() -> Iterator[tuple[Batch, float]]:
        with closing(iter(scan)) as slices:  # type: ignore[type-var]
            for part in slices:
                if part.rows.n_rows:
                    yield _folded(part, terms), _foresight(part, scan)
                if progress is not None:
                    progress(scan)

    check_memory(1, terms.signature(scan.layout))
    known = merge_stream(_pieces(batches(), scan.layout, terms, halved))
    return PartialResult(known, dict(scan.counts), scan.dropped, halved)


def _folded(part: Slice, terms: SumOptions) -> Batch:
    """A slice as a batch, by classes and folds, where there are folds."""
    groups = None if terms.folding is None else terms.folding.groups_of(part)
    batch = part.batch()
    with part.rows.naming_errors():
        return terms.fold(batch, groups)


def _foresight(part: Slice, scan: Scan) -> float:
    """How much more there is to come, which decides whether compiling the kernels pays."""
    return 1.0 if scan.fraction == 0 or scan.rows > part.rows.n_rows else 1 / scan.fraction


def _pieces(
    batches: Iterable[tuple[Batch, float]], layout: Layout, terms: SumOptions, halved: bool
) -> Iterator[Knowledge]:
    """Knowledge of all batches that can be summed about one anchor, and of the next ones about another."""
    ledger = None
    for batch, foresight in batches:
        with batch.rows.naming_errors():
            if terms.class_weights:
                batch = weighted(batch, terms.class_weights)
            signature = terms.signature(layout, batch.labels.kind)
            check_memory(len(batch.labels.classes), signature)
            if signature.mapped:
                terms.features.check_rows(batch.rows, layout.names)
            preferred = terms.anchor if ledger is None else ledger.anchor
            if preferred is None and signature.mapped:
                preferred = terms.features.default_anchor
            point = choose_anchor(
                replace(batch, rows=MappedRows(batch.rows, terms.features)) if signature.mapped else batch,
                None if preferred is None else as_anchor(preferred, signature.width),
            )
            if signature.mapped and terms.precision == "float32":
                point = point.astype(np.float32).astype(np.float64)  # so that what is subtracted is what is recorded
            if ledger is None or (point != ledger.anchor).any():
                if ledger is not None:
                    yield ledger.knowledge(halved=halved)
                ledger = Accumulator(signature, point, terms.engine, terms.precision)
            ledger.add(batch, signature, foresight)
    if ledger is not None:
        yield ledger.knowledge(halved=halved)
