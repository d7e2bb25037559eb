"""Reading and writing folds; docs/file-format.md describes the format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.errors import ParameterError
from mergesvm.files.container import read_container, write_container
from mergesvm.files.content import Content
from mergesvm.files.header import Header
from mergesvm.knowledge.fold_assignment import RULES, Cell, FoldAssignment
from mergesvm.knowledge.format import knowledge_parts, read_classes, read_signature, read_sums
from mergesvm.knowledge.knowledge import Knowledge
from mergesvm.knowledge.sums_format import StoredSums

KIND = "folds"


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
    header |= {"folds": [{"count": assignment.count, "by": assignment.by, "column": assignment.column}]}
    arrays["anchors"] = np.array([piece.anchor for piece in pieces.values()])
    table = [(total.labels.index(label), fold) for label, fold, _ in cells]
    arrays["cells"] = np.array(table, dtype=np.int64).reshape(-1, 2)
    write_container(path, KIND, header, arrays, _read_folds, overwrite=overwrite)


def load_folds(path: str | os.PathLike[str]) -> tuple[Knowledge, FoldAssignment, NDArray[np.float64]]:
    """Read folds from a file: the knowledge by cell, the assignment, and the anchor of each fold."""
    header, arrays = read_container(path, KIND)
    stored, assignment, anchors = _read_folds(header, Content(arrays, str(path)))
    return stored.unpacked(Knowledge), assignment, anchors


def _read_folds(header: Header, content: Content) -> tuple[StoredSums, FoldAssignment, NDArray[np.float64]]:
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
    return read_sums(header, content, signature, anchors[-1], cells), assignment, anchors


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
