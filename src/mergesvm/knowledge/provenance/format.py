"""Reading and writing provenance; docs/file-format.md describes the format."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from mergesvm.data.labels import label_kind
from mergesvm.errors import DataError
from mergesvm.files.header import Header
from mergesvm.knowledge.fold_assignment import MAX_FOLDS
from mergesvm.knowledge.provenance.extent import WHOLE, Chosen, Extent
from mergesvm.knowledge.provenance.origin import ID_BYTES, Origin, Provenance

FIRST_FORMAT_WITH_IDS = 6

_ID = re.compile(f"[0-9a-f]{{{2 * ID_BYTES}}}")


def provenance_fields(provenance: Provenance) -> list[dict[str, Any]]:
    """Return provenance as header fields."""
    return [origin_fields(origin) for origin in provenance]


def origin_fields(origin: Origin) -> dict[str, Any]:
    """Return an origin as header fields."""
    return {**origin._asdict(), "extent": None if origin.extent == WHOLE else _extent_fields(origin.extent)}


def _extent_fields(extent: Extent) -> dict[str, Any]:
    folds, classes = extent.folds.values, extent.classes.values
    return {
        "n_folds": extent.n_folds,
        "rest": extent.rest,
        "folds": None if folds is None else sorted(folds),
        "classes": None if classes is None else sorted(classes),
        "among": sorted(extent.classes.among),
        "joined": extent.joined,
    }


def read_provenance(header: Header) -> Provenance:
    """Read provenance from a header, and check it: each piece occurs once."""
    origins = tuple(read_origin(part) for part in header.parts("provenance"))
    check_distinct(header, origins)
    return origins


def check_distinct(header: Header, origins: Iterable[Origin]) -> None:
    """Raise an error if a piece, or a retirement, occurs twice."""
    keys = [(origin.id, origin.taken_back) for origin in origins if origin.id is not None]
    if len(set(keys)) < len(keys):
        header.refuse("has a piece that occurs twice in 'provenance'")


def read_origin(part: Header) -> Origin:
    """Read an origin, and check it. Files of earlier formats have no ids."""
    source, rows, when = part.text("source"), part.whole("rows"), part.text("when")
    origin = Origin(source, rows, when, part.truth("taken_back"))
    if part.format < FIRST_FORMAT_WITH_IDS:
        return origin
    key = part.take("id", str, type(None))
    if key is not None and not _ID.fullmatch(key):
        part.refuse(f"has an id of a piece that is not {2 * ID_BYTES} hexadecimal digits")
    given = part.take("extent", dict, type(None))
    if given is None:
        return origin._replace(id=key)
    if key is None:
        part.refuse("has part of a piece without an id")
    return origin._replace(id=key, extent=_read_extent(part.within(given)))


def _read_extent(part: Header) -> Extent:
    n_folds, rest = part.whole("n_folds"), part.truth("rest")
    if n_folds > MAX_FOLDS or n_folds == 1 or (rest and not n_folds):
        part.refuse(f"has a piece in {n_folds} folds")
    extent = Extent.divided(n_folds, rest)._replace(joined=part.truth("joined"))
    folds, every = extent.folds, _labels(part, "among")
    if part.take("folds", list, type(None)) is not None:
        named = part.fields["folds"]
        if not all(type(fold) is int for fold in named) or not 0 < len(set(named)) == len(named):
            part.refuse("has a piece in folds that are not distinct numbers")
        folds = folds._replace(values=frozenset(named))
        if not frozenset(named) < folds.among:
            part.refuse("has a piece in folds that are not some of all folds")
    if part.take("classes", list, type(None)) is None:
        if every:
            part.refuse("has classes of a piece of which none was chosen")
        return extent._replace(folds=folds)
    named = _labels(part, "classes")
    if not named or not named < every:
        part.refuse("has a piece of classes that are not some of all classes")
    return extent._replace(folds=folds, classes=Chosen(named, every))


def _labels(part: Header, name: str) -> frozenset[Any]:
    values = part.take(name, list)
    try:
        kinds = {label_kind(value) for value in values}
    except (DataError, TypeError) as error:
        part.refuse(f"has no valid label in {name!r}: {error}")
    if len(kinds) > 1 or len(set(values)) < len(values):
        part.refuse(f"has labels in {name!r} that are not distinct and of one kind")
    return frozenset(values)
