"""What the commands share that reproduce papers."""

from __future__ import annotations

from typing import Any

from rich.console import Console as RichConsole

from mergesvm.cli.console import Console
from mergesvm.errors import ParameterError

WIDTH = 118
"""Tables need so much room."""


def whole_numbers(text: str, option: str) -> list[int]:
    """Positive whole numbers, several with commas.

    >>> whole_numbers("1,2,4", "--ranks")
    [1, 2, 4]
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise ParameterError(f"{option} are positive whole numbers, several with commas, not {text!r}.")
    return numbers


def waiting(talk: Console, what: str) -> Any:
    """A sign of life while something takes long."""
    return RichConsole(stderr=True, quiet=talk.silent).status(what)
