"""Folds as a file: docs/file-format.md describes it."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from mergesvm.errors import ParameterError
from mergesvm.files.container import read_container, write_container
from mergesvm.files.content import Content, check_sizes
from mergesvm.files.header import Header
from mergesvm.knowledge.fold_assignment import RULES, Cell, FoldAssignment
from mergesvm.knowledge.folds import Folds
from mergesvm.knowledge.format import knowledge_parts, read_classes, read_signature, read_sums
from mergesvm.knowledge.knowledge import Knowledge

KIND = "folds"


def save_folds(folds: Folds, path: str | os.PathLike[str]) -> None:
    """Write folds to a file, which is replaced as a whole or not at all.

    The sums are those of the cells: of each class in each fold.
    """
    total, folding = folds.total, folds.folding
    rest = folds.rest or Knowledge.zero(folds.signature, total.anchor)
    pieces = {**dict(enumerate(folds.parts)), -1: rest}
    cells = sorted((label, fold, at) for fold, piece in pieces.items() for at, label in enumerate(piece.labels))

    def of_all(name: str) -> list[Any]:
        return [getattr(pieces[fold], name)[at] for _, fold, at in cells]

    every = replace(
        total,
        rows=np.array(of_all("rows"), dtype=np.int64),
        counts=np.array(of_all("counts"), dtype=np.float64),
        sums=np.array(of_all("sums")).reshape(len(cells), total.width),
        peaks=np.array(of_all("peaks")).reshape(len(cells), total.width),
        grams=tuple(of_all("grams")),
    )
    header, arrays = knowledge_parts(every)
    del arrays["anchor"]
    header |= {"folds": [{"count": folding.count, "by": folding.by, "column": folding.column}]}
    arrays["anchors"] = np.array([piece.anchor for piece in pieces.values()])
    table = [(total.labels.index(label), fold) for label, fold, _ in cells]
    arrays["cells"] = np.array(table, dtype=np.int64).reshape(-1, 2)
    check_sizes(arrays)
    write_container(path, KIND, header, arrays)


def load_folds(path: str | os.PathLike[str]) -> Folds:
    """Read folds from a file; everything is checked before anything is used."""
    header, arrays = read_container(path, KIND)
    content = Content(arrays, str(path))
    signature = read_signature(header, content)
    if not signature.per_class:
        header.refuse("has folds in the pooled form")
    labels, folding = read_classes(header, signature.labels), _read_folding(header)
    table = arrays.get("cells")
    size = len(table) if table is not None and table.ndim == 2 else 0
    places: Any = [tuple(place) for place in content.expect("cells", (size, 2), "<i8").tolist()]
    if any(not one < other for one, other in pairwise(places)):
        content.refuse("cells that are not sorted")
    if any(not (0 <= label < len(labels) and -1 <= fold < folding.count) for label, fold in places):
        content.refuse("a cell of no class or fold")
    if len({label for label, _ in places}) < len(labels):
        content.refuse("a class without rows")
    cells: Any = tuple(Cell(labels[label], fold) for label, fold in places)
    anchors = content.expect("anchors", (folding.count + 1, signature.width))
    return Folds.of_cells(read_sums(header, content, signature, anchors[-1], cells, Knowledge), folding, anchors)


def _read_folding(header: Header) -> FoldAssignment:
    parts = header.parts("folds")
    if len(parts) != 1:
        header.refuse("has not one rule for its folds")
    rule = parts[0]
    by, column = rule.text("by", *RULES), rule.take("column", str, type(None))
    if column is not None and by != "groups":
        header.refuse(f"has a column of groups for folds by {by}")
    try:
        return FoldAssignment(rule.whole("count"), by, column)
    except ParameterError as error:
        header.refuse(f"has folds that cannot be: {str(error).rstrip('.')}")
