"""The rows of the root on all ranks, as in algorithm 3 of the paper: each rank trains some of the problems."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import TypeVar

import numpy as np

from mergesvm.data.batch import Batch
from mergesvm.data.rows.convert import copy_of_rows
from mergesvm.data.rows.tables import TableRows
from mergesvm.engines.base import Engine
from mergesvm.errors import DataError

About = TypeVar("About")


def share_rows(mine: tuple[Batch, About] | None, engine: Engine) -> tuple[Batch, About]:
    """Return the rows of this rank, and what belongs to them; on a rank that has none (None), those of the root.

    Raises an error on all ranks if the root has no rows, or if another rank has different ones.
    """
    ranks = engine.ranks
    given: list[tuple[bool, bool]] = engine.map(lambda _: (ranks.is_root, mine is not None), range(engine.workers))
    root = next(rank for rank, (is_root, _) in enumerate(given) if is_root)
    if not given[root][1]:
        others = [rank for rank, (_, has_rows) in enumerate(given) if has_rows]
        where = f"rank {others[0]} has rows, but the root" if others else "no rank has rows: the root"
        raise DataError(
            f"X is None where it is needed: {where}, rank {root}, has none. Pass X and y at rank {root}; the other "
            f"ranks may pass None."
        )
    if not all(has_rows for _, has_rows in given):
        sent = ranks.on_root(lambda: _sendable(mine))
        mine = sent if mine is None else mine
    assert mine is not None
    if sum(has_rows for _, has_rows in given) > 1:
        _check_same_rows(mine[0], engine)
    return mine


def _sendable(mine: tuple[Batch, About] | None) -> tuple[Batch, About]:
    """The rows in a form that can be pickled, which tables are not."""
    assert mine is not None
    batch, about = mine
    rows = copy_of_rows(batch.rows, 0, batch.rows.n_rows) if isinstance(batch.rows, TableRows) else batch.rows
    return replace(batch, rows=rows), about


def _check_same_rows(batch: Batch, engine: Engine) -> None:
    """Raise an error if ranks have different rows."""
    digest = zlib.crc32(batch.labels.codes.tobytes())
    if batch.weights is not None:
        digest = zlib.crc32(batch.weights.tobytes(), digest)
    for start, stop in batch.rows.blocks():
        block = batch.rows.block(start, stop)
        for array in (block,) if isinstance(block, np.ndarray) else (block.data, block.indices, block.indptr):
            digest = zlib.crc32(np.ascontiguousarray(array).data, digest)
    mine = batch.rows.n_rows, batch.labels.classes, batch.rows.width, digest
    first = engine.ranks.on_root(lambda: mine)

    def compare() -> None:
        if mine != first:
            raise DataError(
                f"Pegasos needs the same rows on all ranks: rank {engine.ranks.rank} has {mine[0]:,} rows of classes "
                f"{list(mine[1])!r}, and the first {first[0]:,} rows of {list(first[1])!r}, or different values. Pass "
                f"rows at the root only, and None at the other ranks; if each rank has its own rows, use MergeSVC."
            )

    engine.ranks.on_all(compare)
