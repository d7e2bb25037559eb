"""How a page says names, shares and probabilities."""

from __future__ import annotations

import math

from mergesvm.report.html import Markup, plain, tag


def name(label: object, limit: int | None = None) -> str:
    """A label or another name, in one line.

    >>> name("species number 215", 12), name("")
    ('species… 215', '(empty)')
    """
    return plain(label, limit) or "(empty)"


def shown(value: float, form: str = ".3f") -> str:
    """A number in a form, or a dash where there is none.

    >>> shown(0.5), shown(0.25, ".1%"), shown(float("nan")), shown(float("inf"))
    ('0.500', '25.0%', '-', '∞')
    """
    return "-" if math.isnan(value) else format(value, form).replace("inf%", "inf").replace("inf", "∞")


def whole(label: object, limit: int = 28) -> Markup:
    """A name that is cut in its middle, and not broken into lines where it has no blanks; in full on request.

    >>> whole("node 17")
    '<span title="node 17" style="overflow-wrap: normal">node 17</span>'
    """
    return tag("span", name(label, limit), title=name(label), style="overflow-wrap: normal")


def p_value(value: float, significant: bool = False, reason: str = "") -> Markup:
    """A probability with the digits that matter; bold where it is significant; with the reason why there is none.

    >>> p_value(0.0312), p_value(3e-20, significant=True)
    ('<span>0.031</span>', '<b>3e-20</b>')
    """
    text = (
        "-" if math.isnan(value) else "<1e-99" if value < 1e-99 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
    )
    return tag("b" if significant else "span", text, title=reason or None)
