"""HTML pages made of cards, from the Jinja2 templates in ``templates/``. All text is escaped; pages load nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from mergesvm.reports.formatting import plain

if TYPE_CHECKING:
    from jinja2 import Environment


class Tile(NamedTuple):
    """A headline number with its name above and a note below."""

    name: str
    value: str
    note: str = ""


class Legend(NamedTuple):
    """A colour of a heat map and what it stands for."""

    colour: str
    name: str


def page(
    title: str,
    facts: Mapping[str, str],
    tiles: Iterable[Tile],
    cards: Iterable[Markup],
    *,
    remarks: Iterable[str] = (),
    footer: str = "",
) -> str:
    """A complete HTML page: facts in one line, headline numbers, and cards.

    >>> page("A & B", {}, [], []).splitlines()[6]
    '<title>A &amp; B</title>'
    """
    content = {"title": title, "facts": facts, "tiles": tiles, "cards": cards, "remarks": remarks, "footer": footer}
    return str(_render("page.html", **content))


def card(title: str, *content: str, width: int = 2, note: str = "", legends: Sequence[Legend] = ()) -> Markup:
    r"""A titled box, ``width`` sixths of the page wide, with charts, tables and paragraphs of text.

    >>> card("Curves", "none", width=3)
    Markup('<section class="card w3"><h2>Curves</h2>\n<p>none</p>\n</section>')
    """
    return _render("card.html", title=title, content=content, width=width, note=note, legends=legends)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, texts: int = 1, dense: bool = False
) -> Markup:
    """A table; the first ``texts`` columns are text, the others numbers. A dense table is small when printed.

    >>> table(["class", "rows"], [["cat", "3"]], caption="Rows").count("<td")
    2
    """
    return _render("table.html", columns=columns, rows=rows, caption=caption, texts=texts, dense=dense)


def scrolling(chart: Markup) -> Markup:
    """A chart that scrolls sideways on narrow screens."""
    return Markup('<div class="wide">{}</div>').format(chart)


def _render(template: str, **content: Any) -> Markup:
    return Markup(_environment().get_template(template).render(content))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("mergesvm.reports"),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
