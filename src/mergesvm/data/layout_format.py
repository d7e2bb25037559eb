"""Layouts in file headers."""

from __future__ import annotations

from typing import Any

from mergesvm.data.labels import Label
from mergesvm.data.layout import Layout
from mergesvm.files.header import Header


def layout_fields(layout: Layout) -> dict[str, Any]:
    """Return the header fields of a layout."""
    return {
        "width": layout.width,
        "names": None if layout.names is None else list(layout.names),
        "categories": [{"column": column, "values": list(values)} for column, values in layout.categories],
    }


def read_layout(header: Header) -> Layout:
    """Read a layout from header fields, and check it."""
    width, names = header.whole("width", least=1), header.texts("names")
    if names is not None and len(names) != width:
        header.refuse(f"has {len(names)} names for {width} features")
    return Layout(width, names, tuple((part.text("column"), _values(part)) for part in header.parts("categories")))


def _values(header: Header) -> tuple[Label, ...]:
    values = header.take("values", list)
    if not all(type(value) in (str, int, bool) for value in values) or len(set(map(str, values))) < len(values):
        header.refuse("has values other than distinct strings and integers in field 'values'")
    return tuple(values)
