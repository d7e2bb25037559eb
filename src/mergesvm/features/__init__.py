"""What a row becomes before it is remembered. A map is frozen, and its fingerprint is part of every signature."""

from mergesvm.features.identity import Identity

__all__ = ["Identity"]
