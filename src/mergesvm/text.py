"""Pieces of text for messages and summaries."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun, singular or plural, such as "1 row" or "1,000 rows"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
