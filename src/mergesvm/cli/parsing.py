"""Convert option values from text: labels, lists, numbers, categories and class weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mergesvm.errors import ParameterError

if TYPE_CHECKING:
    from mergesvm.data.labels import Label


def as_label(label: str | None, files: Sequence[str]) -> Any:
    """The label column: an index if all files are .npy and the text is a whole number, else a name.

    >>> as_label("-1", ["day.npy"]), as_label("-1", ["day.csv"])
    (-1, '-1')
    """
    if label is not None and label.removeprefix("-").isdecimal() and all(name.endswith(".npy") for name in files):
        return int(label)
    return label


def as_list(texts: Sequence[str] | None) -> list[str] | None:
    """Names from a repeated option, each of which may list several separated by commas.

    >>> as_list(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for text in texts for name in text.split(",") if name.strip()] if texts else None


def as_categories(texts: Sequence[str] | None) -> dict[str, list[str]] | str | None:
    """Categories of columns, each given as ``column=value,value``, or "auto".

    >>> as_categories(["colour=red,blue"]), as_categories(["auto"])
    ({'colour': ['red', 'blue']}, 'auto')
    """
    if not texts or list(texts) == ["auto"]:
        return "auto" if texts else None
    found = {}
    for text in texts:
        column, equals, values = text.partition("=")
        if not equals or not values:
            raise ParameterError(f"Invalid --category {text!r}: write column=value,value,... or auto.")
        found[column] = values.split(",")
    return found


def as_class_weight(text: str | None, classes: Sequence[Label]) -> str | Mapping[Label, float] | None:
    """Class weights: the name of a scheme, or ``class=weight,class=weight``.

    >>> as_class_weight("balanced", ["no", "yes"]), as_class_weight("no=1,yes=2.5", ["no", "yes"])
    ('balanced', {'no': 1.0, 'yes': 2.5})
    >>> as_class_weight("red, round=3,other=1", ["other", "red, round"])
    {'red, round': 3.0, 'other': 1.0}
    """
    if text is None or text == "none":
        return None
    if "=" not in text:
        return text
    known = {str(label): label for label in classes}
    weights: dict[Label, float] = {}
    rest = text
    while rest:
        # Take the longest class name that matches, because names may contain commas and equals signs.
        name = max((each for each in known if rest.startswith(f"{each}=")), key=len, default=None)
        if name is None:
            unknown = rest.split(",")[0].rpartition("=")[0]
            raise ParameterError(
                f"There is no class {unknown!r}, named in --class-weight. Classes: {', '.join(known)}."
            )
        weight, comma, rest = rest[len(name) + 1 :].partition(",")
        try:
            weights[known[name]] = float(weight)
        except ValueError:
            raise ParameterError(f"The weight of class {name!r} must be a number, not {weight!r}.") from None
        if comma and not rest:
            raise ParameterError(f"--class-weight {text!r} ends with a comma. Write class=weight,class=weight.")
    return weights


def as_numbers(text: str, option: str) -> list[float]:
    """Numbers separated by commas.

    >>> as_numbers("1e-2,1,100", "--Cs")
    [0.01, 1.0, 100.0]
    """
    return [as_number(part.strip(), option) for part in text.split(",")]


def as_number(text: str, option: str) -> float:
    """A number; the option is named in the error."""
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{option} must be a number, not {text!r}.") from None
