"""Reading and writing knowledge; docs/file-format.md describes the format."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label, label_kind
from mergesvm.data.layout_format import layout_fields, read_layout
from mergesvm.errors import DataError
from mergesvm.features.format import read_map
from mergesvm.features.maps.identity import Identity
from mergesvm.files.container import library_version, read_container, write_container
from mergesvm.files.content import Content
from mergesvm.files.header import MAX_NUMBER, Header
from mergesvm.knowledge.algebra import Piece, n_grams
from mergesvm.knowledge.gram.triangles import packed
from mergesvm.knowledge.provenance.format import provenance_fields, read_provenance
from mergesvm.knowledge.provenance.origin import Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import ROUNDING, Sums
from mergesvm.knowledge.sums_format import StoredSums, checked_sums

KIND = "knowledge"


def save_knowledge(knowledge: Sums, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write knowledge to a file, atomically."""
    header, arrays = knowledge_parts(knowledge)
    write_container(path, KIND, header, arrays, _read_knowledge, overwrite=overwrite)


def knowledge_parts(knowledge: Sums) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header fields and arrays of knowledge."""
    signature, map_arrays = signature_parts(knowledge.signature)
    header = {
        **signature,
        "classes": list(knowledge.labels),
        "precision": knowledge.precision,
        "provenance": provenance_fields(knowledge.provenance),
        "library": library_version(),
    }
    arrays = {
        "anchor": knowledge.anchor,
        "rows": knowledge.rows,
        "counts": knowledge.counts,
        "sums": knowledge.sums,
        "peaks": knowledge.peaks,
        "grams": packed(knowledge.grams, knowledge.width),
        **map_arrays,
    }
    return header, arrays


def load_knowledge(path: str | os.PathLike[str], kind: type[Piece]) -> Piece:
    """Read knowledge from a file. The whole file is checked first."""
    header, arrays = read_container(path, KIND)
    return _read_knowledge(header, Content(arrays, str(path))).unpacked(kind)


def _read_knowledge(header: Header, content: Content) -> StoredSums:
    signature = read_signature(header, content)
    labels = read_classes(header, signature.labels)
    anchor = content.expect("anchor", (signature.width,))
    return read_sums(header, content, signature, anchor, labels, read_provenance(header))


def read_sums(
    header: Header,
    content: Content,
    signature: Signature,
    anchor: NDArray[np.float64],
    labels: tuple[Any, ...],
    provenance: Provenance,
) -> StoredSums:
    """Read the sums of these classes, and check them; no other arrays may be left."""
    precision = header.text("precision", *ROUNDING)
    count = n_grams(labels, signature.per_class)
    arrays = checked_sums(content, signature.width, len(labels), count, precision)
    return StoredSums(signature, anchor, labels, *arrays, precision, provenance)


def signature_parts(signature: Signature) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header fields of a signature, and the arrays of its feature map."""
    features, arrays = signature.features.file_parts()
    header = {
        "features": features,
        **layout_fields(signature.layout),
        "per_class": signature.per_class,
        "class_weights": [{"class": label, "weight": weight} for label, weight in signature.class_weights],
        "labels": signature.labels,
    }
    return header, arrays


def read_signature(header: Header, content: Content) -> Signature:
    """Build a signature from the header and arrays of a file, and check them."""
    layout = read_layout(header)
    weights = tuple((_label(part, "class"), part.number("weight")) for part in header.parts("class_weights"))
    if not all(weight >= 1 / MAX_NUMBER for _, weight in weights) or len({label for label, _ in weights}) < len(
        weights
    ):
        header.refuse("has class weights that are not positive, or two for a class")
    kind = header.take("labels", str, type(None))
    if kind is not None:
        header.text("labels", "text", "whole number", "decimal", "boolean")
    # Files of format 1 have no maps but the identity, stored as text.
    format_1 = header.fields.get("features") == "identity"
    features = Identity() if format_1 else read_map(header, content)
    if not isinstance(features, Identity) and features.layout.width != layout.width:
        header.refuse(f"has a map of {features.layout.width} columns for rows of {layout.width} columns")
    return Signature(features, layout.width, layout.names, layout.categories, header.truth("per_class"), weights, kind)


def read_classes(header: Header, kind: str | None) -> tuple[Label, ...]:
    """Read the classes, which must be of one kind, sorted and distinct."""
    values = header.take("classes", list)
    labels = tuple(_label(header.within({"classes": value}), "classes") for value in values)
    if any(label_kind(label) != kind for label in labels):
        header.refuse(f"has classes that are not all of kind {kind!r}")
    if any(not one < other for one, other in pairwise(labels)):  # type: ignore[operator]
        header.refuse("has classes that are not sorted")
    return labels


def _label(header: Header, name: str) -> Label:
    value: Label = header.take(name, str, int, float, bool)
    try:
        label_kind(value)
    except DataError as error:
        header.refuse(f"has no valid label in {name!r}: {error}")
    return value
