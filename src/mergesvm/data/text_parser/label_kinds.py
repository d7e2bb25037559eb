"""Values written as text: one rule for which are numbers, which are booleans, and which are missing.

The rule takes the texts of all labels, so that it does not matter which parser reads them, in blocks of which size, and
on which worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from mergesvm.data.labels import Label

CONTINUOUS = "continuous"

KINDS = ("whole number", "boolean", "decimal", CONTINUOUS, "text")
"""The kinds of :func:`~mergesvm.data.labels.label_kind`, and numbers with a fraction, which are no labels.

Labels are of the first kind that fits all of them.
"""

_NUMERIC_MISSING = {"-NaN", "-nan", "NaN", "nan", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN"}
MISSING = frozenset({"", "#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "n/a", "null"} | _NUMERIC_MISSING)
"""How missing values are written, as in pandas and Arrow."""

BOOLEANS = {text: value for value in (True, False) for text in (str(value), str(value).lower(), str(value).upper())}

_BLANKS = " \t"
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DECIMAL = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?|-?[iI]nf(inity)?")


def as_kind(text: str, kind: str) -> Label | None:
    """Return the value that a text stands for among labels of a kind; None if it does not fit.

    Numbers are written without leading zeros or plus sign, may have blanks around them, and must be exact as int64 or
    float64, so that different numbers are different labels.

    >>> [as_kind(text, "whole number") for text in ("7", " -7", "07", "7.0", "0x7", "9223372036854775808")]
    [7, -7, None, None, None, None]
    >>> [as_kind(text, "decimal") for text in ("7", "7.5", "9007199254740993")], as_kind("07", "text")
    ([7.0, None, None], '07')
    """
    if kind == "text":
        return text
    word = text.strip(_BLANKS)
    if kind == "boolean":
        return BOOLEANS.get(word)
    if kind == "whole number":
        whole = int(word) if _WHOLE.fullmatch(word) else None
        return whole if whole is not None and -(2**63) <= whole < 2**63 else None
    number = float(word) if _DECIMAL.fullmatch(word) else None
    if number is None or not (number.is_integer() or kind == CONTINUOUS):
        return None
    return number if abs(number) < 2**53 or "inf" in word.lower() else None


def fitting_kinds(texts: Iterable[str], kinds: tuple[str, ...] = KINDS) -> tuple[str, ...]:
    """Return those of the kinds that all texts fit.

    >>> fitting_kinds(["0", "1"]), fitting_kinds(["0", "1.0"]), fitting_kinds(["0", "01"])
    (('whole number', 'decimal', 'continuous', 'text'), ('decimal', 'continuous', 'text'), ('text',))
    """
    for text in texts:
        kinds = tuple(kind for kind in kinds if as_kind(text, kind) is not None)
        if kinds == ("text",):
            break
    return kinds


def chosen_kind(kinds: tuple[str, ...], expected: str | None) -> str:
    """Return the first of the fitting kinds, or the expected one if it fits."""
    return expected if expected in kinds else kinds[0]


def value_of(text: str) -> Label:
    """Return the value of a text by itself: an integer, a boolean, or the text.

    >>> [value_of(text) for text in ("7", "7.0", "007", "true", "0.5")]
    [7, 7, '007', True, '0.5']
    """
    kind = chosen_kind(fitting_kinds([text]), None)
    value = as_kind(text, "text" if kind == CONTINUOUS else kind)
    assert value is not None
    return int(value) if kind == "decimal" else value
