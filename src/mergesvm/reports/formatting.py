"""Format names, numbers and probabilities for a page."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from markupsafe import Markup

DIRECTION_CONTROLS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that change the direction of text, also of the text that follows them."""


def plain(value: object, limit: int | None = None) -> str:
    r"""Text as one line of visible characters, shortened in the middle, because names often differ at their end.

    >>> plain("two\nlines"), plain("species number 215", limit=12)
    ('two lines', 'species… 215')
    """
    kinds = {"Cc": " ", "Zl": " ", "Zp": " ", "Cs": "\ufffd"}
    text = "".join(kinds.get(unicodedata.category(c), c) for c in DIRECTION_CONTROLS.sub("", str(value)))
    text = " ".join(text.split())
    if limit is None or len(text) <= limit:
        return text
    end = limit // 3
    return f"{text[: limit - 1 - end]}…{text[-end:]}"


def name(label: object, limit: int | None = None) -> str:
    """A label or name as one line.

    >>> name("species number 215", 12), name("")
    ('species… 215', '(empty)')
    """
    return plain(label, limit) or "(empty)"


def full_name(label: object, limit: int = 28) -> Markup:
    """A name shortened in the middle, never broken into lines, with the full name as its tooltip.

    >>> full_name("node 17")
    Markup('<span title="node 17" style="overflow-wrap: normal">node 17</span>')
    """
    return Markup('<span title="{}" style="overflow-wrap: normal">{}</span>').format(name(label), name(label, limit))


def shown(value: float, form: str = ".3f") -> str:
    """A number in this format, or a dash for NaN.

    >>> shown(0.5), shown(0.25, ".1%"), shown(float("nan")), shown(float("inf"))
    ('0.500', '25.0%', '-', '∞')
    """
    return "-" if math.isnan(value) else format(value, form).replace("inf%", "inf").replace("inf", "∞")


def number(value: float) -> str:
    """A count in full, or a weight with about three digits.

    >>> number(1234.0), number(0.25), number(1234.56)
    ('1,234', '0.25', '1,234.6')
    """
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.1f}" if value >= 100 else f"{value:.3g}"


def p_value(value: float, significant: bool = False, reason: str = "") -> Markup:
    """A p-value, bold if significant, with the reason why it is missing as its tooltip.

    >>> p_value(0.0312), p_value(3e-20, significant=True)
    (Markup('<span>0.031</span>'), Markup('<b>3e-20</b>'))
    """
    text = (
        "-" if math.isnan(value) else "<1e-99" if value < 1e-99 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
    )
    tooltip = Markup(' title="{}"').format(plain(reason)) if reason else ""
    return Markup("<b{}>{}</b>" if significant else "<span{}>{}</span>").format(tooltip, text)


def meter(fraction: float) -> Markup:
    """A fraction as a percentage on a bar of that length."""
    return Markup('<span class="meter" style="--fraction: {:.1f}%">{:.1%}</span>').format(100 * fraction, fraction)


def weights_name(weights: Any) -> str:
    """Class weights in a word."""
    return weights if isinstance(weights, str) else "none" if weights is None else "as given"
