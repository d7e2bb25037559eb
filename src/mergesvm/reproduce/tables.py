"""Tables of results, independent of how they are printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

Status = Callable[[str], AbstractContextManager[Any]]
"""Shows a message while its context is active, such as ``rich.console.Console().status``."""


@dataclass(frozen=True)
class ResultTable:
    """A table as text, with a note printed below it; all but the ``text_columns`` hold numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[str] = ()
    note: str = ""
