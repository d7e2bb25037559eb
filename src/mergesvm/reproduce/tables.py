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
    """A table as text.

    Attributes
    ----------
    title : str
    columns : sequence of str
        Headers.
    rows : sequence of sequences of str
    text_columns : sequence of str
        Headers of the columns that hold text; all others hold numbers.
    note : str
        Explanation printed below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[str] = ()
    note: str = ""
