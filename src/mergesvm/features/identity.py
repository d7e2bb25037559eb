"""The map of a linear model: a row stays what it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """Rows as they are, for a linear model.

    >>> from mergesvm.features import Identity
    >>> Identity().fingerprint
    'identity'
    """

    @property
    def fingerprint(self) -> str:
        """What two pieces of knowledge must share to be added; equal maps have equal fingerprints."""
        return "identity"
