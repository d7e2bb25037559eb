"""Settings of ``make hunt``: other seeds and more examples than ``make test``, which is the same in every run."""

from __future__ import annotations

import os

SEED = int(os.environ.get("MERGESVM_HUNT", "0"))
"""The seed of a hunt; 0 for the fixed examples of ``make test``."""

FACTOR = 10 if SEED else 1
"""A hunt looks at ten times the examples."""


def examples(count: int) -> int:
    """The number of examples of a property that ``make test`` checks with ``count`` of them."""
    return count * FACTOR


def seed(*numbers: int) -> list[int]:
    """The seed of a numpy generator, another one in every hunt."""
    return [SEED, *numbers] if SEED else list(numbers)
