"""Learning in this process, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np

from mergesvm.data.batch import Batch
from mergesvm.data.layout import Layout
from mergesvm.data.scan import Scan
from mergesvm.features.mapped import MappedRows
from mergesvm.knowledge.algebra import added, merge_stream
from mergesvm.knowledge.anchor import as_anchor, choose_anchor
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.learning.accumulator import Accumulator, check_sums_fit
from mergesvm.knowledge.learning.options import SumOptions, weighted
from mergesvm.knowledge.learning.reduction import PartialResult

Progress = Callable[[Scan], None]
"""Called with the scan after each slice."""


def learn_batch(batch: Batch, layout: Layout, options: SumOptions, *, upper_only: bool = False) -> PartialResult:
    """Learn from one batch; with ``upper_only``, the result will be merged with others."""
    pieces = _pieces([(batch, 1.0)], layout, options, upper_only)
    return PartialResult(merge_stream(pieces, added), upper_only=upper_only)


def learn_scan(
    scan: Scan, options: SumOptions, progress: Progress | None = None, *, upper_only: bool = False
) -> PartialResult:
    """Learn from all slices of a scan; with ``upper_only``, the result will be merged with others."""

    def batches() -> Iterator[tuple[Batch, float]]:
        with closing(iter(scan)) as slices:  # type: ignore[type-var]
            for part in slices:
                if part.rows.n_rows:
                    groups = None if options.folding is None else options.folding.groups_of(part)
                    batch = part.batch()
                    with part.rows.naming_errors():
                        batch = options.fold(batch, groups)
                    # The first slice tells how many batches to expect, which decides whether compiling pays.
                    first = scan.fraction > 0 and scan.rows <= part.rows.n_rows
                    yield batch, 1 / scan.fraction if first else 1.0
                if progress is not None:
                    progress(scan)

    check_sums_fit(1, options.signature(scan.layout))
    known = merge_stream(_pieces(batches(), scan.layout, options, upper_only), added)
    return PartialResult(known, dict(scan.counts), scan.dropped, upper_only)


def _pieces(
    batches: Iterable[tuple[Batch, float]], layout: Layout, options: SumOptions, upper_only: bool
) -> Iterator[Knowledge]:
    """Sum batches about one anchor for as long as it suits; yield knowledge whenever the anchor changes."""
    accumulator = None
    for batch, expected in batches:
        with batch.rows.naming_errors():
            if options.class_weights:
                batch = weighted(batch, options.class_weights)
            signature = options.signature(layout, batch.labels.kind)
            check_sums_fit(len(batch.labels.classes), signature)
            if signature.mapped:
                options.features.check_rows(batch.rows, layout.names)
            preferred = options.anchor if accumulator is None else accumulator.anchor
            if preferred is None and signature.mapped:
                preferred = options.features.default_anchor
            point = choose_anchor(
                replace(batch, rows=MappedRows(batch.rows, options.features)) if signature.mapped else batch,
                None if preferred is None else as_anchor(preferred, signature.width),
            )
            if signature.mapped and options.precision == "float32":
                point = point.astype(np.float32).astype(np.float64)  # subtract exactly what is recorded
            if accumulator is None or (point != accumulator.anchor).any():
                if accumulator is not None:
                    yield accumulator.knowledge(upper_only=upper_only)
                accumulator = Accumulator(signature, point, options.engine, options.precision)
            accumulator.add(batch, signature, expected)
    if accumulator is not None:
        yield accumulator.knowledge(upper_only=upper_only)
