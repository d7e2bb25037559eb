"""Divide files among the workers of an engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mergesvm.data.scan import Scan
from mergesvm.data.text_parser.label_kinds import KINDS
from mergesvm.engines.base import Engine
from mergesvm.errors import CutError, LabelKindError

Result = TypeVar("Result")


def divided(scan: Scan, engine: Engine, count: int, work: Callable[[list[Scan]], Result]) -> Result:
    """Call ``work`` with at most ``count`` parts of a scan, the same on all ranks; with own files, with those of each.

    If a file turns out not to be divisible, call it again with whole files; if labels written as text turn out to be of
    another kind than the first ones, again with the kind that fits all of them.
    """
    ranks = engine.ranks
    if ranks.own_files:
        _agree_on_labels(scan, engine, 1)

    def run() -> Result:
        if ranks.own_files:
            return work([scan])
        try:
            return work(ranks.on_root(lambda: scan.parts(count)))
        except CutError:
            return work(ranks.on_root(lambda: scan.parts(count, whole=True)))

    try:
        return run()
    except LabelKindError:
        _agree_on_labels(scan, engine)
        return run()


def _agree_on_labels(scan: Scan, engine: Engine, blocks: int | None = None) -> None:
    """Choose the kind of labels on the root; if each rank has its own files, one that fits those of all ranks."""
    if not engine.ranks.own_files:
        engine.ranks.on_root(scan.settle_labels)
        return
    fitting = engine.map(lambda _: scan.fitting_label_kinds(blocks), range(engine.workers))
    scan.settle_labels(tuple(kind for kind in KINDS if all(kind in kinds for kinds in fitting)))
