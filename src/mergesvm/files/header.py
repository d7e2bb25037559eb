"""The JSON header of a file, each field checked for its type as it is read."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from mergesvm.errors import InvalidHeaderError

MAX_NUMBER = 1e100
"""The largest number in files, so that its square is finite."""

CREATE_AGAIN = "Create the file again."
"""What to do about a file that is not valid."""


class Header:
    """The fields of a header; errors name the file and the field.

    >>> header = Header.of('{"width": 3, "names": ["a", "b", "c"]}', "day.knowledge")
    >>> header.whole("width"), header.texts("names")
    (3, ('a', 'b', 'c'))
    >>> header.text("solver")
    Traceback (most recent call last):
    ...
    mergesvm.errors.InvalidHeaderError: The header of day.knowledge has no field 'solver'. Create the file again.
    """

    def __init__(self, fields: dict[str, Any], source: str, cure: str = CREATE_AGAIN, number: int = 1) -> None:
        self.fields = fields
        self.source = source
        self.cure = cure
        self.format = number

    @classmethod
    def of(cls, text: str, source: str, cure: str = CREATE_AGAIN, number: int = 1) -> Header:
        """Parse JSON, without duplicate fields or numbers that are not finite.

        ``cure`` ends the error messages; ``number`` is the format of the file.
        """

        def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            fields = dict(pairs)
            if len(fields) < len(pairs):
                raise ValueError("a field occurs twice")
            return fields

        def refuse(constant: str) -> NoReturn:
            raise ValueError(f"{constant} is not a number")

        try:
            fields = json.loads(text, object_pairs_hook=once, parse_constant=refuse)
        except (ValueError, RecursionError) as error:
            raise InvalidHeaderError(f"The header of {source} is not JSON: {error}.") from None
        if not isinstance(fields, dict):
            raise InvalidHeaderError(f"The header of {source} is not a JSON object.")
        return cls(fields, source, cure, number)

    def within(self, fields: dict[str, Any]) -> Header:
        """Return nested fields, with the same messages."""
        return Header(fields, self.source, self.cure, self.format)

    def refuse(self, what: str) -> NoReturn:
        """Raise an error for an invalid header."""
        raise InvalidHeaderError(f"The header of {self.source} {what}. {self.cure}")

    def take(self, name: str, *kinds: type) -> Any:
        """Return a field of one of these exact types."""
        if name not in self.fields:
            self.refuse(f"has no field {name!r}")
        value = self.fields[name]
        if type(value) not in kinds:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            self.refuse(f"has {_shown(value)} in field {name!r}, where {wanted} is expected")
        if type(value) is float and not math.isfinite(value):
            self.refuse(f"has {value} in field {name!r}, which is not finite")
        return value

    def text(self, name: str, *choices: str) -> str:
        """Return a string, one of the choices if there are any."""
        value: str = self.take(name, str)
        if choices and value not in choices:
            self.refuse(f"has {_shown(value)} in field {name!r}, not one of {', '.join(map(repr, choices))}")
        return value

    def whole(self, name: str, least: int = 0) -> int:
        """Return an integer of at least ``least``."""
        value: int = self.take(name, int)
        if value < least:
            self.refuse(f"has {value} in field {name!r}, where at least {least} is expected")
        return value

    def number(self, name: str) -> float:
        """Return a number of at most :data:`MAX_NUMBER`."""
        value = self.take(name, float, int)
        if abs(value) > MAX_NUMBER:
            self.refuse(f"has {_shown(value)} in field {name!r}, which is too large")
        return float(value)

    def truth(self, name: str) -> bool:
        """Return a boolean."""
        value: bool = self.take(name, bool)
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """Return distinct strings, or None."""
        values = self.take(name, list, type(None))
        if values is None:
            return None
        if not all(type(value) is str for value in values) or len(set(values)) < len(values):
            self.refuse(f"has values other than distinct strings in field {name!r}")
        return tuple(values)

    def parts(self, name: str) -> list[Header]:
        """Return a list of nested objects."""
        values = self.take(name, list)
        if not all(isinstance(value, dict) for value in values):
            self.refuse(f"has values other than objects in field {name!r}")
        return [self.within(value) for value in values]


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < MAX_NUMBER else "a number of many digits"
    return text if len(text) <= 60 else text[:57] + "..."
