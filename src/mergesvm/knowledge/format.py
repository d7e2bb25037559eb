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
from mergesvm.files.content import Content, check_sizes
from mergesvm.files.header import MAX_NUMBER, Header
from mergesvm.knowledge.algebra import Piece, n_grams
from mergesvm.knowledge.gram.triangles import packed, triangle_size, unpacked
from mergesvm.knowledge.provenance import Origin, Provenance
from mergesvm.knowledge.signature import Signature
from mergesvm.knowledge.sums import Sums

KIND = "knowledge"


def save_knowledge(knowledge: Sums, path: str | os.PathLike[str]) -> None:
    """Write knowledge to a file, atomically."""
    header, arrays = knowledge_parts(knowledge)
    check_sizes(arrays)
    write_container(path, KIND, header, arrays)


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
    content = Content(arrays, str(path))
    signature = read_signature(header, content)
    labels = read_classes(header, signature.labels)
    return read_sums(header, content, signature, content.expect("anchor", (signature.width,)), labels, kind)


def read_sums(
    header: Header,
    content: Content,
    signature: Signature,
    anchor: NDArray[np.float64],
    labels: tuple[Any, ...],
    kind: type[Piece],
) -> Piece:
    """Build the sums of these classes, and check their arrays; no other arrays may be left."""
    width, n_classes, count = signature.width, len(labels), n_grams(labels, signature.per_class)
    rows = content.expect("rows", (n_classes,), "<i8")
    counts = content.expect("counts", (n_classes,))
    sums = content.expect("sums", (n_classes, width))
    peaks = content.expect("peaks", (count, width))
    triangles = content.expect("grams", (count, triangle_size(width)))
    content.done()
    if (rows < 1).any() or (counts < 1 / MAX_NUMBER).any() or (peaks < 0).any():
        content.refuse("a count that is not positive")
    grams = unpacked(triangles, width)
    _check_squares(content, grams, signature.per_class)
    precision, provenance = header.text("precision", "float64", "float32"), read_provenance(header)
    return kind(signature, anchor, labels, rows, counts, sums, grams, peaks, precision, provenance)


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
    labels = tuple(_label(Header({"classes": value}, header.source), "classes") for value in values)
    if any(label_kind(label) != kind for label in labels):
        header.refuse(f"has classes that are not all of kind {kind!r}")
    if any(not one < other for one, other in pairwise(labels)):  # type: ignore[operator]
        header.refuse("has classes that are not sorted")
    return labels


def provenance_fields(provenance: Provenance) -> list[dict[str, Any]]:
    """Return provenance as header fields."""
    return [vars(origin) for origin in provenance]


def read_provenance(header: Header) -> Provenance:
    """Read provenance from a header, and check it."""
    return tuple(
        Origin(part.text("source"), part.whole("rows"), part.text("when"), part.truth("taken_back"))
        for part in header.parts("provenance")
    )


def _label(header: Header, name: str) -> Label:
    value: Label = header.take(name, str, int, float, bool)
    try:
        label_kind(value)
    except DataError as error:
        header.refuse(f"has no valid label in {name!r}: {error}")
    return value


def _check_squares(content: Content, grams: tuple[NDArray[np.float64], ...], per_class: bool) -> None:
    """Check that squares are not negative and satisfy v^2 <= n M, up to rounding."""
    with np.errstate(all="ignore"):  # infinity fails the check below
        means = content.arrays["sums"] ** 2 / content.arrays["counts"][:, None]
    least = means if per_class else means.sum(axis=0, keepdims=True)
    for gram, square, peak in zip(grams, least, content.arrays["peaks"], strict=False):
        # After a subtraction rounding errors may be larger; solving checks them in detail.
        square = np.zeros_like(square) if peak.any() else square
        rounding = 1e-6 * np.maximum(gram.diagonal(), peak).max()
        if not (gram.diagonal() >= square * (1 - 1e-6) - rounding).all():
            content.refuse("sums that are not those of any set of rows")
