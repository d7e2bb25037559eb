"""SVG elements, with all text escaped."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from mergesvm.reports.formatting import plain


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
