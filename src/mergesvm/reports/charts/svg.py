"""What charts share: SVG elements with all text escaped, sizes, and series of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from mergesvm.reports.formatting import plain

WIDTH = 380.0
MAX_WIDTH = 480.0

LETTER_WIDTH = 7.0
"""Approximate width of a letter; text can only be measured by drawing it."""

LINE_HEIGHT = 18.0
"""Height of a line of text."""


@dataclass(frozen=True)
class Series:
    """The points of a line, or the bars of one colour; without a name or if faint, it is not in the legend.

    Styles are main, good, bad, other, faint and dashed. Points with ``spans`` (low, high) are dots with error bars.
    """

    y: Sequence[float] | NDArray[np.float64]
    name: str = ""
    style: str = "main"
    x: Sequence[float] | NDArray[np.float64] = ()
    spans: Sequence[tuple[float, float]] | None = None


def element(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element; ``class_`` is written class, ``text_anchor`` text-anchor, and numbers with two decimals at most.

    >>> element("text", "1 < 2", element("title", "yes"), class_="name", x=1.5)
    Markup('<text class="name" x="1.5">1 &lt; 2<title>yes</title></text>')
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"' for key, value in attributes.items()
    )
    inside = "".join(child if isinstance(child, Markup) else escape(plain(child)) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>")


def _attribute(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else plain(value)


def svg(parts: Iterable[Markup], width: float, height: float, label: str, max_width: float | None = None) -> Markup:
    """A chart of this size that shrinks with the page; the label is read aloud by screen readers."""
    view_box, style = f"0 0 {width:.0f} {height:.0f}", f"max-width: {max_width or width:.0f}px"
    return element("svg", Markup("").join(parts), role="img", aria_label=label, viewBox=view_box, style=style)
