"""A page that needs nothing but itself: markup that escapes whatever is put into it, and the shell around it."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

VOID = ("meta", "br")
"""Elements of HTML that are never closed."""

DIRECTIONS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that turn the direction of the text after them, also outside of the name they are in."""


class Markup(str):
    """Text that is markup already; any other text is escaped where it enters a page."""

    __slots__ = ()


def plain(value: object, limit: int | None = None) -> str:
    r"""Text as one line of visible characters, and of a length: names that begin alike often end differently.

    >>> plain("two\nlines"), plain("species number 215", limit=12)
    ('two lines', 'species… 215')
    """
    kinds = {"Cc": " ", "Zl": " ", "Zp": " ", "Cs": "\ufffd"}
    text = "".join(kinds.get(unicodedata.category(c), c) for c in DIRECTIONS.sub("", str(value)))
    text = " ".join(text.split())
    if limit is None or len(text) <= limit:
        return text
    end = limit // 3
    return f"{text[: limit - 1 - end]}…{text[-end:]}"


def tag(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element; ``class_`` is written class, ``text_anchor`` text-anchor, and attributes that are None not at all.

    >>> tag("p", "1 < 2", tag("b", "yes"), class_="note")
    '<p class="note">1 &lt; 2<b>yes</b></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(child if isinstance(child, Markup) else html.escape(plain(child)) for child in children)
    return Markup(f"<{name}{written}>" if name in VOID else f"<{name}{written}>{inside}</{name}>")


def _attribute(value: object) -> str:
    # Tenths of a unit are more than any screen shows.
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else plain(value)


def join(parts: Iterable[Markup]) -> Markup:
    """Markup one after the other."""
    return Markup("".join(parts))


def svg(parts: Iterable[Markup], width: float, height: float, label: str, widest: float | None = None) -> Markup:
    """A picture of this size, or as wide as there is room; its label is for those who cannot see it."""
    place = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "style": f"max-width: {widest or width:.0f}px"}
    return tag("svg", join(parts), role="img", aria_label=label, **place)


def tile(name: str, value: str, note: str = "") -> Markup:
    """A headline number, its name above and a note beneath."""
    parts = tag("dt", name), tag("dd", value, class_="value"), tag("dd", note or Markup("&nbsp;"), class_="note")
    return tag("div", *parts, class_="tile")


def tiles(items: Iterable[Markup]) -> Markup:
    """Headline numbers side by side."""
    return tag("dl", *items, class_="tiles")


def fact_list(items: Mapping[str, str]) -> Markup:
    """Names and values in one flowing line."""
    return tag("dl", *(tag("div", tag("dt", k), tag("dd", tag("bdi", v))) for k, v in items.items()), class_="facts")


def card(title: str, *content: str, width: int = 2, note: str = "") -> Markup:
    """A titled box that is so many sixths of the page wide.

    >>> card("Curves", tag("p", "none"), width=3)
    '<section class="card w3"><h2>Curves</h2><p>none</p></section>'
    """
    remark = [tag("p", note, class_="note")] if note else []
    return tag("section", tag("h2", title), *remark, *content, class_=f"card w{width}")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, texts: int = 1) -> Markup:
    """A table; the first columns, as many as ``texts``, are text, the others numbers.

    >>> table(["class", "rows"], [["cat", "3"]], caption="Rows").count("<td")
    2
    """
    kinds = [None if at < texts else "number" for at in range(len(columns))]
    head = tag("tr", *(tag("th", c, scope="col", class_=k) for c, k in zip(columns, kinds, strict=True)))
    body = join(
        tag("tr", *(tag("td", tag("bdi", c) if k is None else c, class_=k) for c, k in zip(row, kinds, strict=True)))
        for row in rows
    )
    inside = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body))
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=caption)


def meter(share: float) -> Markup:
    """A share as a number on a bar of that length."""
    return tag("span", f"{share:.1%}", class_="meter", style=f"--share: {100 * share:.1f}%")


def ramp(kind: str, name: str) -> Markup:
    """The colours of a heat map, from none to all, and what they stand for."""
    return tag("span", tag("span", class_=kind), name, class_="ramp")


def page(title: str, *content: str, footer: str = "") -> str:
    """A whole page, from its doctype on.

    >>> page("A & B").startswith('<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewp')
    True
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    body = tag("body", tag("header", tag("h1", tag("bdi", title))), tag("main", *content), tag("footer", footer))
    return "<!doctype html>" + tag("html", head, body, lang="en")


STYLE = """
:root { color-scheme: light dark; --page: #f4f6f8; --card: #fff; --ink: #17202c; --soft: #566273; --line: #e2e7ed;
  --main: #1f5fd0; --good: #0b7f70; --bad: #d9500b; --other: #8a96a6; --mid: #17202c; --on: #fff;
  --shadow: 0 1px 2px #0f1f3814; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1219; --card: #151c26; --ink: #e7ecf3; --soft: #9eabbc;
  --line: #28333f; --main: #74a9ff; --good: #34cdb8; --bad: #ff9350; --other: #6f7d8f; --mid: #0b1017;
  --on: #0b1017; --shadow: none; } }
@media print { :root { --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --main: #1f5fd0;
  --good: #0b7f70; --bad: #c4470a; --other: #8a96a6; --mid: #000; --on: #fff; --shadow: none; color-scheme: light; } }
* { box-sizing: border-box; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
body { margin: 0 auto; max-width: 1240px; padding: 32px 24px; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 28px; line-height: 1.25; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { margin: 0 0 2px; font-size: 16px; }
dl, dd { margin: 0; }
dt, .note, footer, caption { color: var(--soft); font-size: 13px; }
.note { margin: 0 0 12px; }
.facts { display: flex; flex-wrap: wrap; gap: 6px 28px; margin: 16px 0 20px; }
.facts div { display: flex; gap: 8px; align-items: baseline; min-width: 0; }
.facts dd { overflow-wrap: anywhere; }
.tiles { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 16px; margin-bottom: 16px; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; box-shadow: var(--shadow);
  min-width: 0; break-inside: avoid; }
.tile { padding: 14px 16px 12px; }
.tile .value { font-size: 27px; font-weight: 650; line-height: 1.25; letter-spacing: -.02em; }
.tile .note { margin: 0; font-size: 12px; }
.tile:first-child .value { color: var(--main); }
.value, .number, svg { font-variant-numeric: tabular-nums; }
main > .cards { display: grid; grid-template-columns: repeat(6, minmax(0, 1fr)); gap: 16px; }
.card { padding: 16px 18px 18px; grid-column: span 6; }
.w2 { grid-column: span 2; } .w3 { grid-column: span 3; } .w4 { grid-column: span 4; }
@media (max-width: 1000px) { .w2, .w3, .w4 { grid-column: span 6; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); } body { padding: 20px 14px; } }
@media (min-width: 640px) and (max-width: 1000px) { .w2 { grid-column: span 3; } }
.scroll { overflow: auto; max-height: 860px; background:
  linear-gradient(transparent, var(--card)) 0 100% / 100% 24px no-repeat local,
  linear-gradient(transparent, color-mix(in srgb, var(--ink) 14%, transparent)) 0 100% / 100% 10px no-repeat; }
.wide { overflow-x: auto; } .wide svg { min-width: 440px; }
@page { margin: 12mm; }
@media print { .scroll { max-height: none; } body { padding: 0; max-width: none; } .tile { padding: 8px 12px; }
  .tiles { grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 10px; } .wide svg { max-width: 560px !important; } }
@media print { .dense :is(th, td, td.number) { font-size: 9.5px; padding: 3px 4px; min-width: 0; } }
table { border-collapse: collapse; width: 100%; }
caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: 4px 10px 4px 0; font-size: 14px; text-align: left;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; min-width: 4.5em; }
th { overflow-wrap: normal; position: sticky; top: 0; background: var(--card);
  color: var(--soft); font-size: 12px; font-weight: 600; }
td.number, th.number { text-align: right; padding: 4px 0 4px 10px; white-space: nowrap; min-width: 0; }
tbody tr:hover { background: color-mix(in srgb, var(--main) 8%, transparent); }
.meter { display: inline-block; min-width: 72px; padding: 0 4px; border-radius: 3px;
  background: linear-gradient(to right, color-mix(in srgb, var(--bad) 30%, transparent) var(--share), var(--page) 0); }
footer { margin-top: 20px; }
svg { display: block; width: 100%; height: auto; margin: 0 auto; overflow: visible; }
svg + svg { margin-top: 8px; }
svg text { fill: var(--soft); font-size: 12px; unicode-bidi: isolate; }
svg .name { fill: var(--ink); } svg .warn { fill: var(--bad); } svg .mid { fill: var(--mid); }
svg .on { fill: var(--on); } svg .small { font-size: 10px; } svg .big { font-size: 17px; }
svg .rule { stroke: var(--line); } svg .dashed { stroke: var(--other); stroke-dasharray: 4 4; }
svg path { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .line.main { stroke: var(--main); } svg .line.good { stroke: var(--good); } svg .line.bad { stroke: var(--bad); }
svg .line.faint { stroke: var(--other); stroke-width: 1; opacity: .45; } svg path.main { stroke-width: 2.75; }
svg path.thin { stroke-width: 1.25; opacity: .6; } svg .whisker { stroke: var(--main); stroke-width: 1.5; opacity: .4; }
svg path:hover { stroke-width: 3.5; opacity: 1; }
svg .fill.main { fill: var(--main); } svg .fill.good { fill: var(--good); } svg .fill.bad { fill: var(--bad); }
svg .fill.other { fill: var(--other); } svg .empty { fill: var(--line); fill-opacity: .35; }
.ramp { display: inline-block; white-space: nowrap; margin-left: 18px; }
.ramp span { display: inline-block; width: 64px; height: 10px; margin-right: 6px; border-radius: 2px; }
.ramp .main { background: linear-gradient(to right, color-mix(in srgb, var(--main) 6%, transparent), var(--main)); }
.ramp .bad { background: linear-gradient(to right, color-mix(in srgb, var(--bad) 6%, transparent), var(--bad)); }
svg .cell:hover { stroke: var(--ink); stroke-width: 1.5; }
"""
