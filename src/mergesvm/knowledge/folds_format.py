"""Reading and writing folds; docs/file-format.md describes the format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import DuplicatePieceError, ParameterError
from mergesvm.files.container import read_container, write_container
from mergesvm.files.content import Content
from mergesvm.files.header import Header
from mergesvm.knowledge.fold_assignment import RULES, Cell, FoldAssignment
from mergesvm.knowledge.format import knowledge_parts, read_classes, read_signature, read_sums
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.provenance.combine import joined
from mergesvm.knowledge.provenance.format import (
    FIRST_FORMAT_WITH_IDS,
    check_distinct,
    origin_fields,
    read_origin,
    read_provenance,
)
from mergesvm.knowledge.provenance.origin import Origin, Provenance
from mergesvm.knowledge.select import restricted
from mergesvm.knowledge.sums_format import StoredSums

KIND = "folds"

FoldOrigins = dict[int, Provenance]
"""The origins of each fold; fold -1 is never held out."""


def save_folds(
    path: str | os.PathLike[str],
    parts: Sequence[Knowledge],
    rest: Knowledge | None,
    total: Knowledge,
    assignment: FoldAssignment,
    *,
    overwrite: bool = True,
) -> None:
    """Write folds to a file, atomically. It stores the sums of each cell, that is, of each class in each fold."""
    rest = rest or Knowledge.zero(total.signature, total.anchor)
    pieces = {**dict(enumerate(parts)), -1: rest}
    cells = sorted((label, fold, at) for fold, piece in pieces.items() for at, label in enumerate(piece.labels))

    def by_cell(name: str) -> list[Any]:
        return [getattr(pieces[fold], name)[at] for _, fold, at in cells]

    every = replace(
        total,
        rows=np.array(by_cell("rows"), dtype=np.int64),
        counts=np.array(by_cell("counts"), dtype=np.float64),
        sums=np.array(by_cell("sums")).reshape(len(cells), total.width),
        peaks=np.array(by_cell("peaks")).reshape(len(cells), total.width),
        grams=tuple(by_cell("grams")),
    )
    header, arrays = knowledge_parts(every)
    del arrays["anchor"]
    origins = {fold: piece.provenance for fold, piece in pieces.items()}
    header["provenance"] = _provenance_fields(total.provenance, origins)
    header |= {"folds": [{"count": assignment.count, "by": assignment.by, "column": assignment.column}]}
    arrays["anchors"] = np.array([piece.anchor for piece in pieces.values()])
    table = [(total.labels.index(label), fold) for label, fold, _ in cells]
    arrays["cells"] = np.array(table, dtype=np.int64).reshape(-1, 2)
    write_container(path, KIND, header, arrays, _read_folds, overwrite=overwrite)


def fold_origins(origins: Provenance, fold: int) -> Provenance:
    """Return the origins of one fold, of pieces whose rows were divided among the folds."""
    known = tuple(origin for origin in origins if origin.id is not None)
    return restricted(known, lambda extent: extent.of_fold(fold))


def load_folds(
    path: str | os.PathLike[str],
) -> tuple[Knowledge, FoldAssignment, NDArray[np.float64], FoldOrigins]:
    """Read folds from a file: the knowledge by cell, the assignment, and the anchor and origins of each fold."""
    header, arrays = read_container(path, KIND)
    stored, assignment, anchors, origins = _read_folds(header, Content(arrays, str(path)))
    return stored.unpacked(Knowledge), assignment, anchors, origins


def _read_folds(
    header: Header, content: Content
) -> tuple[StoredSums, FoldAssignment, NDArray[np.float64], FoldOrigins]:
    signature = read_signature(header, content)
    if not signature.per_class:
        header.refuse("has folds in the pooled form")
    labels, assignment = read_classes(header, signature.labels), _read_assignment(header)
    table = content.arrays.get("cells")
    size = len(table) if table is not None and table.ndim == 2 else 0
    places: Any = [tuple(place) for place in content.expect("cells", (size, 2), "<i8").tolist()]
    if any(not one < other for one, other in pairwise(places)):
        content.refuse("cells that are not sorted")
    if any(not (0 <= label < len(labels) and -1 <= fold < assignment.count) for label, fold in places):
        content.refuse("a cell of no class or fold")
    if len({label for label, _ in places}) < len(labels):
        content.refuse("a class without rows")
    cells: Any = tuple(Cell(labels[label], fold) for label, fold in places)
    anchors = content.expect("anchors", (assignment.count + 1, signature.width))
    total, origins = _read_provenance(header, assignment)
    return read_sums(header, content, signature, anchors[-1], cells, total), assignment, anchors, origins


def _provenance_fields(total: Provenance, by_fold: dict[int, Provenance]) -> list[dict[str, Any]]:
    """Return the origins of folds: those divided among the folds once, without a fold, others with their fold."""
    count = len(by_fold) - 1
    undivided = {
        (origin.id, origin.taken_back)
        for fold, origins in by_fold.items()
        for origin in origins
        if origin.extent.n_folds != count or origin.extent.folds.values != frozenset([fold])
    }
    apart = [
        (origin, fold)
        for fold, origins in by_fold.items()
        for origin in origins
        if (origin.id, origin.taken_back) in undivided
    ]
    unnumbered = {origin for origin, _ in apart if origin.id is None}
    divided = [origin for origin in total if (origin.id, origin.taken_back) not in undivided or origin.id is None]
    entries = [(origin, None) for origin in divided if origin not in unnumbered] + apart
    return [{**origin_fields(origin), "fold": fold} for origin, fold in entries]


def _read_provenance(header: Header, assignment: FoldAssignment) -> tuple[Provenance, dict[int, Provenance]]:
    """Read the origins of all rows, and those of each fold."""
    if header.format < FIRST_FORMAT_WITH_IDS:
        return read_provenance(header), dict.fromkeys(range(-1, assignment.count), ())
    entries: dict[int | None, list[Origin]] = {fold: [] for fold in (None, *range(-1, assignment.count))}
    for part in header.parts("provenance"):
        origin, fold = read_origin(part), part.take("fold", int, type(None))
        if fold not in entries:
            header.refuse(f"has a piece in fold {fold}, which does not exist")
        if fold is None and origin.id is not None and origin.extent.n_folds != assignment.count:
            header.refuse("has a piece that is not divided among the folds, and in none of them")
        entries[fold].append(origin)
    for origins in entries.values():
        check_distinct(header, origins)
    divided = tuple(entries.pop(None))
    try:
        total = joined([divided, *map(tuple, entries.values())])
    except DuplicatePieceError:
        header.refuse("has a piece that occurs twice in 'provenance'")
    return total, {fold: (*fold_origins(divided, fold), *own) for fold, own in entries.items() if fold is not None}


def _read_assignment(header: Header) -> FoldAssignment:
    parts = header.parts("folds")
    if len(parts) != 1:
        header.refuse("does not have exactly one rule for its folds")
    rule = parts[0]
    by, column = rule.text("by", *RULES), rule.take("column", str, type(None))
    if column is not None and by != "groups":
        header.refuse(f"has a column of groups for folds by {by}")
    try:
        return FoldAssignment(rule.whole("count"), by, column)
    except ParameterError as error:
        header.refuse(f"has impossible folds: {str(error).rstrip('.')}")
