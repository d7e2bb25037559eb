"""Knowledge as a file: docs/file-format.md describes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mergesvm.data.labels import Label, label_kind
from mergesvm.errors import DataError, InvalidContentError
from mergesvm.files import Header, read_container, write_container
from mergesvm.files.header import LARGEST
from mergesvm.knowledge.provenance import Origin, Provenance
from mergesvm.knowledge.signature import Signature

if TYPE_CHECKING:
    from mergesvm.knowledge.knowledge import Knowledge

KIND = "knowledge"

SQUARES = ("grams", "peaks", "scores.variances", "scores.covariance")
"""Arrays of squares, which may be as large as squares are."""


def save_knowledge(knowledge: Knowledge, path: str | os.PathLike[str]) -> None:
    """Write knowledge to a file, which is replaced as a whole or not at all."""
    header = {
        **signature_fields(knowledge.signature),
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
        "grams": _packed(knowledge.grams, knowledge.width),
    }
    check_sizes(arrays)
    write_container(path, KIND, header, arrays)


def check_sizes(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise an error before writing what could not be read again."""
    for name, array in arrays.items():
        if not (np.abs(array) <= _largest(name)).all():
            raise DataError(
                f"Numbers beyond {LARGEST:g} cannot be kept in a file. Rescale the columns, and learn again."
            )


def _largest(name: str) -> float:
    return LARGEST**2 if name in SQUARES else LARGEST


def load_knowledge(path: str | os.PathLike[str], kind: type[Knowledge]) -> Knowledge:
    """Read knowledge from a file; everything is checked before anything is used."""
    header, arrays = read_container(path, KIND)
    signature = read_signature(header)
    labels = read_classes(header, signature.labels)
    content = Content(arrays, str(path))
    width, n_classes = signature.width, len(labels)
    n_grams = n_classes if signature.per_class else min(1, n_classes)
    content.expect("anchor", (width,))
    content.expect("rows", (n_classes,), "<i8")
    content.expect("counts", (n_classes,))
    content.expect("sums", (n_classes, width))
    content.expect("peaks", (n_grams, width))
    content.expect("grams", (n_grams, width * (width + 1) // 2))
    content.done()
    rows, counts = arrays["rows"], arrays["counts"]
    if (rows < 1).any() or (counts < 1 / LARGEST).any() or (arrays["peaks"] < 0).any():
        content.refuse("a count that is not positive")
    grams = tuple(_unpacked(line, width) for line in arrays["grams"])
    _check_squares(content, grams, signature.per_class)
    return kind(
        signature,
        arrays["anchor"],
        labels,
        rows,
        counts,
        arrays["sums"],
        grams,
        arrays["peaks"],
        header.text("precision", "float64", "float32"),
        read_provenance(header),
    )


class Content:
    """The arrays of a file, checked one by one against what the header makes one expect."""

    def __init__(self, arrays: dict[str, NDArray[Any]], source: str) -> None:
        self.arrays = arrays
        self.source = source
        self._expected: set[str] = set()

    def refuse(self, what: str) -> NoReturn:
        """Raise the error that the arrays are not valid, because of this."""
        raise InvalidContentError(f"{self.source} holds {what}, which no file of ours does. Make it again.")

    def expect(self, name: str, shape: tuple[int, ...], dtype: str = "<f8") -> NDArray[Any]:
        """An array of this shape and type, of finite numbers."""
        self._expected.add(name)
        if name not in self.arrays:
            self.refuse(f"no array {name!r}")
        array = self.arrays[name]
        if array.shape != shape or array.dtype != np.dtype(dtype):
            self.refuse(f"{name!r} of type {array.dtype} and shape {array.shape} instead of {dtype} and {shape}")
        if not (np.abs(array) <= _largest(name)).all():
            self.refuse(f"a number in {name!r} that is not finite, or too large")
        return array

    def done(self) -> None:
        """Raise an error if there are arrays that were not expected."""
        strangers = sorted(set(self.arrays) - self._expected)
        if strangers:
            self.refuse(f"an array {strangers[0]!r}")


def signature_fields(signature: Signature) -> dict[str, Any]:
    """A signature as plain values."""
    return {
        "features": signature.features,
        "width": signature.width,
        "names": None if signature.names is None else list(signature.names),
        "categories": [{"column": column, "values": list(values)} for column, values in signature.categories],
        "per_class": signature.per_class,
        "class_weights": [{"class": label, "weight": weight} for label, weight in signature.class_weights],
        "labels": signature.labels,
    }


def read_signature(header: Header) -> Signature:
    """A signature from plain values, each checked."""
    width, names = header.whole("width", least=1), header.texts("names")
    if names is not None and len(names) != width:
        header.refuse(f"has {len(names)} names for {width} features")
    categories = tuple((part.text("column"), _values(part)) for part in header.parts("categories"))
    weights = tuple((_label(part, "class"), part.number("weight")) for part in header.parts("class_weights"))
    if not all(weight > 0 for _, weight in weights) or len({label for label, _ in weights}) < len(weights):
        header.refuse("has class weights that are not positive, or two for a class")
    kind = header.take("labels", str, type(None))
    if kind is not None:
        header.text("labels", "text", "whole number", "decimal", "boolean")
    features = header.text("features", "identity")
    return Signature(features, width, names, categories, header.truth("per_class"), weights, kind)


def read_classes(header: Header, kind: str | None) -> tuple[Label, ...]:
    """The classes: all of one kind, sorted, none twice."""
    labels = _labels(header, "classes")
    if any(label_kind(label) != kind for label in labels):
        header.refuse(f"has classes that are not all of kind {kind!r}")
    if any(not one < other for one, other in pairwise(labels)):  # type: ignore[operator]
        header.refuse("has classes that are not sorted")
    return labels


def provenance_fields(provenance: Provenance) -> list[dict[str, Any]]:
    """Provenance as plain values."""
    return [vars(origin) for origin in provenance]


def read_provenance(header: Header) -> Provenance:
    """Provenance from plain values, each checked."""
    return tuple(
        Origin(part.text("source"), part.whole("rows"), part.text("when"), part.truth("taken_back"))
        for part in header.parts("provenance")
    )


def library_version() -> str:
    """The version of the library that writes."""
    from importlib.metadata import version

    return version("mergesvm")


def _values(header: Header) -> tuple[Label, ...]:
    values = header.take("values", list)
    if not all(type(value) in (str, int, bool) for value in values) or len(set(map(str, values))) < len(values):
        header.refuse("has something else than different texts or whole numbers in field 'values'")
    return tuple(values)


def _labels(header: Header, name: str) -> tuple[Label, ...]:
    return tuple(_label(Header({name: value}, header.source), name) for value in header.take(name, list))


def _label(header: Header, name: str) -> Label:
    value: Label = header.take(name, str, int, float, bool)
    try:
        label_kind(value)
    except DataError as error:
        header.refuse(f"has no valid label in {name!r}: {error}")
    return value


def _packed(grams: tuple[NDArray[np.float64], ...], width: int) -> NDArray[np.float64]:
    """Upper triangles, row by row, one line a matrix."""
    packed = np.empty((len(grams), width * (width + 1) // 2))
    for line, gram in zip(packed, grams, strict=True):
        at = 0
        for row in range(width):
            line[at : at + width - row] = gram[row, row:]
            at += width - row
    return packed


def _unpacked(line: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    gram = np.empty((width, width))
    at = 0
    for row in range(width):
        gram[row, row:] = gram[row:, row] = line[at : at + width - row]
        at += width - row
    return gram


def _check_squares(content: Content, grams: tuple[NDArray[np.float64], ...], per_class: bool) -> None:
    """Squares are not negative, and no sum is larger than they allow, v^2 <= n M, but for rounding."""
    with np.errstate(all="ignore"):  # what overflows is too large
        means = content.arrays["sums"] ** 2 / content.arrays["counts"][:, None]
    least = means if per_class else means.sum(axis=0, keepdims=True)
    for gram, square, peak in zip(grams, least, content.arrays["peaks"], strict=False):
        # Where something was subtracted, rounding may have gone further, and solving looks closer.
        square = np.zeros_like(square) if peak.any() else square
        rounding = 1e-6 * np.maximum(gram.diagonal(), peak).max()
        if not (gram.diagonal() >= square * (1 - 1e-6) - rounding).all():
            content.refuse("sums that are not those of any set of rows")
