from __future__ import annotations

import pytest
from markupsafe import Markup

from mergesvm.reports.charts.svg import element
from mergesvm.reports.formatting import number, plain
from mergesvm.reports.layout import table
from reports.pages import HOSTILE


def test_text_is_escaped_and_markup_is_not():
    assert element("p", "<b>", Markup("<i>x</i>"), title='"&') == '<p title="&#34;&amp;">&lt;b&gt;<i>x</i></p>'
    assert "&lt;td&gt;" in table(["<td>"], [["x"]], caption="c")


@pytest.mark.parametrize("text", HOSTILE)
def test_plain_text_is_one_line_within_the_limit(text):
    assert len(plain(text, 12)) <= 12
    assert "\n" not in plain(text)
    assert plain(plain(text)) == plain(text)


@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (12345, "12,345"), (0.12345, "0.123"), (1234.56, "1,234.6")])
def test_numbers_are_rounded(value, shown):
    assert number(value) == shown
