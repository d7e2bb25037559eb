"""Parse pages, and check that they load nothing and run nothing."""

from __future__ import annotations

from html.parser import HTMLParser

VOID_ELEMENTS = ("meta",)

HOSTILE = (
    "</title></svg><script>alert(1)</script>",
    '" onload="alert(2)" x="',
    "' onmouseover='alert(3)",
    "<img src=x onerror=alert(4)>",
    "https://example.org/tracker.png",
    "two\nlines\tand\x00a null \ud800",
    "שלום \u202e turned",
    "]]>&amp;--><!-- {{ }} ${1}",
    "",
    "long " * 200,
)


class Page(HTMLParser):
    """The elements, attributes and texts of a page; fails if elements are not closed in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts, self.charts = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        self.attributes += [(name, key, value) for key, value in attributes]
        assert len({key for key, _ in attributes}) == len(attributes)
        if name == "svg":
            self.charts.append(attributes)
        if name not in VOID_ELEMENTS:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.texts.append(data)

    def values(self, key):
        return [value for _, name, value in self.attributes if name == key]


def assert_self_contained(text):
    """Check that a page has no scripts, no links, no resources of other hosts, and no undefined numbers."""
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "use", "image", "foreignobject"} & set(page.tags)
    keys = {key for _, key, _ in page.attributes}
    assert not {"src", "href", "xlink:href"} & keys
    assert not [key for key in keys if key.startswith("on")]
    assert "url(" not in text
    assert "<script" not in text
    numbers = [value for _, key, value in page.attributes if key in ("x", "y", "d", "cx", "cy", "width", "height")]
    assert not [value for value in numbers if "nan" in value or "inf" in value]
    assert page.values("role").count("img") == page.tags.count("svg")
    assert "nan" not in [text.lower() for text in page.texts]
    return page
