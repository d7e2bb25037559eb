"""The bodies of requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from mergesvm.tagging.annotations import MAX_TAG_LENGTH
from mergesvm.tagging.strokes import MAX_POINTS

Name = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Tag = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TAG_LENGTH, strip_whitespace=True)]
Key = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TAG_LENGTH)]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

MAX_KEYS = 10_000
"""The largest number of strokes or pictures in one request."""


class Body(BaseModel):
    """A body without fields that are not known."""

    model_config = ConfigDict(extra="forbid")


class NewStroke(Body):
    """A stroke that somebody has drawn. The same key twice is the same stroke."""

    key: Key
    picture: Name
    tag: Tag
    author: Annotated[str, StringConstraints(max_length=MAX_TAG_LENGTH)] = ""
    points: Annotated[list[tuple[Fraction, Fraction]], Field(min_length=1, max_length=MAX_POINTS)]
    width: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.02
    negative: bool = False


class Removal(Body):
    """Strokes to remove, by their keys."""

    keys: Annotated[list[Key], Field(min_length=1, max_length=MAX_KEYS)]


class Forgetting(Body):
    """A tag to forget, in one picture or, without one, in all."""

    tag: Tag
    picture: Name | None = None


class HeatMapsWanted(Body):
    """The pictures to search for a tag, in this order; all pictures by default."""

    tag: Tag
    method: str = "merge"
    pictures: Annotated[list[Name], Field(max_length=1_000_000)] | None = None


Row = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, max_length=10_000)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=1000)] | int


class Rows(Body):
    """Rows of numbers."""

    rows: Annotated[list[Row], Field(min_length=1, max_length=100_000)]


class LabelledRows(Rows):
    """Rows of numbers with a label each."""

    labels: Annotated[list[Label], Field(min_length=1, max_length=100_000)]
